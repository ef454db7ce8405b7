//! Tests of the peers alone: each can succeed another of its kind, and its clock matches ours.

use super::{InZooKeeper, Peer};
use crate::rig::apiserver::ApiServer;
use crate::rig::scratch::Scratch;
use crate::rig::zookeeper::Ensemble;
use crate::rig::{Journal, eventually, wait_for};
use std::time::Duration;
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(20);

/// One leads after the other; `is_waiting` says whether the second one waits.
fn one_succeeds_the_other(start: impl Fn(&str) -> Peer, is_waiting: impl Fn(&Peer) -> bool) {
    let clock = Journal::begin().clock;
    let before = clock.now();
    let mut first = start("first");
    let leads =
        |peer: &Peer| wait_for(PATIENCE, "it leads", || peer.first_logged("started_leading"));
    let led = clock.moment(leads(&first));
    assert!(
        before < led && led < clock.now(),
        "its clock differs: {led:?} is not in {before:?} to {:?}",
        clock.now()
    );
    let mut second = start("second");
    eventually(PATIENCE, "the second waits", || is_waiting(&second));
    assert!(second.first_logged("started_leading").is_none());

    first.process.terminate();
    let started = leads(&second);
    let stopped = first.first_logged("work_cancelled").expect("it stopped first");
    assert!(stopped < started, "it stopped at {stopped:?}, its successor started at {started:?}");
    second.process.terminate();
    for mut peer in [first, second] {
        assert_eq!(wait_for(PATIENCE, "it ends", || peer.process.exit_code()), 0);
    }
}

#[test]
fn client_go_succeeds_client_go() {
    let flags = [
        "--lease-duration=3s",
        "--renew-deadline=2s",
        "--retry-period=100ms",
        "--release-on-cancel",
    ];
    // It creates by POST, which no Role can limit to one name.
    let access = ApiServer::shared().namespace().admin;
    let start =
        |identity: &str| Peer::client_go(&access, "orders", identity, &flags).once("listening");
    one_succeeds_the_other(start, |second| {
        second.first_logged("new_leader").is_some()
            && second.answer().unwrap()["is_leader"] == false
    });
}

#[test]
fn curator_succeeds_curator() {
    over_zookeeper(Peer::curator);
}

#[test]
fn curator_succeeds_curator_by_a_selector() {
    over_zookeeper(Peer::curator_selector);
}

#[test]
fn kazoo_succeeds_kazoo() {
    over_zookeeper(Peer::kazoo);
}

fn over_zookeeper(start: impl Fn(&InZooKeeper<'_>, &str) -> Peer) {
    let (ensemble, folder) = (Ensemble::shared(), Scratch::new());
    let election = InZooKeeper {
        servers: &ensemble.connect_string(),
        path: &format!("/{}", Uuid::new_v4()),
        session_timeout: Duration::from_secs(6),
        folder: folder.path(),
    };
    let admin = ensemble.admin();
    let start = |identity: &str| start(&election, identity);
    one_succeeds_the_other(start, |_| {
        admin.children(election.path).is_ok_and(|queue| queue.len() == 2)
    });
}
