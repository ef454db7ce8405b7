//! Changes by others to an election's path: foreign names, unreadable znodes, a saturated counter,
//! and a path that is deleted or reaped.

use super::{PATIENCE, messages};
use crate::rig::{
    ELECTION, Ensemble, Rig, Settings, Store as _, Znodes, eventually, throughout, wait_for,
};
use std::time::Duration;
use zookeeper_client::wire::Code;

/// The bound on a handoff, counted from the signal to the leader.
const HANDOFF: Duration = Duration::from_millis(1100).saturating_add(Znodes::NOISE);

/// The sequence numbers in an election's queue.
fn numbers(rig: &Rig<Znodes>) -> Vec<String> {
    rig.store.queue(ELECTION).iter().map(|path| path[path.len() - 10..].to_owned()).collect()
}

#[test]
fn children_without_a_session_are_ignored() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    let foreign = ["n", "ü-latch-ß", "選挙000000000٣", "latch-", "_c_a-latch-0000000000", "é"];
    for name in foreign {
        rig.store.admin.create(&format!("{}/{name}", rig.store.path(ELECTION)), "x").unwrap();
    }
    let signaled = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    assert_eq!(rig.successor(&leader, signaled, HANDOFF).0.identity, follower.identity);
    let ignored = messages(&follower, "idle_znode");
    assert_eq!(ignored.len(), foreign.len(), "each is logged once: {ignored:?}");
    assert!(ignored.iter().any(|message| message.contains("選挙")));
    assert_eq!(messages(&follower, "strange_candidates").len(), 1);
}

#[test]
fn foreign_predecessor_is_awaited_until_its_session_ends() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = rig.start_leader("a");
    let foreign = format!("{}/not-a-number", rig.store.path(ELECTION));
    rig.store.admin.create_ephemeral(&foreign).unwrap();
    throughout(rig.timing.lease_duration, "the present leader keeps leading", || {
        rig.store.admin.read(&foreign).is_ok() && leader.is_healthy()
    });
    let [follower] = rig.start_followers(["b"]);
    let signaled = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    throughout(rig.timing.lease_duration, "the foreign candidate may believe it leads", || {
        rig.store.admin.read(&foreign).is_ok() && !rig.has_successor(&leader, signaled)
    });
    let left = rig.now();
    rig.store.admin.delete(&foreign).unwrap();
    assert_eq!(rig.successor(&leader, left, HANDOFF).0.identity, follower.identity);
}

#[test]
fn leader_withdraws_when_its_znode_is_deleted() {
    // Renewals are two seconds apart, so only the watch reports the deletion this soon.
    let rig = Rig::over(Znodes::fresh(), Znodes::SLOW);
    let leader = rig.start_leader("a");
    rig.store.remove(ELECTION);
    let deleted = rig.now();
    leader.loses(Znodes::NOISE, "deleted");
    rig.must_not_lead(&leader, deleted + Znodes::NOISE, "its znode is gone");
    assert_eq!(leader.exit_code(), 75);
    eventually(PATIENCE, "its last promise expires", || rig.now() > rig.last_promise(&leader));
    rig.start_leader("b");
    rig.wait_for_answers();
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

#[test]
fn unreadable_predecessor_is_awaited_and_succeeded() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let hidden = format!("{path}/_c_other-latch-0000000000");
    rig.store.admin.create_ephemeral(&hidden).unwrap();
    rig.store.admin.hide(&hidden).unwrap();
    let candidate = rig.start("a");
    eventually(PATIENCE, "it follows a leader that it cannot name", || {
        rig.has_standing(&candidate, "following")
    });
    eventually(PATIENCE, "the missing right is logged", || {
        messages(&candidate, "store_refuses")
            .iter()
            .any(|message| message.contains("--zookeeper-auth-file"))
    });
    throughout(2 * rig.timing.lease_duration, "it waits and is healthy", || {
        candidate.is_healthy()
            && rig.has_standing(&candidate, "following")
            && numbers(&rig).len() == 2
    });
    let left = rig.now();
    rig.store.admin.delete(&hidden).unwrap();
    eventually(
        HANDOFF + rig.timing.retry_period,
        "without a watch, it checks once a retry period and leads",
        || rig.has_standing(&candidate, "leading"),
    );
    let led = rig.first_promise(&candidate).expect("it leads");
    assert!(led >= left);
    rig.wait_for_answers();
}

#[test]
fn saturated_counter_blocks_joins_until_the_path_is_recreated() {
    let mut ensemble = Ensemble::start(Settings::default());
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    ensemble.set_counter(&path, i32::MAX - 2);

    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    let late = rig.start("c");
    rig.wait_for_answers();
    eventually(PATIENCE, "it logs that it cannot join", || {
        !late.events("counter_saturated").is_empty()
    });
    assert_eq!(
        numbers(&rig),
        ["2147483645", "2147483646"],
        "two candidates with the last number would have no order"
    );
    let signaled = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    assert_eq!(rig.successor(&leader, signaled, HANDOFF).0.identity, follower.identity);
    let emptied = follower.terminate();
    assert_eq!(follower.exit_code(), 0);
    throughout(rig.timing.lease_duration * 3 / 2, "no candidate uses the last number", || {
        late.is_healthy() && !rig.has_successor(&follower, emptied)
    });
    assert_eq!(late.events("counter_saturated").len(), 1, "it is logged once");
    let deleted = rig.now();
    rig.store.admin.delete(&path).unwrap();
    rig.successor(&follower, deleted, rig.timing.lease_duration + HANDOFF);
    assert_eq!(numbers(&rig), ["0000000000"]);
    assert_eq!(rig.tokens(ELECTION).len(), 3);
}

#[test]
fn tokens_grow_after_the_path_is_deleted_or_reaped() {
    let reaping = Settings {
        properties: vec!["znode.container.checkIntervalMs=500".to_owned()],
        ..Settings::default()
    };
    let ensemble = Ensemble::start(reaping);
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::CALM);
    let path = rig.store.path(ELECTION);
    for name in ["a", "b"] {
        let leader = rig.start_leader(name);
        assert_eq!(numbers(&rig), ["0000000000"], "sequence numbers restart");
        leader.terminate();
        assert_eq!(leader.exit_code(), 0);
        let is_gone = || (rig.store.admin.read(&path).err() == Some(Code::NoNode)).then_some(());
        wait_for(PATIENCE, "the servers reap the empty container", is_gone);
    }
    // An operator deletes the path while candidates are in its queue.
    let [leader, follower] = [rig.start_leader("c"), rig.start("d")];
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    for candidate in rig.store.queue(ELECTION).iter().rev() {
        rig.store.admin.delete(candidate).unwrap();
    }
    let _reaped_meanwhile = rig.store.admin.delete(&path);
    assert_eq!(leader.exit_code(), 75);
    rig.leader();
    // The checker compares each term's token with the previous one.
    assert_eq!(rig.tokens(ELECTION).len(), 4);
}
