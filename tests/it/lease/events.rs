//! Changes of leadership as Events of the Lease, as client-go records them.

use crate::rig::{
    Candidate, ELECTION, Gateway, Leases, Rig, Start, Store as _, eventually, throughout,
};
use hyper::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

fn recorded<'a>(rig: &'a Rig<Leases>, name: &str) -> Start<'a, Leases> {
    rig.candidate(name).flag("--lease-events", "true")
}

/// The Events of the Lease, as `kubectl describe lease` finds them.
fn events(rig: &Rig<Leases>) -> Vec<Event> {
    let found = rig.store.namespace.admin.call(async |client| {
        let lease = Api::<Lease>::default_namespaced(client.clone()).get(ELECTION).await?;
        let uid = lease.metadata.uid.unwrap();
        let fields = format!(
            "involvedObject.kind=Lease,involvedObject.name={ELECTION},involvedObject.uid={uid}"
        );
        Api::<Event>::default_namespaced(client).list(&ListParams::default().fields(&fields)).await
    });
    found.expect("the administrator may").items
}

fn messages(rig: &Rig<Leases>) -> Vec<String> {
    events(rig).into_iter().filter_map(|event| event.message).collect()
}

fn tells(rig: &Rig<Leases>, candidate: &Candidate, words: &str) -> bool {
    messages(rig).contains(&format!("{} {words}", candidate.identity))
}

#[test]
fn both_ends_of_each_term_are_recorded() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    rig.store.account.grant_events();
    let first = recorded(&rig, "first").start();
    assert_eq!(rig.leader().identity, first.identity);
    eventually(PATIENCE, "the beginning is recorded", || tells(&rig, &first, "became leader"));
    let second = recorded(&rig, "second").start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&second, "following"));
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    assert!(tells(&rig, &first, "stopped leading"), "{:?}", messages(&rig));
    eventually(PATIENCE, "the next term is recorded", || tells(&rig, &second, "became leader"));
    let all = events(&rig);
    assert_eq!(all.len(), 3, "{all:?}");
    for event in all {
        assert_eq!(event.reason.as_deref(), Some("LeaderElection"));
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        assert_eq!(event.involved_object.api_version.as_deref(), Some("coordination.k8s.io/v1"));
        assert!(event.first_timestamp.is_some() && event.count == Some(1));
    }
    assert!(second.events("lease_event_failed").is_empty());
}

#[test]
fn nothing_is_recorded_by_default() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    rig.store.account.grant_events();
    let leader = rig.start_leader("leader");
    throughout(rig.timing.lease_duration, "there is no Event", || events(&rig).is_empty());
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    assert_eq!(messages(&rig), [""; 0]);
}

#[test]
fn leader_without_the_right_leads_and_names_the_role() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = recorded(&rig, "leader").flag("--on-lost", "stay").start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(PATIENCE, "it logs the refusal", || !leader.events("lease_event_failed").is_empty());
    let message = leader.events("lease_event_failed")[0]["message"].to_string();
    for needed in [
        "cannot create resource",
        r#"resources: [\"events\"]"#,
        r#"verbs: [\"create\"]"#,
        r#"resources: [\"leases\"]"#,
        r#"name: \"shop\""#,
    ] {
        assert!(message.contains(needed), "{needed} is not in {message}");
    }
    let (status, answer) = leader.post("/resign?hold_off=100ms");
    assert_eq!(status, 200, "{answer}");
    eventually(PATIENCE, "it leads again", || rig.holds(&leader));
    throughout(rig.timing.lease_duration, "it leads", || leader.is_healthy() && rig.holds(&leader));
    let failures = leader.events("lease_event_failed");
    assert_eq!(failures.len(), 1, "the same refusal is logged once: {failures:?}");
    assert_eq!(messages(&rig), [""; 0]);
}

/// The requests about Events never arrive, while those about the Lease do.
#[test]
fn hanging_events_delay_neither_renewals_nor_a_release() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    rig.store.account.grant_events();
    let gateway = Gateway::before(&rig.store.namespace.admin);
    let slow = rig.store.account.access.at("slow", &gateway.url());
    // A Lease is created by PUT too.
    gateway.hang(Method::POST);
    let leader = recorded(&rig, "leader").by(&slow).unpolled().start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(PATIENCE, "an Event hangs", || gateway.answered() == 1);
    throughout(2 * rig.timing.lease_duration, "it leads", || {
        leader.is_healthy() && rig.holds(&leader)
    });
    let failures = leader.events("lease_event_failed");
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0]["message"].to_string().contains("did not answer in time"));
    let asked = rig.now();
    leader.terminate();
    eventually(PATIENCE, "it releases", || rig.store.holder(ELECTION).is_empty());
    let released = rig.now().since(asked);
    assert_eq!(leader.exit_code(), 0);
    assert!(released < rig.timing.call_timeout(), "the release took {released:?}");
    let next = rig.candidate("next").start();
    assert_eq!(rig.leader().identity, next.identity);
    rig.wait_for_answers();
    assert_eq!(messages(&rig), [""; 0]);
}
