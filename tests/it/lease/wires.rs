//! The connection to the API server drops or delays requests and replies.

use crate::rig::{
    ApiServer, Direction, ELECTION, Flow, Leases, Proxy, Rig, Store as _, eventually, succeeds,
    throughout,
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn lost_replies_do_not_end_the_term() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let proxy = Proxy::to(ApiServer::shared().address());
    let leader =
        rig.candidate("leader").by(&rig.store.account.access.through(proxy.address())).start();
    assert_eq!(rig.leader().identity, leader.identity);
    for _ in 0..3 {
        let renewed = rig.store.written(ELECTION);
        proxy.set(Direction::Replies, Flow::Lose);
        eventually(PATIENCE, "a write is applied", || rig.store.written(ELECTION) > renewed);
        assert!(leader.is_healthy());
        proxy.set(Direction::Replies, Flow::Pass);
        throughout(2 * rig.timing.retry_period, "it keeps leading", || {
            leader.is_healthy() && rig.holds(&leader)
        });
    }
    assert_eq!(rig.tokens(ELECTION).len(), 1, "there was one term");
}

#[test]
fn renewal_that_arrives_after_the_takeover_is_refused() {
    // A server of its own: the test counts its answers.
    let server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let proxy = Proxy::to(server.address());
    let old = rig.candidate("old").by(&rig.store.account.access.through(proxy.address())).start();
    assert_eq!(rig.leader().identity, old.identity);
    let [new] = rig.start_followers(["new"]);

    proxy.set(Direction::Requests, Flow::Hold);
    let cut = rig.now();
    eventually(PATIENCE, "a renewal is held", || proxy.held(Direction::Requests) > 0);
    rig.must_not_lead(&old, cut + rig.timing.renew_deadline, "nothing was renewed since");
    rig.takeover(&old, cut);
    assert_eq!(old.exit_code(), 75);
    let refused = || server.answers("leases", 409).get("PUT").copied().unwrap_or(0);
    assert_eq!(refused(), 0, "no request has arrived yet");
    proxy.set(Direction::Requests, Flow::Pass);
    succeeds(PATIENCE, "the renewal arrives", || {
        match (refused(), proxy.held(Direction::Requests)) {
            (1.., 0) => Ok(()),
            (refused, held) => Err(format!("{refused} requests refused, {held} bytes held")),
        }
    });
    throughout(rig.timing.lease_duration, "it changes nothing", || {
        rig.holds(&new) && new.is_healthy()
    });
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

#[test]
fn renewal_that_arrives_before_the_takeover_is_waited_out() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let proxy = Proxy::to(ApiServer::shared().address());
    let old = rig.candidate("old").by(&rig.store.account.access.through(proxy.address())).start();
    assert_eq!(rig.leader().identity, old.identity);
    let [new] = rig.start_followers(["new"]);

    let renewed = rig.store.written(ELECTION);
    proxy.set(Direction::Requests, Flow::Hold);
    let cut = rig.now();
    eventually(PATIENCE, "a renewal is held", || proxy.held(Direction::Requests) > 0);
    let unrenewed = rig.store.written(ELECTION);
    rig.must_not_lead(&old, cut + rig.timing.renew_deadline, "nothing was renewed since");
    old.loses(rig.timing.renew_deadline + Leases::NOISE, "deadline");
    assert_eq!(old.exit_code(), 75);
    let passed = rig.now();
    proxy.set(Direction::Requests, Flow::Pass);
    eventually(PATIENCE, "the renewal is applied", || rig.store.written(ELECTION) > unrenewed);
    assert!(rig.holds(&old) && unrenewed >= renewed, "it names the process that has ended");
    let (next, led) = rig.successor(&old, passed, rig.timing.takeover() + Leases::NOISE);
    assert_eq!(next.identity, new.identity);
    let waited = led.since(passed);
    assert!(waited >= rig.timing.lease_duration, "it waited {waited:?} after the late renewal");
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}
