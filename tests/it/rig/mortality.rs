//! That nothing outlives the test binary, however that ends.

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

/// Tells this test that it is the process that is to be killed.
const VICTIM: &str = "BATON_TEST_VICTIM";

#[test]
fn servers_candidates_and_folders_are_gone_when_the_test_binary_is_killed() {
    if env::var_os(VICTIM).is_some() {
        be_the_victim();
    }
    let mut victim = Command::new(env::current_exe().unwrap());
    victim.args(["--exact", thread::current().name().unwrap(), "--nocapture"]).env(VICTIM, "yes");
    let mut victim = victim.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let told =
        lines.filter_map(|line| line.strip_prefix("left behind: ").map(str::to_owned)).take(3);
    let told: Vec<String> = told.collect();
    assert!(told.len() == 3 && told.iter().all(|path| Path::new(path).exists()), "{told:?}");

    victim.kill().unwrap();
    victim.wait().unwrap();
    for path in told {
        eventually(PATIENCE, &format!("{path} is gone"), || !Path::new(&path).exists());
    }
}

#[expect(clippy::print_stdout, reason = "the other process reads it")]
fn be_the_victim() -> ! {
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
