//! `baton doctor` on a real ensemble.

use crate::rig::{ELECTION, Rig, Store as _, Znodes};
use std::process::Command;

/// The exit code and the lines of `baton doctor` on this store.
fn doctor(store: &Znodes) -> (Option<i32>, String) {
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_baton"));
    doctor.env_clear().args(["doctor", "--election", ELECTION]);
    for (flag, value) in store.flags() {
        doctor.arg(flag).arg(value);
    }
    let output = doctor.output().expect("the program is built");
    (output.status.code(), String::from_utf8(output.stdout).expect("lines are text"))
}

#[test]
fn doctor_shows_session_and_leader_and_leaves_no_znode() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    let before = rig.store.queue(ELECTION);
    let (code, lines) = doctor(&rig.store);
    assert_eq!(code, Some(0), "{lines}");
    for words in ["connects in", "ok       session     granted", &leader.identity] {
        assert!(lines.contains(words), "{words} is not in {lines}");
    }
    assert_eq!(rig.store.queue(ELECTION), before, "it has joined the queue");
}

/// Any client may write the announcement, and the terminal must not obey it.
#[test]
fn hostile_announcement_is_shown_on_one_line() {
    let store = Znodes::fresh();
    let announcement = format!("{}_leader", store.make_path(ELECTION));
    let text = "1 x\u{1b}[2J\nok       rights      all";
    store.admin.create(&announcement, text).expect("the path is ours");
    let (code, lines) = doctor(&store);
    assert_eq!(code, Some(0), "{lines}");
    assert!(lines.contains("announced: 1 x?[2J?ok "), "{lines:?}");
}
