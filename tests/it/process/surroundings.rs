//! Ports, directories, and disks that are taken, unwritable, missing, or full.

use crate::rig::{Candidate, Disk, ELECTION, Files, NOISE, Rig, Timing, eventually, throughout};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn address_in_use_is_refused_by_name() {
    let rig = Rig::new(Timing::FAST);
    let first = rig.start_leader("a");

    for (flag, address) in [("--listen", &first.listen), ("--probe-listen", &first.probe_listen)] {
        let (code, output) = rig.candidate("b").flag(flag, address).ends();
        assert_eq!(code, 2, "{flag}: {output}");
        assert!(output.contains(address), "{flag} {address} is not named: {output}");
    }
    throughout(rig.timing.renew_deadline, "the first keeps leading", || {
        rig.has_standing(&first, "leading")
    });
}

#[test]
fn flag_of_another_store_is_reported_at_the_start() {
    let rig = Rig::new(Timing::FAST);
    let leader = rig.candidate("a").flag("--etcd-prefix", "/baton").start();
    assert_eq!(rig.leader().identity, leader.identity);
    rig.wait_for_answers();
    let warnings = leader.events("unused_flag");
    assert_eq!(warnings.len(), 1, "{}", leader.output());
    let message = warnings[0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("--etcd-prefix does nothing with --backend file"), "{message}");
}

#[test]
fn unwritable_directory_is_refused_by_name() {
    let rig = Rig::new(Timing::FAST);
    let missing = rig.folder().join("missing");
    let file = rig.folder().join("file");
    fs::write(&file, "").expect("the folder is ours");
    let below = rig.folder().join("read-only");
    fs::create_dir(&below).expect("the folder is new");
    let read_only = Disk::mount(&below, "size=64k,ro");

    for directory in [&missing, &file, &read_only.path] {
        let (code, output) = rig.candidate("a").directory(directory).ends();
        assert_eq!(code, 2, "{}: {output}", directory.display());
        assert!(output.contains(path(directory)), "{} is not named: {output}", directory.display());
    }

    // The same command works with a directory.
    let first = rig.start_leader("a");
    throughout(rig.timing.renew_deadline, "it keeps leading", || {
        rig.has_standing(&first, "leading")
    });
}

#[test]
fn outage_within_the_slack_has_no_effect() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    rig.start_followers(["b"]);

    let outage = Outage::begin(rig.store.directory());
    throughout(2 * rig.timing.retry_period, "the leader is healthy", || leader.is_healthy());
    outage.end();
    throughout(rig.timing.renew_deadline, "the leader keeps leading", || rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

#[test]
fn missing_directory_ends_the_term_and_no_follower() {
    let rig = Rig::new(Timing::FAST);
    let old = rig.start_leader("a");
    let followers = rig.start_followers(["b", "c", "d"]);

    // First the same directory returns, then a copy of it: other inodes under the same name.
    let new = recover(&rig, &old, &followers, Outage::end);
    let followers: Vec<_> =
        followers.into_iter().filter(|follower| follower.identity != new.identity).collect();
    recover(&rig, &new, &followers, Outage::end_with_a_copy);
}

/// Removes the directory until the leader has lost its term. Returns the next leader.
fn recover(
    rig: &Rig,
    leader: &Candidate,
    followers: &[Arc<Candidate>],
    end: fn(Outage),
) -> Arc<Candidate> {
    let outage = Outage::begin(rig.store.directory());
    let begun = rig.now();
    rig.must_not_lead(leader, begun + rig.timing.renew_deadline, "its deadline had passed");
    leader.loses(rig.timing.renew_deadline + NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);

    throughout(rig.timing.takeover(), "the followers are healthy and do not lead", || {
        !rig.has_successor(leader, begun)
            && followers
                .iter()
                .all(|follower| follower.is_healthy() && follower.probe("/readyz") == 200)
    });
    for follower in followers {
        assert!(!follower.events("store_unreachable").is_empty(), "{}", follower.output());
    }
    let ended = rig.now();
    end(outage);
    rig.successor(leader, ended, rig.timing.takeover() + NOISE).0
}

#[test]
fn replaced_directory_is_watched_again() {
    let rig = Rig::new(Timing::of_ms(10_000, 8000, 2000, 200));
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);

    Outage::begin(rig.store.directory()).end_with_a_copy();
    // After two retry periods without a watch event, a follower polls, and finds the new directory.
    throughout(2 * rig.timing.retry_period + NOISE, "the leader keeps leading", || {
        rig.has_standing(&old, "leading")
    });
    let signaled = old.terminate();
    rig.successor(&old, signaled, rig.timing.answer_validity + Duration::from_millis(100) + NOISE);
    assert_eq!(old.exit_code(), 0);
}

#[test]
fn leader_stops_cleanly_without_the_directory() {
    let rig = Rig::new(Timing::FAST);
    let old = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);

    let outage = Outage::begin(rig.store.directory());
    let signaled = old.terminate();
    assert_eq!(old.exit_code(), 0, "its last promise had expired");
    let stopped = old.events("stopped").pop().expect("it logs how it stopped");
    let release = stopped["release"].as_str();
    assert!(matches!(release, Some("unconfirmed" | "expired")), "nothing was released: {stopped}");
    follower.terminate();
    assert_eq!(follower.exit_code(), 0, "it has nothing to release");
    outage.end();

    assert!(rig.holds(&old), "the unreleased claim must expire");
    rig.start("c");
    rig.successor(&old, signaled, rig.timing.renew_deadline + rig.timing.takeover() + 2 * NOISE);
}

#[test]
fn full_disk_ends_the_term_and_corrupts_nothing() {
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    let disk = Disk::mount(folder.path(), "size=256k");
    let rig = Rig::over(Files::at(&disk.path), Timing::FAST);
    let old = rig.start_leader("a");
    let followers = rig.start_followers(["b", "c"]);

    // Each renewal frees the previous record's page, so fill the disk until none is left.
    let begun = rig.now();
    eventually(2 * rig.timing.renew_deadline + NOISE, "the leader loses its term", || {
        disk.fill();
        !old.events("lost").is_empty()
    });
    old.loses(NOISE, "deadline");
    assert_eq!(old.exit_code(), 75);

    throughout(
        rig.timing.takeover(),
        "the followers are healthy, and the record is intact",
        || {
            disk.fill();
            rig.holds(&old)
                && !rig.has_successor(&old, begun)
                && followers.iter().all(|follower| follower.is_healthy())
        },
    );

    let freed = rig.now();
    disk.free();
    rig.successor(&old, freed, rig.timing.takeover() + NOISE);
    eventually(NOISE, "no temporary file is left", || {
        rig.store.files(ELECTION).iter().all(|name| Path::new(name).extension().is_none())
    });
}

/// A time in which the store's directory is missing.
struct Outage {
    directory: PathBuf,
    away: PathBuf,
}

impl Outage {
    fn begin(directory: &Path) -> Self {
        let away = directory.with_extension("away");
        fs::rename(directory, &away).expect("the folder is ours");
        Self { directory: directory.to_owned(), away }
    }

    fn end(self) {
        fs::rename(&self.away, &self.directory).expect("the folder is ours");
    }

    /// Restores the directory as a copy.
    fn end_with_a_copy(self) {
        let copy = self.directory.with_extension("copy");
        let copied = Command::new("cp").arg("-r").args([&self.away, &copy]).status();
        assert!(copied.expect("coreutils are installed").success());
        fs::rename(&copy, &self.directory).expect("the folder is ours");
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("the paths of the rig are UTF-8")
}
