//! The rights of a candidate: a Role limited to one name suffices, and missing verbs are logged.

use crate::rig::{
    Account, ApiServer, ELECTION, Leases, Rig, Store as _, Timing, eventually, throughout,
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn leader_without_rights_loses_its_term() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    rig.store.account.revoke();
    leader.loses(rig.timing.renew_deadline + rig.timing.retry_period + Leases::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75, "it led, so not 77");
    let refusals = leader.events("store_refuses");
    let message =
        refusals.last().and_then(|event| event["message"].as_str()).unwrap_or_default().to_owned();
    for needed in [
        "resourceNames: [\"orders\"]",
        "verbs: [\"get\", \"watch\", \"create\", \"update\"]",
        "name: \"shop\"",
    ] {
        assert!(message.contains(needed), "{needed} is not in {message}");
    }
    throughout(rig.timing.lease_duration, "the follower is healthy", || follower.is_healthy());
    rig.store.account.grant();
    assert_eq!(rig.leader().identity, follower.identity);
}

/// All candidates are refused for a while, as after a start of the API server, and admitted again.
fn candidates_survive_refusals(
    server: &mut ApiServer,
    refuse: impl Fn(&mut ApiServer, &Account),
    admit: impl Fn(&mut ApiServer, &Account),
) {
    let rig = Rig::over(Leases::on(server), Leases::FAST);
    let first = rig.candidate("first").flag("--on-lost", "stay").start();
    assert_eq!(rig.leader().identity, first.identity);
    let [follower] = rig.start_followers(["follower"]);
    refuse(server, &rig.store.account);
    let begun = rig.now();
    let early = rig.start("early");
    // The first one loses its term: it is unhealthy for a moment between the deadline and the
    // driver's next turn.
    let well = || first.is_alive() && follower.is_healthy() && follower.probe("/readyz") == 200;
    // In the proportion of a minute to the default lease duration.
    throughout(4 * rig.timing.lease_duration, "admitted candidates wait", well);
    assert_eq!(early.exit_code(), 77, "it was refused for a lease duration");
    let late = rig.start("late");
    throughout(rig.timing.lease_duration / 2, "it waits and is not ready", || {
        well() && late.is_healthy() && late.probe("/readyz") == 503
    });
    // `early` never leads, so this excludes every leader; `first` led only until its deadline.
    assert!(
        !rig.has_successor(&early, begun + rig.timing.renew_deadline),
        "a candidate led meanwhile"
    );
    assert!(
        follower
            .events("store_refuses")
            .iter()
            .any(|event| event["message"].to_string().contains("(403)")),
        "{}",
        follower.output()
    );

    admit(server, &rig.store.account);
    let leader = rig.leader();
    eventually(PATIENCE, "all are admitted and stay", || {
        well()
            && first.is_healthy()
            && [&first, &follower, &late].iter().all(|candidate| candidate.probe("/readyz") == 200)
    });
    assert!(rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

#[test]
fn admitted_candidates_survive_a_revoked_role() {
    let revoke = |_: &mut _, account: &Account| account.revoke();
    candidates_survive_refusals(&mut ApiServer::start(), revoke, |_, account| account.grant());
}

#[test]
fn admitted_candidates_survive_an_api_server_without_rules() {
    let start = |server: &mut ApiServer, _: &_| server.restart_without_rules();
    candidates_survive_refusals(&mut ApiServer::start(), start, |server, _| server.restart());
}

/// As with `helm uninstall`, which deletes the Role while the leader stops.
#[test]
fn leader_that_cannot_release_ends_after_its_last_promise() {
    // Promises long enough that the Role is gone before the last one expires.
    const TIMING: Timing = Timing::of_ms(20_000, 15_000, 5000, 4000);
    let rig = Rig::over(Leases::fresh(), TIMING);
    let leader = rig.start_leader("leader");
    rig.wait_for_answers();
    let stopped = leader.terminate();
    rig.store.account.revoke();
    assert_eq!(leader.exit_code(), 0);
    let took = leader.ended().expect("it has ended").seen.since(stopped);
    assert!(took <= TIMING.answer_validity + Leases::NOISE, "it took {took:?}");
    let output = leader.output();
    assert!(output.contains("the store refused the release"), "{output}");
    // Its watch may end at any time and log its own refusal.
    let asks = |line: &&str| line.contains("resourceNames") && !line.contains("cannot watch Lease");
    assert_eq!(output.lines().find(asks), None, "it does not ask for a Role that is being removed");
    assert_eq!(rig.store.holder(ELECTION), leader.identity, "it could not be released");
}

#[test]
fn candidate_refused_from_the_start_ends_with_77() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let stranger = rig.store.namespace.account("stranger", &["another-election"]);
    let begun = rig.now();
    let refused = rig.candidate("stranger").by(&stranger.access).start();
    assert_eq!(refused.probe("/readyz"), 503, "not ready before the store admits it");
    eventually(PATIENCE, "it ends", || !refused.is_alive());
    assert_eq!(refused.exit_code(), 77);
    assert!(rig.now().since(begun) >= rig.timing.lease_duration);
    assert!(leader.is_alive());
}

/// A follower writes nothing, so a missing verb shows only when it must write.
#[test]
fn candidate_that_may_not_write_is_unready_when_it_must() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    let leader = rig.start_leader("leader");
    let powerless =
        rig.store.namespace.account_that_may(&["get", "watch"], "powerless", &[ELECTION]);
    let reader = rig.candidate("reader").by(&powerless.access).start();
    eventually(PATIENCE, "it follows", || {
        rig.has_standing(&reader, "following") && reader.probe("/readyz") == 200
    });
    let [follower] = rig.start_followers(["follower"]);
    follower.pause();
    leader.kill();
    eventually(PATIENCE, "its write is refused", || !reader.events("store_refuses").is_empty());
    let refused = rig.now();
    eventually(Leases::NOISE, "it is no longer ready", || reader.probe("/readyz") == 503);
    throughout(rig.timing.lease_duration / 2, "it stays unready and is healthy", || {
        reader.is_healthy() && reader.probe("/readyz") == 503
    });
    eventually(PATIENCE, "it ends", || !reader.is_alive());
    assert_eq!(reader.exit_code(), 77);
    assert!(rig.now().since(refused) + Leases::NOISE >= rig.timing.lease_duration);
    follower.resume();
    assert_eq!(rig.leader().identity, follower.identity);
    assert_eq!(follower.probe("/readyz"), 200);
    let refusals = reader.events("store_refuses");
    assert!(refusals[0]["message"].to_string().contains("cannot update resource"), "{refusals:?}");
    assert!(reader.events("store_back").is_empty(), "reads do not prove that it may write");
}

/// Another candidate acquires after one refused write, so the refusals do not last long enough.
#[test]
fn one_refused_write_ends_no_follower() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    let leader = rig.start_leader("leader");
    let powerless =
        rig.store.namespace.account_that_may(&["get", "watch"], "powerless", &[ELECTION]);
    let reader = rig.candidate("reader").by(&powerless.access).start();
    eventually(PATIENCE, "it follows", || {
        rig.has_standing(&reader, "following") && reader.probe("/readyz") == 200
    });
    let [follower] = rig.start_followers(["follower"]);
    follower.pause();
    leader.kill();
    eventually(PATIENCE, "its write is refused", || !reader.events("store_refuses").is_empty());
    follower.resume();
    assert_eq!(rig.leader().identity, follower.identity);
    eventually(PATIENCE, "it is ready again", || reader.probe("/readyz") == 200);
    throughout(2 * rig.timing.lease_duration, "it stays healthy and ready", || {
        reader.is_healthy() && reader.probe("/readyz") == 200
    });
}

#[test]
fn missing_namespace_is_named_and_refused() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    // An unaffected candidate, since the checker needs answers.
    rig.start_leader("leader");
    let begun = rig.now();
    let lost =
        rig.candidate("lost").by(&rig.store.namespace.admin).flag("--namespace", "nowhere").start();
    eventually(PATIENCE, "it is refused", || !lost.events("store_refuses").is_empty());
    let event = lost.events("store_refuses").swap_remove(0);
    let message = event["message"].as_str().unwrap_or_default();
    assert!(message.contains("namespace \"nowhere\" does not exist"), "{message}");
    throughout(rig.timing.lease_duration / 2, "it waits for the namespace", || {
        lost.is_healthy() && lost.probe("/readyz") == 503
    });
    eventually(PATIENCE, "it ends", || !lost.is_alive());
    assert_eq!(lost.exit_code(), 77);
    assert!(rig.now().since(begun) >= rig.timing.lease_duration);
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

/// The election continues, since reads show changes too, but later. So the log must name the verb.
#[test]
fn refused_watch_is_logged_once_and_the_election_continues() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let unwatched = rig.store.namespace.account_that_may(
        &["get", "create", "update"],
        "unwatched",
        &[ELECTION],
    );
    let leader = rig.candidate("unwatched").by(&unwatched.access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(PATIENCE, "it logs what is missing", || !leader.events("store_refuses").is_empty());
    throughout(2 * rig.timing.lease_duration, "it keeps leading", || {
        rig.tokens(ELECTION).len() == 1 && leader.is_healthy()
    });
    let refusals = leader.events("store_refuses");
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let message = refusals[0]["message"].as_str().unwrap_or_default();
    for needed in [
        "cannot watch resource",
        "verbs: [\"get\", \"watch\", \"create\", \"update\"]",
        "name: \"unwatched\"",
    ] {
        assert!(message.contains(needed), "{needed} is not in {message}");
    }
}
