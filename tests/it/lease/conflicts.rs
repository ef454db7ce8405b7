//! Lost races that only the API server's own answer tells of: these accounts may not watch, so that nothing is heard of
//! a stranger's write before ours meets it.

use crate::rig::{Account, Candidate, ELECTION, Leases, Rig, Store as _, eventually};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ObjectMeta;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long candidates may take to find each other on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn blind(rig: &Rig<Leases>) -> Account {
    rig.store.namespace.account_that_may(&["get", "create", "update"], "blind", &[ELECTION])
}

fn blind_leader(rig: &Rig<Leases>) -> Arc<Candidate> {
    let leader = rig.candidate("leader").by(&blind(rig).access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    rig.hear_enough();
    leader
}

/// How many of its requests with this verb had this outcome.
fn requests(candidate: &Candidate, verb: &str, outcome: &str) -> f64 {
    assert!(candidate.is_alive(), "it has ended:\n{}", candidate.output());
    let series = format!(
        "baton_store_requests_total{{election=\"{ELECTION}\",outcome=\"{outcome}\",verb=\"{verb}\"}}"
    );
    candidate.metric(&series).expect("every series is there from the start")
}

#[test]
fn a_renewal_that_meets_a_strangers_edit_is_refused_and_read_up_on_and_the_term_goes_on() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = blind_leader(&rig);
    for edit in ["one", "two", "three"] {
        let counts = || {
            [("replace", "conflict"), ("read", "applied"), ("replace", "applied")]
                .map(|(verb, outcome)| requests(&leader, verb, outcome))
        };
        let before = counts();
        let patch = json!({ "metadata": { "labels": { "edit": edit } } });
        rig.store.namespace.admin.patch(ELECTION, &patch).expect("the administrator may");
        eventually(PATIENCE, "a renewal is refused, the Lease is read, and renewed", || {
            counts().iter().zip(before).all(|(now, before)| *now > before)
        });
    }
    assert!(rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1, "one term all along");
}

#[test]
fn a_renewal_that_meets_another_holder_ends_the_term_without_waiting_for_the_deadline() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = blind_leader(&rig);
    let patch = json!({ "spec": { "holderIdentity": "somebody" } });
    rig.store.namespace.admin.patch(ELECTION, &patch).expect("the administrator may");
    leader.loses(rig.timing.retry_period + Leases::NOISE, "conflict");
    assert_eq!(leader.exit_code(), 75);
    assert_eq!(rig.store.holder(ELECTION), "somebody", "nothing was written over it");
}

/// The account may not create, so its first write, the one that creates, is refused and sent again until it meets a Lease
/// that somebody else has made.
#[test]
fn a_lost_race_to_create_the_lease_makes_a_follower_of_the_winner() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let account = rig.store.namespace.account_that_may(&["get", "update"], "late", &[ELECTION]);
    let late = rig.candidate("late").by(&account.access).start();
    eventually(PATIENCE, "it tries to create the Lease", || {
        requests(&late, "create", "unknown") > 0.0
    });
    let spec = LeaseSpec {
        holder_identity: Some("somebody".to_owned()),
        lease_duration_seconds: Some(3),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(ELECTION.to_owned()), ..ObjectMeta::default() };
    let made = rig.now();
    rig.store
        .namespace
        .admin
        .put(&Lease { metadata, spec: Some(spec) })
        .expect("the administrator may");
    eventually(PATIENCE, "it has lost the race", || requests(&late, "create", "conflict") > 0.0);
    eventually(PATIENCE, "it follows the winner", || {
        late.events("following").iter().any(|told| told["leader"] == "somebody")
    });
    assert_eq!(
        rig.leader().identity,
        late.identity,
        "and leads when the winner's lease has run out"
    );
    let waited = rig.first_promise(&late).expect("it was heard").since(made);
    assert!(waited >= Duration::from_secs(3), "it waited {waited:?}");
}
