//! `baton doctor` on a real ensemble.

use crate::rig::{ELECTION, Rig, Store as _, Znodes};
use std::process::Command;

#[test]
fn doctor_shows_session_and_leader_and_leaves_no_znode() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    let before = rig.store.queue(ELECTION);
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_baton"));
    doctor.env_clear().args(["doctor", "--election", ELECTION]);
    for (flag, value) in rig.store.flags() {
        doctor.arg(flag).arg(value);
    }
    let output = doctor.output().expect("the program is built");
    let lines = String::from_utf8(output.stdout).expect("lines are text");
    assert_eq!(output.status.code(), Some(0), "{lines}");
    for words in ["connects in", "ok       session    granted", &leader.identity] {
        assert!(lines.contains(words), "{words} is not in {lines}");
    }
    assert_eq!(rig.store.queue(ELECTION), before, "it has joined the queue");
}
