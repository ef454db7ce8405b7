//! `baton observe`: prints the leader, and takes no part in the election.

use crate::rig::{ELECTION, Rig, Store, eventually, over_every_store};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};

over_every_store! {
    observer_prints_each_change_and_takes_no_part,
}

/// A running observer, which is killed at the end of the test.
struct Observer {
    process: Child,
    lines: PathBuf,
}

impl Observer {
    fn of<S: Store>(rig: &Rig<S>) -> Self {
        let lines = rig.folder().join("lines");
        let output = File::create(&lines).expect("the folder is ours");
        let mut observe = Command::new(env!("CARGO_BIN_EXE_baton"));
        observe.env_clear().args(["observe", "--output", "json", "--election", ELECTION]);
        let timing = rig.timing;
        for (flag, duration) in [
            ("--lease-duration", timing.lease_duration),
            ("--renew-deadline", timing.renew_deadline),
            ("--retry-period", timing.retry_period),
            ("--answer-validity", timing.answer_validity),
        ] {
            observe.arg(flag).arg(format!("{duration:?}"));
        }
        for (flag, value) in rig.store.flags() {
            observe.arg(flag).arg(value);
        }
        let process = observe.stdout(output).spawn().expect("the program is built");
        Self { process, lines }
    }

    /// The leaders that it has printed.
    fn leaders(&self) -> Vec<Option<String>> {
        let text = fs::read_to_string(&self.lines).expect("the file is ours");
        let leader = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            assert_eq!(line["election"], ELECTION);
            line["leader"].as_str().map(str::to_owned)
        };
        text.lines().map(leader).collect()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn observer_prints_each_change_and_takes_no_part<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let bound = S::NOISE * 4 + rig.timing.retry_period * 3;
    let mut observer = Observer::of(&rig);
    eventually(bound, "it sees that there is no leader", || observer.leaders() == [None]);
    let first = rig.start_leader("a");
    let leads = |leader: &str| observer.leaders().last() == Some(&Some(leader.to_owned()));
    eventually(bound, "it names the first leader", || leads(&first.identity));
    let [second] = rig.start_followers(["b"]);
    rig.wait_for_answers();
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    eventually(bound, "it names the second leader", || leads(&second.identity));
    second.terminate();
    assert_eq!(second.exit_code(), 0);
    eventually(bound, "it sees that there is no leader", || {
        observer.leaders().last() == Some(&None)
    });
    assert_eq!(rig.store.holder(ELECTION), "", "the observer holds the election");
    let pid = Pid::from_child(&observer.process);
    kill_process(pid, Signal::TERM).expect("it runs");
    assert_eq!(observer.process.wait().expect("it is our child").code(), Some(0));
}
