//! A leader's addresses in EndpointSlices: published, handed over, cleared, and never overwritten by
//! a former leader.

use super::doctor::doctor_with;
use crate::rig::{
    Candidate, Direction, ELECTION, Flow, Gateway, Leases, Proxy, Rig, Start, Store as _,
    eventually, throughout,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// The slices of the Service `orders`.
const SLICES: [&str; 2] = ["orders-ipv4", "orders-ipv6"];

/// A candidate at `10.0.0.N` and `fd00::N`.
fn routed<'a>(rig: &'a Rig<Leases>, name: &str, number: u8) -> Start<'a, Leases> {
    rig.candidate(name)
        .flag("--endpoint-slice", "orders")
        .flag("--endpoint-port", "http=8080,grpc=9090")
        .flag("--endpoint-addresses", format!("10.0.0.{number},fd00::{number}"))
}

/// Slices on an API server.
struct Slices<'a>(&'a Rig<Leases>);

impl<'a> Slices<'a> {
    /// Creates what the chart creates, and lets the candidates write it.
    fn prepared(rig: &'a Rig<Leases>) -> Self {
        rig.store.account.grant_slices(&["get", "update"], &SLICES);
        let slices = Self(rig);
        for name in SLICES {
            slices.create(&empty(name));
        }
        slices
    }

    fn create(&self, slice: &Value) {
        let slice: EndpointSlice = serde_json::from_value(slice.clone()).unwrap();
        let created = self.0.store.namespace.admin.call(async |client| {
            Api::default_namespaced(client).create(&PostParams::default(), &slice).await
        });
        created.expect("the administrator may");
    }

    /// Replaces a slice, by the version that it names.
    fn replace(&self, slice: &EndpointSlice) -> kube::Result<EndpointSlice> {
        let name = slice.metadata.name.clone().unwrap();
        self.0.store.namespace.admin.call(async |client| {
            Api::default_namespaced(client).replace(&name, &PostParams::default(), slice).await
        })
    }

    fn delete(&self, name: &str) {
        let deleted = self.0.store.namespace.admin.call(async |client| {
            let slices = Api::<EndpointSlice>::default_namespaced(client);
            slices.delete(name, &DeleteParams::default()).await
        });
        assert!(deleted.is_ok(), "the administrator may");
    }

    fn read(&self, name: &str) -> Option<EndpointSlice> {
        let found = self.0.store.namespace.admin.call(async |client| {
            Api::<EndpointSlice>::default_namespaced(client).get_opt(name).await
        });
        found.expect("the administrator may")
    }

    /// The addresses that kube-proxy would use.
    fn addresses(&self, name: &str) -> Vec<String> {
        let endpoints = self.read(name).map(|slice| slice.endpoints).unwrap_or_default();
        let ready = endpoints.into_iter().filter(|endpoint| {
            endpoint.conditions.as_ref().and_then(|found| found.ready) == Some(true)
        });
        ready.flat_map(|endpoint| endpoint.addresses).collect()
    }

    /// Whether clients of the Service reach this candidate, and no other.
    fn lead_to(&self, number: u8) -> bool {
        SLICES.map(|name| self.addresses(name))
            == [vec![format!("10.0.0.{number}")], vec![format!("fd00::{number}")]]
    }

    #[track_caller]
    fn must_lead_to(&self, number: u8) {
        eventually(PATIENCE, "the Service leads to the leader", || self.lead_to(number));
    }

    fn are_empty(&self) -> bool {
        SLICES.iter().all(|name| self.addresses(name).is_empty())
    }
}

/// A slice as the chart creates it.
fn empty(name: &str) -> Value {
    let labels = json!({
        "kubernetes.io/service-name": "orders",
        "endpointslice.kubernetes.io/managed-by": "baton",
        "team": "sales",
    });
    let family = if name.ends_with('4') { "IPv4" } else { "IPv6" };
    json!({
        "metadata": {"name": name, "labels": labels},
        "addressType": family,
        "endpoints": null,
    })
}

/// The value of a metric of the election.
fn exported(candidate: &Candidate, metric: &str, labels: &str) -> String {
    let series = format!("{metric}{{election=\"{ELECTION}\"{labels}}} ");
    let text = candidate.metrics();
    let value = text.lines().find_map(|line| line.strip_prefix(&series));
    value.expect("it is exported from the start").to_owned()
}

/// How many writes had this outcome.
fn count(candidate: &Candidate, outcome: &str) -> String {
    exported(candidate, "baton_endpoint_writes_total", &format!(",outcome=\"{outcome}\""))
}

/// How many slices hold the addresses of a leader.
fn published(candidate: &Candidate) -> String {
    exported(candidate, "baton_endpoint_slices", "")
}

#[test]
fn leader_publishes_addresses_ports_and_token() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices::prepared(&rig);
    let leader = routed(&rig, "leader", 1).start();
    assert_eq!(rig.leader().identity, leader.identity);
    rig.wait_for_answers();
    slices.must_lead_to(1);
    let slice = slices.read(SLICES[0]).unwrap();
    let ports: Vec<_> =
        slice.ports.into_iter().flatten().map(|port| (port.name, port.port)).collect();
    assert_eq!(
        ports,
        [(Some("http".to_owned()), Some(8080)), (Some("grpc".to_owned()), Some(9090))]
    );
    let token = rig.tokens(ELECTION).pop_first();
    assert_eq!(slice.metadata.annotations.unwrap().get("baton/token").cloned(), token);
    assert_eq!(slice.metadata.labels.unwrap()["team"], "sales");
    eventually(PATIENCE, "it reports both slices", || published(&leader) == "2");
    assert_eq!(["applied", "unknown"].map(|outcome| count(&leader, outcome)), ["2", "0"]);
    assert_eq!(leader.events("endpoint_published").len(), 2);
}

/// A follower of the record may see the release before the slice is read here, so the record is read
/// first.
#[test]
fn stopping_leader_clears_before_its_release() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices::prepared(&rig);
    let leader = routed(&rig, "leader", 1).start();
    assert_eq!(rig.leader().identity, leader.identity);
    rig.wait_for_answers();
    slices.must_lead_to(1);
    leader.terminate();
    eventually(PATIENCE, "it releases", || {
        let is_released = rig.store.holder(ELECTION).is_empty();
        assert!(!is_released || slices.are_empty(), "released before it was cleared");
        is_released
    });
    assert_eq!(leader.exit_code(), 0);
    assert_eq!(leader.events("endpoint_cleared").len(), 2);
}

/// Its application never asks, so the release waits for no promise.
#[test]
fn leader_without_promises_clears_before_it_exits() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices::prepared(&rig);
    let leader = routed(&rig, "leader", 1).unpolled().start();
    slices.must_lead_to(1);
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    assert!(slices.are_empty(), "{}", leader.output());
    let next = routed(&rig, "next", 2).start();
    assert_eq!(rig.leader().identity, next.identity);
    rig.wait_for_answers();
}

#[test]
fn service_follows_a_handoff_and_a_crash() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices::prepared(&rig);
    let first = routed(&rig, "first", 1).start();
    assert_eq!(rig.leader().identity, first.identity);
    slices.must_lead_to(1);
    let second = routed(&rig, "second", 2).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&second, "following"));
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    slices.must_lead_to(2);

    // Without IPv6, as after a change of the cluster's network.
    let third = routed(&rig, "third", 3).flag("--endpoint-addresses", "10.0.0.3").start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&third, "following"));
    second.kill();
    assert_eq!(rig.takeover(&second, rig.now()).identity, third.identity);
    eventually(PATIENCE, "nothing is left of the crashed leader", || {
        SLICES.map(|name| slices.addresses(name)) == [vec!["10.0.0.3".to_owned()], vec![]]
    });
    assert_eq!(published(&third), "1");
}

#[test]
fn frozen_leader_that_wakes_up_leaves_its_successor_alone() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices::prepared(&rig);
    let old = routed(&rig, "old", 1).flag("--on-lost", "stay").start();
    assert_eq!(rig.leader().identity, old.identity);
    slices.must_lead_to(1);
    let stale = slices.read(SLICES[0]).unwrap();
    let new = routed(&rig, "new", 2).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&new, "following"));
    let frozen = old.pause();
    assert_eq!(rig.takeover(&old, frozen).identity, new.identity);
    slices.must_lead_to(2);
    old.resume();
    eventually(PATIENCE, "it follows", || rig.has_standing(&old, "following"));
    throughout(rig.timing.lease_duration, "the Service leads to the new leader", || {
        slices.lead_to(2)
    });
    let refused = slices.replace(&stale).expect_err("it names an old version");
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 409), "{refused}");
}

/// Its write waits in the network until its successor has published.
#[test]
fn late_write_of_a_former_leader_is_refused() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices::prepared(&rig);
    let gateway = Gateway::before(&rig.store.namespace.admin);
    let proxy = Proxy::to(gateway.url().trim_start_matches("http://").parse().unwrap());
    let slow = rig.store.account.access.at("slow", &format!("http://{}", proxy.address()));
    proxy.hold_at(b"PUT /apis/discovery.k8s.io/");
    let old = routed(&rig, "old", 1).by(&slow).flag("--on-lost", "stay").start();
    assert_eq!(rig.leader().identity, old.identity);
    eventually(PATIENCE, "its write is on the way", || proxy.held(Direction::Requests) > 0);
    let new = routed(&rig, "new", 2).start();
    let held = rig.now();
    assert_eq!(rig.takeover(&old, held).identity, new.identity);
    slices.must_lead_to(2);
    proxy.set(Direction::Requests, Flow::Pass);
    eventually(PATIENCE, "the write has arrived", || proxy.held(Direction::Requests) == 0);
    throughout(rig.timing.lease_duration, "the Service leads to the new leader", || {
        slices.lead_to(2)
    });
}

/// Without a successor, the slices route to this candidate until it clears them.
#[test]
fn candidate_that_stays_clears_after_an_outage() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices::prepared(&rig);
    let gateway = Gateway::before(&rig.store.namespace.admin);
    let proxy = Proxy::to(gateway.url().trim_start_matches("http://").parse().unwrap());
    let through = rig.store.account.access.at("through", &format!("http://{}", proxy.address()));
    let only = routed(&rig, "only", 1).by(&through).flag("--on-lost", "stay").start();
    assert_eq!(rig.leader().identity, only.identity);
    slices.must_lead_to(1);
    proxy.set(Direction::Requests, Flow::Close);
    only.baton("resign --hold-off 120s");
    eventually(PATIENCE, "it follows", || rig.has_standing(&only, "following"));
    eventually(PATIENCE, "it cannot clear", || {
        let failures = only.events("endpoint_failed");
        failures.iter().any(|event| event["message"].to_string().contains("still be routed"))
    });
    let one_call = rig.timing.call_timeout();
    throughout(one_call * 2, "the slices lead to it", || slices.lead_to(1));
    proxy.set(Direction::Requests, Flow::Pass);
    eventually(PATIENCE, "it clears both", || slices.are_empty());
    eventually(PATIENCE, "it logs both", || only.events("endpoint_cleared").len() == 2);
}

#[test]
fn leader_without_rights_leads_and_names_the_role() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices(&rig);
    for name in SLICES {
        slices.create(&empty(name));
    }
    let leader = routed(&rig, "leader", 1).start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(PATIENCE, "it logs the refusals", || leader.events("endpoint_failed").len() == 2);
    let message = leader.events("endpoint_failed")[0]["message"].to_string();
    for needed in [
        "cannot get resource",
        r#"resourceNames: [\"orders-ipv4\", \"orders-ipv6\"]"#,
        r#"verbs: [\"get\", \"update\"]"#,
        r#"resources: [\"leases\"]"#,
        r#"name: \"shop\""#,
    ] {
        assert!(message.contains(needed), "{needed} is not in {message}");
    }
    throughout(2 * rig.timing.lease_duration, "it leads all the same", || {
        leader.is_healthy() && rig.holds(&leader)
    });
    assert_eq!(published(&leader), "0");
    assert_eq!(leader.events("endpoint_failed").len(), 2, "each failure is logged once");
    rig.store.account.grant_slices(&["get", "update"], &SLICES);
    slices.must_lead_to(1);
}

/// `baton doctor` reports the problems that a leader would have, and writes nothing.
#[test]
fn doctor_checks_the_slices() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices(&rig);
    let doctor = || {
        let flags =
            ["--endpoint-slice=orders", "--endpoint-port=80", "--endpoint-addresses=10.0.0.1"];
        let (code, lines) = doctor_with(rig.store.account.access.kubeconfig(), &flags);
        assert_eq!(code, 0, "a candidate leads without the slices: {lines}");
        lines
    };
    rig.store.account.grant_slices(&["get"], &SLICES);
    let lines = doctor();
    assert!(lines.contains("the API server refused its creation"), "{lines}");
    assert_eq!(lines.matches("warning  routing").count(), 1, "no IPv6 address: {lines}");
    rig.store.account.grant_slices(&["create"], &[]);
    let can_write = || doctor().contains("a leader can write its EndpointSlices");
    // A grant takes effect when the API server's own watch has seen it.
    eventually(PATIENCE, "it may create the slice", can_write);
    assert!(slices.read(SLICES[0]).is_none(), "it was created");
    for name in SLICES {
        slices.create(&empty(name));
    }
    let versions = || SLICES.map(|name| slices.read(name).unwrap().metadata.resource_version);
    let before = versions();
    let lines = doctor();
    assert!(lines.contains("warning  routing") && lines.contains("cannot update"), "{lines}");
    rig.store.account.grant_slices(&["get", "update"], &SLICES);
    eventually(PATIENCE, "it may write the slice", can_write);
    assert_eq!(versions(), before);
    let mut foreign = slices.read(SLICES[1]).unwrap();
    foreign.metadata.labels = None;
    slices.replace(&foreign).unwrap();
    let lines = doctor();
    assert!(lines.contains("orders-ipv6 is not this election's"), "{lines}");
}

#[test]
fn deleted_slice_comes_back_if_sidecars_may_create_it() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices::prepared(&rig);
    let leader = routed(&rig, "leader", 1).start();
    assert_eq!(rig.leader().identity, leader.identity);
    slices.must_lead_to(1);
    slices.delete(SLICES[0]);
    eventually(PATIENCE, "it logs what it may not do", || {
        let failures = leader.events("endpoint_failed");
        failures.iter().any(|event| event["message"].to_string().contains("refused its creation"))
    });
    assert_eq!(slices.addresses(SLICES[1]), ["fd00::1"], "the other slice stays");
    rig.store.account.grant_slices(&["create"], &[]);
    slices.must_lead_to(1);
    let labels = slices.read(SLICES[0]).unwrap().metadata.labels.unwrap();
    assert_eq!(labels["kubernetes.io/service-name"], "orders");
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "baton");
}

#[test]
fn slice_of_another_program_is_left_alone() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let slices = Slices::prepared(&rig);
    for name in SLICES {
        slices.delete(name);
        let mut slice = empty(name);
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
            "endpointslice-controller.k8s.io".into();
        slices.create(&slice);
    }
    let leader = routed(&rig, "leader", 1).start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(PATIENCE, "it logs both", || leader.events("endpoint_foreign").len() == 2);
    throughout(rig.timing.lease_duration * 2, "it writes into neither", || slices.are_empty());
    assert_eq!(leader.events("endpoint_foreign").len(), 2, "each is logged once");
    assert_eq!(count(&leader, "applied"), "0");
}
