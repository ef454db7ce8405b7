//! What others put into an election's path or make of it: names of other recipes, znodes that may not be read, a counter at
//! its end, a path that is deleted or reaped.

use super::{PATIENCE, messages};
use crate::rig::{
    ELECTION, Ensemble, Rig, Settings, Store as _, Znodes, eventually, throughout, wait_for,
};
use std::time::Duration;
use zookeeper_client::wire::Code;

/// How long a handoff may take from the signal on.
const HANDOFF: Duration = Duration::from_millis(1100).saturating_add(Znodes::NOISE);

/// The numbers in the names of an election's candidates.
fn numbers(rig: &Rig<Znodes>) -> Vec<String> {
    rig.store.queue(ELECTION).iter().map(|path| path[path.len() - 10..].to_owned()).collect()
}

#[test]
fn children_that_no_session_owns_are_passed_over_whatever_they_are_called() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    let strange = ["n", "ü-latch-ß", "選挙000000000٣", "latch-", "_c_a-latch-0000000000", "é"];
    for name in strange {
        rig.store.admin.create(&format!("{}/{name}", rig.store.path(ELECTION)), "x").unwrap();
    }
    let asked = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    assert_eq!(rig.successor(&leader, asked, HANDOFF).0.identity, follower.identity);
    let passed_over = messages(&follower, "idle_znode");
    assert_eq!(passed_over.len(), strange.len(), "each is named once: {passed_over:?}");
    assert!(passed_over.iter().any(|message| message.contains("選挙")));
    assert_eq!(messages(&follower, "strange_candidates").len(), 1);
}

#[test]
fn whoever_stands_before_us_under_another_name_is_waited_for_as_long_as_its_session_lives() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = rig.start_leader("a");
    let strange = format!("{}/not-a-number", rig.store.path(ELECTION));
    rig.store.admin.create_ephemeral(&strange).unwrap();
    throughout(rig.timing.lease_duration, "who led already leads on", || {
        rig.store.admin.read(&strange).is_ok() && leader.is_healthy()
    });
    let [follower] = rig.start_followers(["b"]);
    let asked = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    throughout(rig.timing.lease_duration, "the stranger may think that it leads", || {
        rig.store.admin.read(&strange).is_ok() && !rig.has_successor(&leader, asked)
    });
    let left = rig.now();
    rig.store.admin.delete(&strange).unwrap();
    assert_eq!(rig.successor(&leader, left, HANDOFF).0.identity, follower.identity);
}

#[test]
fn a_leader_whose_znode_an_operator_deletes_withdraws_at_once() {
    // Nobody would find it out so soon by a renewal: they are two seconds apart.
    let rig = Rig::over(Znodes::fresh(), Znodes::SLOW);
    let leader = rig.start_leader("a");
    rig.store.remove(ELECTION);
    let deleted = rig.now();
    leader.loses(Znodes::NOISE, "deleted");
    rig.must_not_lead(&leader, deleted + Znodes::NOISE, "its znode is gone");
    assert_eq!(leader.exit_code(), 75);
    eventually(PATIENCE, "its last promise has run out", || rig.now() > rig.last_promise(&leader));
    rig.start_leader("b");
    rig.wait_for_answers();
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

#[test]
fn a_predecessor_that_may_not_be_read_is_waited_for_and_succeeded() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let hidden = format!("{path}/_c_somebody-latch-0000000000");
    rig.store.admin.create_ephemeral(&hidden).unwrap();
    rig.store.admin.hide(&hidden).unwrap();
    let candidate = rig.start("a");
    eventually(PATIENCE, "it follows somebody whom it cannot name", || {
        rig.has_standing(&candidate, "following")
    });
    eventually(PATIENCE, "it says what it may not do", || {
        messages(&candidate, "store_refuses")
            .iter()
            .any(|message| message.contains("--zookeeper-auth-file"))
    });
    throughout(2 * rig.timing.lease_duration, "it waits, and is well", || {
        candidate.is_healthy()
            && rig.has_standing(&candidate, "following")
            && numbers(&rig).len() == 2
    });
    let left = rig.now();
    rig.store.admin.delete(&hidden).unwrap();
    eventually(
        HANDOFF + rig.timing.retry_period,
        "no watch tells it, so it looks once a retry period",
        || rig.has_standing(&candidate, "leading"),
    );
    let led = rig.first_promise(&candidate).expect("it stands so");
    assert!(led >= left);
    rig.wait_for_answers();
}

#[test]
fn a_counter_at_its_end_is_told_and_the_path_can_be_made_anew() {
    let mut ensemble = Ensemble::start(Settings::default());
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    ensemble.set_counter(&path, i32::MAX - 2);

    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    let late = rig.start("c");
    rig.wait_for_answers();
    eventually(PATIENCE, "it says that it cannot stand", || {
        !late.events("counter_saturated").is_empty()
    });
    assert_eq!(
        numbers(&rig),
        ["2147483645", "2147483646"],
        "no order could be told of two that have the last number"
    );
    let asked = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    assert_eq!(rig.successor(&leader, asked, HANDOFF).0.identity, follower.identity);
    let alone = follower.terminate();
    assert_eq!(follower.exit_code(), 0);
    throughout(rig.timing.lease_duration * 3 / 2, "nobody leads by the last number", || {
        late.is_healthy() && !rig.has_successor(&follower, alone)
    });
    assert_eq!(late.events("counter_saturated").len(), 1, "once");
    let remade = rig.now();
    rig.store.admin.delete(&path).unwrap();
    rig.successor(&follower, remade, rig.timing.lease_duration + HANDOFF);
    assert_eq!(numbers(&rig), ["0000000000"]);
    assert_eq!(rig.tokens(ELECTION).len(), 3);
}

#[test]
fn tokens_grow_over_the_deletion_of_the_path_and_over_its_reaping() {
    let reaped = Settings {
        properties: vec!["znode.container.checkIntervalMs=500".to_owned()],
        ..Settings::default()
    };
    let ensemble = Ensemble::start(reaped);
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::CALM);
    let path = rig.store.path(ELECTION);
    for name in ["a", "b"] {
        let leader = rig.start_leader(name);
        assert_eq!(numbers(&rig), ["0000000000"], "numbers begin anew");
        leader.terminate();
        assert_eq!(leader.exit_code(), 0);
        let is_gone = || (rig.store.admin.read(&path).err() == Some(Code::NoNode)).then_some(());
        wait_for(PATIENCE, "the servers reap a container without children", is_gone);
    }
    // As an operator would do it, with a candidate that stands there and has to find out.
    let [leader, follower] = [rig.start_leader("c"), rig.start("d")];
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    for candidate in rig.store.queue(ELECTION).iter().rev() {
        rig.store.admin.delete(candidate).unwrap();
    }
    let _reaped_meanwhile = rig.store.admin.delete(&path);
    assert_eq!(leader.exit_code(), 75);
    rig.leader();
    // The judge compares each term's token with the one before.
    assert_eq!(rig.tokens(ELECTION).len(), 4);
}
