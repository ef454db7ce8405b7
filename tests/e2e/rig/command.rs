//! Programs that a test runs, as a person would type them, and what it is told by its environment.

use std::env;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Runs a program to its end, with `input` on its standard input: what it printed, or what it complained of.
pub(crate) fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| format!("{program} cannot be started: {error}"))?;
    // Whoever ends without reading it will say why.
    drop(child.stdin.take().expect("it is piped").write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let [told, complained] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    if output.status.success() {
        Ok(told)
    } else {
        Err(format!("{}: {complained}{told}", output.status))
    }
}

/// What `run.sh` says of this run: `ENGINE`, `BATON_IMAGE`…
pub(crate) fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `make e2e`"))
}
