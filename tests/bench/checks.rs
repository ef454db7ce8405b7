//! The time of one check whether this machine's sidecar leads: with the status file in shell, Go,
//! and C, beside a request over a kept connection. Go and C read the boot id once.
//!
//! Touches processes and sockets. Start with [`measure`]. The shell runs the function of
//! docs/guides/applications.md, which is what `$(token)` costs: a subshell and four reads. Go and C
//! are compiled here.

use crate::Result;
use crate::client::Connection;
use crate::server::Server;
use crate::table::{Row, Unit};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const GUIDE: &str = include_str!("../../docs/guides/applications.md");
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/status_file");
/// Checks of the compiled programs in one turn.
const CHECKS: u32 = 20_000;
/// Checks in one turn in shell or over a socket, which are slower.
const SLOW_CHECKS: u32 = 2_000;
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn measure() -> Result<Vec<Row>> {
    let folder = TempDir::with_prefix("baton-bench-")?;
    let path = folder.path().join("status");
    let file = path.to_str().ok_or("temporary folders have names in UTF-8")?;
    let leader = Server::over_files(folder.path(), &["--status-file", file])?;
    let (c, go) = (folder.path().join("check-c"), folder.path().join("check-go"));
    compile(Command::new("cc").args(["-O2", "-o"]).arg(&c).arg(format!("{SOURCES}/check.c")))?;
    compile(Command::new("go").args(["build", "-o"]).arg(&go).arg(format!("{SOURCES}/check.go")))?;
    let mut connection = await_leader(&leader)?;

    let begun = Instant::now();
    for _ in 0..SLOW_CHECKS {
        if connection.get_leader()?.status != b"200" {
            return Err("the leader no longer leads".into());
        }
    }
    let request = begun.elapsed().as_secs_f64() * 1e3 / f64::from(SLOW_CHECKS);
    let row = |what: &str, figure| {
        Row::new(what, Unit::Milliseconds, figure).against("a request", request)
    };
    Ok(vec![
        row("one check of the status file in C", program(&c, file)?),
        row("the same in Go, with a parser of JSON", program(&go, file)?),
        row("the same in shell (sh), with the guide's function", shell(file)?),
    ])
}

fn compile(command: &mut Command) -> Result<()> {
    let compiled = command.status()?;
    if compiled.success() { Ok(()) } else { Err(format!("{command:?}: {compiled}").into()) }
}

/// A connection to the leader, once it leads.
fn await_leader(leader: &Server) -> Result<Connection> {
    let mut connection = Connection::open(&leader.address)?;
    let begun = Instant::now();
    while connection.get_leader()?.status != b"200" {
        if begun.elapsed() > PATIENCE {
            return Err(format!("a single candidate does not lead after {PATIENCE:?}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(connection)
}

/// The milliseconds of one check of a compiled program, which prints nanoseconds.
fn program(program: &Path, file: &str) -> Result<f64> {
    let output = Command::new(program).arg(file).arg(CHECKS.to_string()).output()?;
    if !output.status.success() {
        return Err(format!("{}: the file did not say that it leads", program.display()).into());
    }
    let nanoseconds: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
    Ok(nanoseconds / 1e6)
}

/// The milliseconds of one call of the guide's function.
fn shell(file: &str) -> Result<f64> {
    let example = GUIDE.split("```shell\n").nth(1).and_then(|rest| rest.split("while ").next());
    let function = example.ok_or("the guide has a loop in shell")?;
    let script = format!(
        "{function}\ni=0; while [ $i -lt {SLOW_CHECKS} ]; do t=$(token) || exit 1; i=$((i + 1)); done"
    );
    let begun = Instant::now();
    let ended = Command::new("sh").args(["-c", &script]).env("STATUS_FILE", file).status()?;
    let elapsed = begun.elapsed();
    if !ended.success() {
        return Err("sh: the file did not say that it leads".into());
    }
    Ok(elapsed.as_secs_f64() * 1e3 / f64::from(SLOW_CHECKS))
}
