//! Faults of client-go's leader election: the same scenario runs with its real candidate and with
//! ours at the same time, on one API server. See docs/comparison.md.
//!
//! Each scenario measures how long two candidates could act as the leader. client-go's must show
//! the fault, or the comparison is outdated and must go; ours must not. Each test prints both
//! figures.

use super::contender::Program;
use crate::rig::{
    Access, ApiServer, Contender, Direction, ELECTION, Flow, Leases, Peer, Proxy, Rig, Store as _,
    Timing, eventually, first_to_lead, side_by_side, wait_for,
};
use std::time::Duration;

/// client-go's defaults (15 s, 10 s, and 2 s), each times 2/5.
const DEFAULTS: Timing = Timing::of_ms(6000, 4000, 800, 800);

/// A renew deadline closer to the lease duration, for a slow API server. client-go must release,
/// and a third candidate must try, within one retry period: it allows for a busy API server.
const LATE_DEADLINE: Timing = Timing::of_ms(12_000, 9600, 1600, 1600);

/// The same, with more attempts.
const SHORT_RETRY: Timing = Timing::of_ms(8000, 6500, 200, 1000);

/// Durations that client-go accepts although they are unsound. Its holder may lead for a retry
/// period and a renew deadline after its last renewal, 6.5 s. The others wait only 4 s.
const UNSOUND: Timing = Timing::of_ms(4000, 3600, 2900, 500);

/// Enough followers that one of them tries in any part of a retry period.
const CROWD: usize = 12;

const PATIENCE: Duration = Duration::from_secs(30);

/// How long two candidates of one program could act as the leader.
#[derive(Debug)]
struct Overlap {
    client_go: Duration,
    baton: Duration,
}

/// Runs the same scenario with both programs at the same time.
fn with_both(scenario: impl Fn(Program) -> Duration + Sync) -> Overlap {
    let [client_go, baton] = side_by_side([Program::ClientGo, Program::Baton], scenario);
    Overlap { client_go, baton }
}

/// The leader is paused (a suspended machine, a starved node) until another has succeeded it, and
/// resumes. client-go finds the other's record at once and answers that it is not the leader. Yet
/// it keeps trying for a whole renew deadline, with its work running.
#[test]
fn deposed_leader_stops_when_it_resumes() {
    let overlap = with_both(|program| {
        let rig = Rig::over(Leases::fresh(), DEFAULTS);
        let admin = &rig.store.namespace.admin;
        let mut old = Contender::start(&rig, program, "old", admin);
        old.must_lead();
        let new = Contender::start(&rig, program, "new", admin);
        new.must_follow();
        let before = old.renewals();
        eventually(PATIENCE, "it renews, so the pause is between two attempts", || {
            old.renewals() > before
        });
        old.pause();
        new.must_lead();
        let resumed = old.resume();
        if program == Program::ClientGo {
            eventually(PATIENCE, "it works although it is deposed", || {
                old.works_although_deposed()
            });
        }
        let stopped = old.must_stop();
        old.must_have_lost();
        stopped.since(resumed)
    });
    println!("{overlap:?} at {DEFAULTS:?}");
    assert!(overlap.client_go >= DEFAULTS.renew_deadline.mul_f64(0.75), "{overlap:?}");
    assert_eq!(overlap.baton, Duration::ZERO);
}

/// The network between the leader and the API server drops everything. client-go gives up after its
/// renew deadline. Then it first tries to release, for as long as a call may take, and stops the
/// work after that.
#[test]
fn partitioned_leader_stops_before_its_release() {
    let overlap = with_both(|program| {
        let rig = Rig::over(Leases::fresh(), SHORT_RETRY);
        let admin = &rig.store.namespace.admin;
        let proxy = Proxy::to(ApiServer::shared().address());
        let mut old = Contender::start(&rig, program, "old", &admin.through(proxy.address()));
        old.must_lead();
        let new = Contender::start(&rig, program, "new", admin);
        new.must_follow();
        proxy.set(Direction::Requests, Flow::Hold);
        let led = new.must_lead();
        let stopped = old.must_stop();
        old.must_have_lost();
        stopped.since(led)
    });
    println!("{overlap:?} at {SHORT_RETRY:?}");
    // It stops 0.2 s + 6.5 s + a call of 3.25 s after its last renewal; the other leads after 8 to
    // 8.9 s.
    assert!(overlap.client_go >= Duration::from_millis(400), "{overlap:?}");
    assert_eq!(overlap.baton, Duration::ZERO);
}

/// The same partition, which ends as soon as another leads. client-go's release reads the other's
/// record and its version, but takes the holder from its own memory, and overwrites the record with
/// an empty holder. So a third candidate leads while the second still does.
#[test]
fn late_release_does_not_overwrite_the_successor() {
    let overlap = with_both(|program| {
        let rig = Rig::over(Leases::fresh(), LATE_DEADLINE);
        let admin = &rig.store.namespace.admin;
        let proxy = Proxy::to(ApiServer::shared().address());
        let mut first = Contender::start(&rig, program, "first", &admin.through(proxy.address()));
        first.must_lead();
        let mut others: Vec<_> = (1..=CROWD)
            .map(|number| Contender::start(&rig, program, &format!("other-{number}"), admin))
            .collect();
        others.iter().for_each(Contender::must_follow);
        proxy.set(Direction::Requests, Flow::Hold);
        let (second, _) = first_to_lead(&others);
        let mut second = others.remove(second);
        eventually(PATIENCE, "it renews, so its next attempt is a retry period away", || {
            second.renewals() > 0.0
        });
        proxy.set(Direction::Requests, Flow::Pass);
        first.must_have_lost();
        // A second that still leads after a lease duration was not disturbed.
        let until = rig.now() + LATE_DEADLINE.lease_duration;
        let third = wait_for(PATIENCE, "a third leads, or none for long enough", || {
            let led = others.iter().find_map(Contender::led);
            (led.is_some() || rig.now() > until).then_some(led)
        });
        third.map_or(Duration::ZERO, |led| {
            let stopped = second.must_stop();
            second.must_have_lost();
            stopped.since(led)
        })
    });
    println!("{overlap:?} at {LATE_DEADLINE:?}");
    assert!(overlap.client_go >= LATE_DEADLINE.renew_deadline.mul_f64(0.75), "{overlap:?}");
    assert_eq!(overlap.baton, Duration::ZERO);
}

/// client-go compares the lease duration with the renew deadline alone, although its holder counts
/// the deadline from its next attempt. Ours refuses such durations.
#[test]
fn durations_that_let_two_lead_are_refused() {
    let rig = Rig::over(Leases::fresh(), UNSOUND);
    let admin = &rig.store.namespace.admin;
    let proxy = Proxy::to(ApiServer::shared().address());
    let durations = ["--lease-duration=4s", "--renew-deadline=3600ms"];
    let start = |access: &Access, name: &str, retry_period| {
        Peer::client_go(access, ELECTION, name, &[&durations[..], &[retry_period]].concat())
    };
    let old = start(&admin.through(proxy.address()), "old", "--retry-period=2900ms");
    wait_for(PATIENCE, "client-go accepts the durations and leads", || {
        old.first_logged("started_leading")
    });
    let new = start(admin, "new", "--retry-period=200ms");
    wait_for(PATIENCE, "another follows", || new.first_logged("new_leader"));
    proxy.set(Direction::Requests, Flow::Hold);
    let led = wait_for(PATIENCE, "the other leads", || new.first_logged("started_leading"));
    let stopped = wait_for(PATIENCE, "the old one stops", || old.first_logged("work_cancelled"));
    let overlap = stopped.saturating_sub(led);
    println!("client-go: {overlap:?} at {UNSOUND:?}");
    assert!(overlap >= Duration::from_secs(1), "two led for {overlap:?}");

    let (code, output) = rig.candidate("ours").ends();
    assert_eq!(code, 2);
    assert!(output.contains("another candidate could lead before this one stops"), "{output}");
}
