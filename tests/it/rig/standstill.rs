//! A case that fails during a pause of its process runs again, and the run reports the reason.

use super::daemon::Daemon;
use super::scratch::Scratch;
use super::{eventually, throughout, wait_for};
use std::env;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// How long the other process is paused, and the pause that its case fails on.
const PAUSE: Duration = Duration::from_millis(800);
const LONG: Duration = Duration::from_millis(500);

/// Set in the process that this test pauses.
const VICTIM: &str = "BATON_TEST_PAUSED";

#[test]
fn case_that_fails_during_a_pause_runs_again() {
    if env::var_os(VICTIM).is_some() {
        return fail_over_a_pause();
    }
    let folder = Scratch::new();
    let log = folder.path().join("log");
    let program = env::current_exe().unwrap().to_str().unwrap().to_owned();
    let name = thread::current().name().unwrap().to_owned();
    let flags =
        [&format!("{VICTIM}=yes"), &program, "--exact", &name, "--nocapture"].map(str::to_owned);
    let mut victim = Daemon::start("env".into(), flags.to_vec(), &log);
    let output = || fs::read_to_string(&log).unwrap();
    eventually(PATIENCE, "the other process runs its case", || {
        output().contains("waits to be paused")
    });

    victim.pause();
    throughout(PAUSE, "nothing moves", || !output().contains("runs again"));
    victim.resume();
    let code = wait_for(PATIENCE, "the other process ends", || victim.exit_code());
    assert_eq!(code, 0, "{}", output());
    assert!(
        output().contains(&format!("noise: {name} runs again: a sleeping thread woke late by")),
        "{}",
        output()
    );
    eventually(PATIENCE, "the list comes at the end", || {
        output().contains("noise: 1 of 1 cases ran again:")
    });
}

/// Waits for the pause and fails on it, as a test fails on a late answer; in its first run only.
#[expect(clippy::print_stdout, reason = "the other process reads it")]
fn fail_over_a_pause() {
    static HAS_FAILED: AtomicBool = AtomicBool::new(false);
    if HAS_FAILED.swap(true, Ordering::Relaxed) {
        return;
    }
    println!("waits to be paused");
    let begun = Instant::now();
    let mut last_check = begun;
    while begun.elapsed() < PATIENCE {
        let took = last_check.elapsed();
        assert!(took < LONG, "an answer took {took:?}");
        last_check = Instant::now();
        thread::sleep(Duration::from_millis(5));
    }
}
