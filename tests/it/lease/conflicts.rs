//! Lost races that only the API server's answer reveals: these accounts may not watch, so a
//! candidate learns of a foreign write only when its own conflicts with it.

use crate::rig::{Account, Candidate, ELECTION, Leases, Rig, Store as _, eventually};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ObjectMeta;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long candidates may take to reach a state on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// An account that may not watch.
fn blind(rig: &Rig<Leases>) -> Account {
    rig.store.namespace.account_that_may(&["get", "create", "update"], "blind", &[ELECTION])
}

fn blind_leader(rig: &Rig<Leases>) -> Arc<Candidate> {
    let leader = rig.candidate("leader").by(&blind(rig).access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    rig.wait_for_answers();
    leader
}

/// How many of the candidate's requests with this verb had this outcome.
fn requests(candidate: &Candidate, verb: &str, outcome: &str) -> f64 {
    assert!(candidate.is_alive(), "it has ended:\n{}", candidate.output());
    let series = format!(
        "baton_store_requests_total{{election=\"{ELECTION}\",outcome=\"{outcome}\",verb=\"{verb}\"}}"
    );
    candidate.metric(&series).expect("every series exists from the start")
}

#[test]
fn renewal_that_conflicts_with_an_edit_is_repeated() {
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
        eventually(PATIENCE, "a renewal conflicts, and the Lease is read and renewed", || {
            counts().iter().zip(before).all(|(now, before)| *now > before)
        });
    }
    assert!(rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1, "there was one term");
}

#[test]
fn renewal_that_finds_another_holder_ends_the_term() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = blind_leader(&rig);
    let patch = json!({ "spec": { "holderIdentity": "other" } });
    rig.store.namespace.admin.patch(ELECTION, &patch).expect("the administrator may");
    leader.loses(rig.timing.retry_period + Leases::NOISE, "conflict");
    assert_eq!(leader.exit_code(), 75);
    assert_eq!(rig.store.holder(ELECTION), "other", "nothing was written over it");
}

/// The account may not create, so its first write is refused and repeated until it finds a Lease
/// that another client has created.
#[test]
fn candidate_that_loses_the_race_to_create_follows() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let account = rig.store.namespace.account_that_may(&["get", "update"], "late", &[ELECTION]);
    let late = rig.candidate("late").by(&account.access).start();
    eventually(PATIENCE, "it tries to create the Lease", || {
        requests(&late, "create", "unknown") > 0.0
    });
    let spec = LeaseSpec {
        holder_identity: Some("other".to_owned()),
        lease_duration_seconds: Some(3),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(ELECTION.to_owned()), ..ObjectMeta::default() };
    let created = rig.now();
    rig.store
        .namespace
        .admin
        .put(&Lease { metadata, spec: Some(spec) })
        .expect("the administrator may");
    eventually(PATIENCE, "it has lost the race", || requests(&late, "create", "conflict") > 0.0);
    eventually(PATIENCE, "it follows the winner", || {
        late.events("following").iter().any(|event| event["leader"] == "other")
    });
    assert_eq!(
        rig.leader().identity,
        late.identity,
        "it leads when the winner's lease has expired"
    );
    let waited = rig.first_promise(&late).expect("it leads").since(created);
    assert!(waited >= Duration::from_secs(3), "it waited {waited:?}");
}
