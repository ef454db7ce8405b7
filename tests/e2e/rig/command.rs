//! Runs programs for tests, and reads the variables that `run.sh` sets.

use std::env;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Runs a program with `input` on standard input. Returns standard output, or an error with both
/// outputs.
pub(crate) fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| format!("failed to start {program}: {error}"))?;
    // A program that exits early prints its own error.
    drop(child.stdin.take().expect("standard input is piped").write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    if output.status.success() {
        Ok(stdout)
    } else {
        Err(format!("{}: {stderr}{stdout}", output.status))
    }
}

/// A variable that `run.sh` sets: `ENGINE`, `BATON_IMAGE`, and others.
pub(crate) fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `make e2e`"))
}
