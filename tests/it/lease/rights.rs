//! What a candidate may do: one Role limited to one name suffices, and what is missing is said.

use crate::rig::{
    Account, ApiServer, ELECTION, Leases, Rig, Store as _, Timing, eventually, throughout,
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn rights_that_are_taken_away_cost_the_leader_its_term_and_come_back_with_the_role() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    rig.store.account.revoke();
    leader.loses(rig.timing.renew_deadline + rig.timing.retry_period + Leases::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75, "it led, so it is no 77");
    let refusals = leader.events("store_refuses");
    let told =
        refusals.last().and_then(|line| line["message"].as_str()).unwrap_or_default().to_owned();
    for needed in [
        "resourceNames: [\"orders\"]",
        "verbs: [\"get\", \"watch\", \"create\", \"update\"]",
        "name: \"shop\"",
    ] {
        assert!(told.contains(needed), "{needed} is not in {told}");
    }
    throughout(rig.timing.lease_duration, "the follower lives on", || follower.is_healthy());
    rig.store.account.grant();
    assert_eq!(rig.leader().identity, follower.identity);
}

/// Everybody is refused for a while, as it can be after a start of the API server: for a minute, or for longer.
fn are_refused_and_let_in_again(
    server: &mut ApiServer,
    refuse: impl Fn(&mut ApiServer, &Account),
    admit: impl Fn(&mut ApiServer, &Account),
) {
    let rig = Rig::over(Leases::on(server), Leases::FAST);
    let led = rig.candidate("led").flag("--on-lost", "stay").start();
    assert_eq!(rig.leader().identity, led.identity);
    let [follower] = rig.start_followers(["follower"]);
    refuse(server, &rig.store.account);
    let begun = rig.now();
    let early = rig.start("early");
    // Its term runs out meanwhile: between the deadline and the driver's next turn it is ill for a moment.
    let well = || led.is_alive() && follower.is_healthy() && follower.probe("/readyz") == 200;
    // As a minute is to fifteen seconds.
    throughout(4 * rig.timing.lease_duration, "who was let in before waits", well);
    assert_eq!(early.exit_code(), 77, "who was not has seen a lease duration of refusals");
    let late = rig.start("late");
    throughout(rig.timing.lease_duration / 2, "it waits, and is not ready", || {
        well() && late.is_healthy() && late.probe("/readyz") == 503
    });
    // `early` never leads: whoever did is another, and `led` no longer than its last renewal allows.
    assert!(!rig.succeeded(&early, begun + rig.timing.renew_deadline), "nobody led meanwhile");
    assert!(
        follower
            .events("store_refuses")
            .iter()
            .any(|told| told["message"].to_string().contains("(403)")),
        "{}",
        follower.output()
    );

    admit(server, &rig.store.account);
    let leader = rig.leader();
    eventually(PATIENCE, "all are let in, and stay", || {
        well()
            && led.is_healthy()
            && [&led, &follower, &late].iter().all(|candidate| candidate.probe("/readyz") == 200)
    });
    assert!(rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

#[test]
fn rights_that_are_gone_for_a_while_lose_no_candidate_that_had_been_let_in() {
    let revoke = |_: &mut _, account: &Account| account.revoke();
    are_refused_and_let_in_again(&mut ApiServer::start(), revoke, |_, account| account.grant());
}

#[test]
fn an_api_server_that_starts_without_its_rules_loses_no_candidate_that_it_had_let_in() {
    let start = |server: &mut ApiServer, _: &_| server.restart_without_rules();
    are_refused_and_let_in_again(&mut ApiServer::start(), start, |server, _| server.restart());
}

/// As `helm uninstall` does it, which deletes the rights while the leader is asked to stop.
#[test]
fn a_leader_that_may_not_release_ends_when_its_last_promise_has_run_out() {
    // Promises so long that the rights are gone before the last has run out.
    const TIMING: Timing = Timing::of_ms(20_000, 15_000, 5000, 4000);
    let rig = Rig::over(Leases::fresh(), TIMING);
    let leader = rig.start_leader("leader");
    rig.hear_enough();
    let stopped = leader.terminate();
    rig.store.account.revoke();
    assert_eq!(leader.exit_code(), 0);
    let took = leader.ended().expect("it has").seen.since(stopped);
    assert!(took <= TIMING.answer_validity + Leases::NOISE, "it took {took:?}");
    let told = leader.output();
    assert!(told.contains("the store refuses the release"), "{told}");
    // Its watch may end at any time, and says so.
    let asks = |line: &&str| line.contains("resourceNames") && !line.contains("cannot watch Lease");
    assert_eq!(
        told.lines().find(asks),
        None,
        "rights that go with everything else are not asked for"
    );
    assert_eq!(rig.store.holder(ELECTION), leader.identity, "it could not be released");
}

#[test]
fn whoever_was_never_let_in_ends_with_77_after_a_lease_duration() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let stranger = rig.store.namespace.account("stranger", &["another-election"]);
    let begun = rig.now();
    let refused = rig.candidate("stranger").by(&stranger.access).start();
    assert_eq!(refused.probe("/readyz"), 503, "not ready before the store has let it in");
    eventually(PATIENCE, "it ends", || !refused.is_alive());
    assert_eq!(refused.exit_code(), 77);
    assert!(rig.now().since(begun) >= rig.timing.lease_duration);
    assert!(leader.is_alive());
}

/// A follower writes nothing, so that it may not shows when it has to.
#[test]
fn candidate_that_may_only_read_is_unready_once_it_has_to_write() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    let leader = rig.start_leader("leader");
    let powerless =
        rig.store.namespace.account_that_may(&["get", "watch"], "powerless", &[ELECTION]);
    let reader = rig.candidate("reader").by(&powerless.access).start();
    eventually(PATIENCE, "it follows", || {
        rig.stands(&reader, "following") && reader.probe("/readyz") == 200
    });
    let [follower] = rig.start_followers(["follower"]);
    follower.pause();
    leader.kill();
    eventually(PATIENCE, "it is refused", || !reader.events("store_refuses").is_empty());
    let refused = rig.now();
    eventually(Leases::NOISE, "it is not ready any more", || reader.probe("/readyz") == 503);
    throughout(rig.timing.lease_duration / 2, "it stays so, and is healthy", || {
        reader.is_healthy() && reader.probe("/readyz") == 503
    });
    eventually(PATIENCE, "it ends", || !reader.is_alive());
    assert_eq!(reader.exit_code(), 77);
    assert!(rig.now().since(refused) + Leases::NOISE >= rig.timing.lease_duration);
    follower.resume();
    assert_eq!(rig.leader().identity, follower.identity);
    assert_eq!(follower.probe("/readyz"), 200);
    let told = reader.events("store_refuses");
    assert!(told[0]["message"].to_string().contains("cannot update resource"), "{told:?}");
    assert!(reader.events("store_back").is_empty(), "reads do not say that it may write");
}

/// A write that is refused while another candidate takes the record shows too little to end a follower by.
#[test]
fn one_refused_write_ends_no_follower() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    let leader = rig.start_leader("leader");
    let powerless =
        rig.store.namespace.account_that_may(&["get", "watch"], "powerless", &[ELECTION]);
    let reader = rig.candidate("reader").by(&powerless.access).start();
    eventually(PATIENCE, "it follows", || {
        rig.stands(&reader, "following") && reader.probe("/readyz") == 200
    });
    let [follower] = rig.start_followers(["follower"]);
    follower.pause();
    leader.kill();
    eventually(PATIENCE, "it is refused", || !reader.events("store_refuses").is_empty());
    follower.resume();
    assert_eq!(rig.leader().identity, follower.identity);
    eventually(PATIENCE, "it is ready again as a follower", || reader.probe("/readyz") == 200);
    throughout(2 * rig.timing.lease_duration, "it lives on, and is ready", || {
        reader.is_healthy() && reader.probe("/readyz") == 200
    });
}

#[test]
fn a_namespace_that_is_not_there_is_named_and_refused_from_the_start() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    // Somebody for the judge to hear, whom it does not touch.
    rig.start_leader("leader");
    let begun = rig.now();
    let lost =
        rig.candidate("lost").by(&rig.store.namespace.admin).flag("--namespace", "nowhere").start();
    eventually(PATIENCE, "it is refused", || !lost.events("store_refuses").is_empty());
    let told = lost.events("store_refuses")[0]["message"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("namespace \"nowhere\" does not exist"), "{told}");
    throughout(rig.timing.lease_duration / 2, "it waits, since somebody may make it yet", || {
        lost.is_healthy() && lost.probe("/readyz") == 503
    });
    eventually(PATIENCE, "it ends", || !lost.is_alive());
    assert_eq!(lost.exit_code(), 77);
    assert!(rig.now().since(begun) >= rig.timing.lease_duration);
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

/// Reads show changes too, only later: so the election goes on, and nothing else would say what is missing.
#[test]
fn a_watch_that_is_refused_is_told_once_with_the_role_and_the_election_goes_on() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let deaf =
        rig.store.namespace.account_that_may(&["get", "create", "update"], "deaf", &[ELECTION]);
    let leader = rig.candidate("deaf").by(&deaf.access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(PATIENCE, "it says what is missing", || !leader.events("store_refuses").is_empty());
    throughout(2 * rig.timing.lease_duration, "it leads on", || {
        rig.tokens(ELECTION).len() == 1 && leader.is_healthy()
    });
    let refusals = leader.events("store_refuses");
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let told = refusals[0]["message"].as_str().unwrap_or_default();
    for needed in [
        "cannot watch resource",
        "verbs: [\"get\", \"watch\", \"create\", \"update\"]",
        "name: \"deaf\"",
    ] {
        assert!(told.contains(needed), "{needed} is not in {told}");
    }
}
