//! A store that is set back to an earlier state, as an operator does after a disaster.

use super::PATIENCE;
use crate::rig::{
    ELECTION, Etcd, EtcdKeys, EtcdSettings, Rig, Store as _, Timing, eventually, throughout,
};
use std::fs;
use std::path::Path;

/// Durations with slack for a restart on a busy machine. A follower without a watch reads only every
/// twenty seconds.
const PATIENT: Timing = Timing::of_ms(60_000, 45_000, 10_000, 1000);

/// How many revisions the restore loses.
const REVISIONS: u32 = 200;

impl Etcd {
    fn save(&mut self) {
        self.member(0).server.kill();
        copy(&self.folder().join("0"), &self.folder().join("kept"));
        self.restart();
    }

    /// Sets the store back to what [`Self::save`] saved. Revisions go back too.
    fn set_back(&mut self) {
        self.member(0).server.kill();
        fs::remove_dir_all(self.folder().join("0")).expect("the folder is ours");
        copy(&self.folder().join("kept"), &self.folder().join("0"));
        self.restart();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is ours");
    for entry in fs::read_dir(from).expect("it exists").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("the folder is ours");
        }
    }
}

#[test]
fn restored_store_ends_a_newer_term_with_an_error() {
    let mut etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let first = rig.start_leader("first");
    rig.wait_for_answers();
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    etcd.save();
    let second = rig.start_leader("second");
    etcd.set_back();
    eventually(PATIENCE, "it loses its term", || !second.events("lost").is_empty());
    assert_eq!(second.exit_code(), 75);
    let events = second.events("store_went_back");
    assert_eq!(events.last().map(|event| event["level"] == "ERROR"), Some(true), "it logs why");
}

#[test]
fn followers_watch_again_after_the_store_was_set_back() {
    let mut etcd = Etcd::start(EtcdSettings::default());
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    // Its term began before the copy, so it continues.
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    etcd.save();
    for edit in 0..REVISIONS {
        rig.store.admin.put("/other", &edit.to_string());
    }
    let before = rig.store.written(ELECTION);
    eventually(PATIENCE, "the follower sees a revision that will be lost", || {
        rig.store.written(ELECTION) > before
    });
    let lost = rig.store.admin.revision();
    etcd.set_back();
    let back = rig.store.written(ELECTION);
    eventually(PATIENCE, "the leader renews", || rig.store.written(ELECTION) > back);
    throughout(rig.timing.retry_period / 2, "both are healthy", || {
        leader.is_healthy() && follower.is_healthy()
    });
    assert!(rig.store.admin.revision() < lost, "the revisions have not caught up");
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    // A watch that starts at the lost revision would be deaf.
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}
