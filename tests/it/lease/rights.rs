//! What a candidate may do: one Role limited to one name suffices, and what is missing is said.

use super::ground::{Ground, PATIENCE, TIMING};
use crate::rig::{ELECTION, NOISE, eventually, throughout};

#[test]
fn rights_that_are_taken_away_cost_the_leader_its_term_and_come_back_with_the_role() {
    let ground = Ground::new();
    let (leader, [follower]) = ground.leader_and_followers(["b"]);
    ground.account.revoke();
    leader.loses(TIMING.renew_deadline + TIMING.retry_period + NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75, "it led, so it is no 77");
    let refusals = leader.events("store_refuses");
    let told = refusals.last().and_then(|line| line["message"].as_str()).unwrap_or_default().to_owned();
    for needed in
        ["resourceNames: [\"orders\"]", "verbs: [\"get\", \"watch\", \"create\", \"update\"]", "name: \"shop\""]
    {
        assert!(told.contains(needed), "{needed} is not in {told}");
    }
    throughout(TIMING.lease_duration, "the follower lives on", || follower.is_healthy());
    ground.account.grant();
    assert_eq!(ground.rig.leader().identity, follower.identity);
}

#[test]
fn whoever_was_never_let_in_ends_with_77_after_a_lease_duration() {
    let ground = Ground::new();
    let (leader, _) = ground.leader_and_followers([]);
    let stranger = ground.namespace.account("stranger", &["another-election"]);
    let begun = ground.rig.now();
    let refused = ground.candidate_by(&stranger.access, "stranger").start();
    assert_eq!(refused.probe("/readyz"), 503, "not ready before the store has let it in");
    eventually(PATIENCE, "it ends", || !refused.is_alive());
    assert_eq!(refused.exit_code(), 77);
    assert!(ground.rig.now().since(begun) >= TIMING.lease_duration);
    assert!(leader.is_alive());
}

#[test]
fn a_namespace_that_is_not_there_is_named() {
    let ground = Ground::new();
    let (_leader, _) = ground.leader_and_followers([]);
    let admin = &ground.namespace.admin;
    let lost = ground.candidate_by(admin, "lost").flag("--namespace", "nowhere").start();
    eventually(PATIENCE, "it is refused", || !lost.events("store_refuses").is_empty());
    let told = lost.events("store_refuses")[0]["message"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("namespace \"nowhere\" is not there"), "{told}");
    assert_eq!(ground.rig.tokens(ELECTION).len(), 1);
    assert!(lost.is_healthy(), "somebody may make it yet");
}
