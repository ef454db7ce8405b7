//! Edits of a Lease by people and their tools.

use crate::http::waiting::Events;
use crate::rig::{ELECTION, Leases, Rig, Store as _, eventually, throughout, wait_for};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::{Value, json};
use std::iter;
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A merge patch without conditions.
fn edit(rig: &Rig<Leases>, patch: &Value) {
    rig.store.namespace.admin.patch(ELECTION, patch).expect("the administrator may");
}

#[test]
fn repeated_label_edits_have_no_effect() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let mut edits = 0;
    throughout(2 * rig.timing.lease_duration, "the leader keeps leading", || {
        edits += 1;
        edit(&rig, &json!({ "metadata": { "labels": { "edit": edits.to_string() } } }));
        leader.is_alive() && follower.is_alive()
    });
    assert!(edits > 10, "only {edits} edits");
    assert!(rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    let labels =
        rig.store.lease(ELECTION).and_then(|lease| lease.metadata.labels).unwrap_or_default();
    assert_eq!(labels.get("edit"), Some(&edits.to_string()), "renewals keep the label");
}

#[test]
fn edited_holder_ends_the_term_and_is_waited_out() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let edited = rig.now();
    edit(&rig, &json!({ "spec": { "holderIdentity": "other", "leaseDurationSeconds": 3 } }));
    leader.loses(Leases::NOISE, "conflict");
    assert_eq!(leader.exit_code(), 75);
    let duration = Duration::from_secs(3);
    let (new, led) =
        rig.successor(&leader, edited, duration + 2 * rig.timing.retry_period + Leases::NOISE);
    assert_eq!(new.identity, follower.identity);
    assert!(led.since(edited) >= duration, "it led before the lease in the record expired");
}

#[test]
fn deleted_lease_ends_the_term_and_is_waited_out() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    let written = rig.written(ELECTION);
    let deleted = rig.now();
    rig.store.remove(ELECTION);
    leader.loses(Leases::NOISE, "deleted");
    assert_eq!(leader.exit_code(), 75);
    let (new, led) = rig.successor(&leader, deleted, rig.timing.takeover() + Leases::NOISE);
    assert_eq!(new.identity, follower.identity);
    let waited = led.since(written);
    assert!(waited >= rig.timing.lease_duration, "it waited {waited:?} after the last renewal");
}

#[test]
fn malformed_specs_do_not_end_the_term() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    for spec in [
        json!({ "renewTime": "9999-12-30T00:00:00.000000Z" }),
        json!({ "acquireTime": null, "renewTime": null }),
        json!({ "leaseTransitions": i32::MAX }),
        json!({ "leaseDurationSeconds": null }),
        json!({ "leaseDurationSeconds": i32::MAX }),
    ] {
        edit(&rig, &json!({ "spec": spec }));
        let version =
            || rig.store.lease(ELECTION).and_then(|lease| lease.metadata.resource_version);
        let edited = version();
        let repaired = wait_for(PATIENCE, "the next renewal repairs it", || {
            let spec = rig.store.spec();
            let is_recent =
                spec.renew_time.as_ref().is_some_and(|time| time.0.to_string().starts_with("20"));
            (spec.lease_duration_seconds == Some(9) && is_recent && version() != edited)
                .then_some(spec)
        });
        assert_eq!(repaired.holder_identity.as_deref(), Some(&*leader.identity));
    }
    let refused = rig
        .store
        .namespace
        .admin
        .patch(ELECTION, &json!({ "spec": { "leaseDurationSeconds": -5 } }));
    assert!(refused.is_err(), "the API server itself refuses a negative duration");
    throughout(rig.timing.lease_duration, "it keeps leading", || {
        leader.is_healthy() && follower.is_healthy()
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("lost").len(), 0);
}

#[test]
fn follower_waits_out_a_malformed_spec() {
    // A missing duration counts as the candidate's own, and a renew time far in the future as none.
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    leader.kill();
    let edited = rig.now();
    edit(
        &rig,
        &json!({ "spec": {
        "holderIdentity": " \u{e9}\u{1F980}\n_", "leaseDurationSeconds": null, "renewTime": "9999-12-30T00:00:00.000000Z",
        "acquireTime": "0001-01-01T00:00:00.000000Z", "leaseTransitions": i32::MAX,
    } }),
    );
    let (new, led) = rig.successor(&leader, edited, rig.timing.takeover() + Leases::NOISE);
    assert_eq!(new.identity, follower.identity);
    let waited = led.since(edited);
    assert!(waited >= rig.timing.lease_duration, "it waited {waited:?}");
    let spec = rig.store.spec();
    assert_eq!(
        spec.lease_transitions,
        Some(i32::MAX),
        "the counter stops at the API server's maximum"
    );
}

/// Whether the server's socket of this connection is established: `proc_pid_net(5)`, tcp.
fn is_established(server_port: u16, client_port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let ends = format!(":{server_port:04X} 0100007F:{client_port:04X} 01 ");
    sockets.contains(&ends)
}

/// The client of a stream reads nothing, while others write a new holder again and again. Its
/// connection is closed once the kernel's buffers have been full for the write timeout.
#[test]
fn slow_reader_of_events_is_dropped() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let candidate = rig.candidate("a").flag("--on-lost", "stay").start();
    rig.leader();
    rig.wait_for_answers();
    let slow = TcpStream::connect(&candidate.listen).expect("it listens");
    set_socket_recv_buffer_size(&slow, 4096).expect("it is a socket");
    let candidate_port = candidate.listen.rsplit_once(':').expect("an address has a port").1;
    let candidate_port = candidate_port.parse().expect("it is a number");
    let slow_port = slow.local_addr().expect("it is connected").port();
    let is_connected = || is_established(candidate_port, slow_port);
    let slow = Events::over(slow, &candidate.listen, "");
    let mut fast = Events::open(&candidate.listen, "");
    let mut holders = 0;
    let mut newest = None;
    eventually(PATIENCE * 2, "the slow reader is dropped", || {
        holders += 1;
        let holder = format!("other-{holders}");
        let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": 60 });
        edit(&rig, &json!({ "spec": spec }));
        let standings = iter::repeat_with(|| fast.standing());
        let told = standings.into_iter().find(|(_, body)| body["leader"] == holder);
        newest = told.map(|(revision, _)| revision);
        !is_connected()
    });
    let kept = slow.rest().matches("event: standing").count();
    assert!(kept < holders, "{kept} events were kept of {newest:?} revisions");
    assert!(candidate.is_healthy());
    edit(&rig, &json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } }));
}
