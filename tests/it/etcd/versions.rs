//! Other versions of etcd than 3.6: each serves an election, and an upgrade ends no term.

use super::PATIENCE;
use crate::rig::{
    ELECTION, Etcd, EtcdKeys, EtcdSettings, EtcdVersion, Rig, Store as _, Timing, eventually,
    throughout,
};
use std::time::Duration;

/// Durations with slack for an election among the members (1 to 3 s), twice.
const PATIENT: Timing = Timing::of_ms(15_000, 10_000, 1000, 1000);

#[test]
fn etcd_3_5_serves_an_election() {
    serves_an_election(EtcdVersion::V3_5, "3.5.");
}

#[test]
fn etcd_3_7_serves_an_election() {
    serves_an_election(EtcdVersion::V3_7, "3.7.");
}

/// Renewals, a release that the watch reports, a loss of a member, compaction, and a deletion.
fn serves_an_election(version: EtcdVersion, begins: &str) {
    let mut etcd = Etcd::start(EtcdSettings { version, ..EtcdSettings::cluster() });
    assert!(etcd.version(0).starts_with(begins), "{}", etcd.version(0));
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let first = rig.start_leader("first");
    let [second] = rig.start_followers(["second"]);
    let at = etcd.leader();
    etcd.member(at).server.kill();
    let before = rig.store.record(ELECTION);
    eventually(PATIENCE, "a member is killed, and the leader renews", || {
        let now = rig.store.record(ELECTION);
        !now.is_null() && now != before
    });
    etcd.member(at).server.restart();
    etcd.await_serving();
    rig.store.admin.compact();
    throughout(2 * rig.timing.retry_period, "both are healthy", || {
        first.is_healthy() && second.is_healthy()
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    let (new, _) = rig.successor(&first, rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, second.identity);
    rig.store.remove(ELECTION);
    second.loses(EtcdKeys::NOISE, "deleted");
    assert_eq!(second.exit_code(), 75);
}

/// Users, tokens, and errors have other shapes before 3.6.
#[test]
fn etcd_3_5_refuses_as_3_6_does() {
    let version = EtcdVersion::V3_5;
    let etcd = Etcd::start(EtcdSettings { version, is_opaque: true, ..EtcdSettings::default() });
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::FAST);
    for order in [
        &["user", "add", "root:root"][..],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        etcd.etcdctl(order);
    }
    let file = |text: &str| {
        let file = rig.folder().join(text.replace(':', "-"));
        std::fs::write(&file, text).expect("the folder is ours");
        file.display().to_string()
    };
    let wrong = rig.candidate("wrong").flag("--etcd-user-file", file("root:wrong")).start();
    let nobody = rig.start("nobody");
    let right = rig.candidate("right").flag("--etcd-user-file", file("root:root")).start();
    assert_eq!(rig.leader().identity, right.identity);
    for (candidate, cause) in [
        (wrong, "etcd refused the user and password in --etcd-user-file"),
        (nobody, "pass --etcd-user-file"),
    ] {
        assert_eq!(candidate.exit_code(), 77, "{}", candidate.output());
        assert!(candidate.output().contains(cause), "{}", candidate.output());
    }
    rig.wait_for_answers();
}

/// One member after another, as etcd's documentation of upgrades has it.
#[test]
fn rolling_upgrade_from_3_5_to_3_6_costs_no_term() {
    let version = EtcdVersion::V3_5;
    let mut etcd = Etcd::start(EtcdSettings { version, ..EtcdSettings::cluster() });
    let rig = Rig::over(EtcdKeys::on(&etcd), PATIENT);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    for at in 0..3 {
        assert!(etcd.version(at).starts_with("3.5."));
        etcd.change_version(at, EtcdVersion::V3_6);
        assert!(etcd.version(at).starts_with("3.6."));
        throughout(Duration::from_secs(2), "both are healthy", || {
            leader.is_healthy() && follower.is_healthy()
        });
    }
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("lost").len(), 0);
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
}
