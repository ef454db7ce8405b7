//! Nothing outlives the test binary, however it ends.

use super::daemon::Daemon;
use super::scratch::Scratch;
use crate::rig::{Rig, Timing, eventually};
use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// Set in the process that this test kills.
const VICTIM: &str = "BATON_TEST_VICTIM";

#[test]
fn servers_candidates_and_folders_end_with_the_test_binary() {
    if env::var_os(VICTIM).is_some() {
        run_as_victim();
    }
    let mut victim = Command::new(env::current_exe().unwrap());
    victim.args(["--exact", thread::current().name().unwrap(), "--nocapture"]).env(VICTIM, "yes");
    let mut victim = victim.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let paths =
        lines.filter_map(|line| line.strip_prefix("left behind: ").map(str::to_owned)).take(3);
    let paths: Vec<String> = paths.collect();
    assert!(paths.len() == 3 && paths.iter().all(|path| Path::new(path).exists()), "{paths:?}");

    victim.kill().unwrap();
    victim.wait().unwrap();
    for path in paths {
        eventually(PATIENCE, &format!("{path} is gone"), || !Path::new(&path).exists());
    }
}

#[expect(clippy::print_stdout, reason = "the other process reads it")]
fn run_as_victim() -> ! {
    let folder = Scratch::new();
    let daemon = Daemon::start("sleep".into(), vec!["600".to_owned()], &folder.path().join("log"));
    let rig = Rig::new(Timing::FAST);
    let candidate = rig.start("candidate");
    let (daemon, candidate, folder) = (daemon.pid(), candidate.pid(), folder.path().display());
    println!(
        "\nleft behind: /proc/{daemon}\nleft behind: /proc/{candidate}\nleft behind: {folder}"
    );
    loop {
        thread::park();
    }
}
