//! Failures that no slow machine causes fail the run at once, even on a noisy machine.

use super::{Rig, Timing, lock, wait_for};
use crate::noise::{Assumption, assume};
use rustix::process::{Pid, Signal, kill_process};
use std::env;
use std::process::Command;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// Set to the name of a fault in the process that this test starts.
const FAULT: &str = "BATON_TEST_FAULT";

/// Each runs in its own process, because it makes every failure of a run count.
const FAULTS: [&str; 3] = ["signal", "panic", "prober"];

#[test]
fn failures_that_no_delay_explains_count_at_once() {
    if let Ok(fault) = env::var(FAULT) {
        return fail_by(&fault);
    }
    for fault in FAULTS {
        let mut faulty = Command::new(env::current_exe().unwrap());
        faulty
            .args(["--exact", thread::current().name().unwrap(), "--nocapture"])
            .env(FAULT, fault);
        let output = faulty.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{fault}: {stderr}");
        assert!(
            stderr.contains("a rule was broken that no noise excuses, though"),
            "{fault}: {stderr}"
        );
        assert!(!stderr.contains("runs again"), "{fault}: {stderr}");
    }
}

/// Fails by this fault, on a machine that is never quiet enough.
fn fail_by(fault: &str) {
    assume(const { &[Assumption::TasksPerProcessor(-1.0)] });
    let rig = Rig::new(Timing::FAST);
    let candidate = rig.start_leader("candidate");
    rig.wait_for_answers();
    match fault {
        "signal" => {
            let pid = Pid::from_raw(candidate.pid().cast_signed()).unwrap();
            kill_process(pid, Signal::ABORT).unwrap();
            wait_for(PATIENCE, "it ends", || candidate.ended());
        }
        "panic" => {
            rig.journal.note(&candidate.label, "thread 'main' panicked at src/main.rs:1:1:");
        }
        "prober" => lock(&rig.probers).push(thread::spawn(|| panic!("a strange answer"))),
        other => panic!("{FAULT} is {other}"),
    }
}
