//! Ports, directories and disks that are taken, unwritable, away or full.

use crate::rig::{Candidate, Disk, ELECTION, Files, NOISE, Rig, Timing, eventually, throughout};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn an_address_in_use_is_refused_by_its_name() {
    let rig = Rig::new(Timing::FAST);
    let first = rig.start_leader("a");

    for (flag, address) in [("--listen", &first.listen), ("--probe-listen", &first.probe_listen)] {
        let (code, output) = rig.candidate("b").flag(flag, address).ends();
        assert_eq!(code, 2, "{flag}: {output}");
        assert!(output.contains(address), "{flag} {address} is not named: {output}");
    }
    throughout(rig.timing.renew_deadline, "the first leads on", || rig.stands(&first, "leading"));
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_by_its_name() {
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

    // The same command, where there is a directory.
    let first = rig.start_leader("a");
    throughout(rig.timing.renew_deadline, "it leads on", || rig.stands(&first, "leading"));
}

#[test]
fn an_outage_within_the_slack_changes_nothing() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    rig.start_followers(["b"]);

    let outage = Outage::begin(rig.store.directory());
    throughout(2 * rig.timing.retry_period, "the leader is well", || leader.is_healthy());
    outage.end();
    throughout(rig.timing.renew_deadline, "the leader leads on", || rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

#[test]
fn a_directory_that_vanishes_costs_one_term_and_no_follower() {
    let rig = Rig::new(Timing::FAST);
    let old = rig.start_leader("a");
    let followers = rig.start_followers(["b", "c", "d"]);

    // The same directory again, and then a copy of it: another place on the disk under the same name.
    let new = survive(&rig, &old, &followers, Outage::end);
    let followers: Vec<_> =
        followers.into_iter().filter(|follower| follower.identity != new.identity).collect();
    survive(&rig, &new, &followers, Outage::end_with_a_copy);
}

/// Takes the directory away from a leader until it has lost, and gives it back: who leads then.
fn survive(
    rig: &Rig,
    leader: &Candidate,
    followers: &[Arc<Candidate>],
    end: fn(Outage),
) -> Arc<Candidate> {
    let outage = Outage::begin(rig.store.directory());
    let begun = rig.now();
    rig.must_be_silent(leader, begun + rig.timing.renew_deadline, "its deadline had passed");
    leader.loses(rig.timing.renew_deadline + NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);

    throughout(rig.timing.takeover(), "the followers stay, are well and do not lead", || {
        !rig.succeeded(leader, begun)
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
fn a_directory_that_was_replaced_is_watched_again() {
    let rig = Rig::new(Timing::of_ms(10_000, 8000, 2000, 200));
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);

    Outage::begin(rig.store.directory()).end_with_a_copy();
    // A follower looks by itself when it has heard nothing for two retry periods, and finds that it watched the old one.
    throughout(2 * rig.timing.retry_period + NOISE, "the leader leads on", || {
        rig.stands(&old, "leading")
    });
    let asked = old.terminate();
    rig.successor(&old, asked, rig.timing.answer_validity + Duration::from_millis(100) + NOISE);
    assert_eq!(old.exit_code(), 0);
}

#[test]
fn a_leader_that_is_asked_to_stop_while_the_directory_is_away_keeps_nobody_waiting() {
    let rig = Rig::new(Timing::FAST);
    let old = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);

    let outage = Outage::begin(rig.store.directory());
    let asked = old.terminate();
    assert_eq!(old.exit_code(), 0, "its last promise had run out");
    let stopped = old.events("stopped").pop().expect("it says how it stopped");
    let release = stopped["release"].as_str();
    assert!(matches!(release, Some("unconfirmed" | "expired")), "nothing was released: {stopped}");
    follower.terminate();
    assert_eq!(follower.exit_code(), 0, "it has nothing to give back");
    outage.end();

    assert!(rig.holds(&old), "what could not be released runs out");
    rig.start("c");
    rig.successor(&old, asked, rig.timing.renew_deadline + rig.timing.takeover() + 2 * NOISE);
}

#[test]
fn a_full_disk_costs_the_term_and_tears_nothing() {
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    let disk = Disk::mount(folder.path(), "size=256k");
    let rig = Rig::over(Files::at(&disk.path), Timing::FAST);
    let old = rig.start_leader("a");
    let followers = rig.start_followers(["b", "c"]);

    // Each renewal frees the page of the record before: fill until there is none.
    let begun = rig.now();
    eventually(2 * rig.timing.renew_deadline + NOISE, "the leader loses its term", || {
        disk.fill();
        !old.events("lost").is_empty()
    });
    old.loses(NOISE, "deadline");
    assert_eq!(old.exit_code(), 75);

    throughout(
        rig.timing.takeover(),
        "the followers stay and are well, and the record is whole",
        || {
            disk.fill();
            rig.holds(&old)
                && !rig.succeeded(&old, begun)
                && followers.iter().all(|follower| follower.is_healthy())
        },
    );

    let freed = rig.now();
    disk.free();
    rig.successor(&old, freed, rig.timing.takeover() + NOISE);
    eventually(NOISE, "no unfinished file is left", || {
        rig.store.files(ELECTION).iter().all(|name| Path::new(name).extension().is_none())
    });
}

/// A time in which the store's directory is not there.
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

    /// Brings back copies of the files.
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
