//! The faults of client-go's leader election, each as a story that its real candidate goes through and ours too, at the
//! same times and on the same API server: README, "Beside client-go".
//!
//! A story ends with how long two could act as the leader. Of client-go it has to show the fault, or the comparison is
//! no longer true and has to go; of ours it has to show none. Each test prints both figures.

use super::contender::Program;
use crate::rig::{
    Access, ApiServer, Contender, ELECTION, Flow, Leases, Peer, Proxy, Rig, Store as _, Timing,
    Way, eventually, first_to_lead, side_by_side, wait_for,
};
use std::time::Duration;

/// client-go's 15 s, 10 s and 2 s, each times 2/5.
const DEFAULTS: Timing = Timing::of_ms(6000, 4000, 800, 800);

/// A renew deadline nearer to the lease duration, as those choose it who fear a slow API server. client-go's release has to be
/// done, and a third to try, within one retry period: it is long enough for an API server that has other things to do.
const LATE_DEADLINE: Timing = Timing::of_ms(12_000, 9600, 1600, 1600);

/// The same, with more tries.
const QUICK_TRIES: Timing = Timing::of_ms(8000, 6500, 200, 1000);

/// What client-go takes for sound: its holder may lead for a retry period and a renew deadline after its last renewal, 6.5 s,
/// and the others wait for the lease duration, 4 s.
const UNSOUND: Timing = Timing::of_ms(4000, 3600, 2900, 500);

/// Enough followers for one of them to try in any part of a retry period.
const CROWD: usize = 12;

const PATIENCE: Duration = Duration::from_secs(30);

/// How long two could act as the leader, in the story of each program.
#[derive(Debug)]
struct Overlap {
    client_go: Duration,
    baton: Duration,
}

/// Tells the same story of both programs, side by side.
fn of_both(story: impl Fn(Program) -> Duration + Sync) -> Overlap {
    let [client_go, baton] = side_by_side([Program::ClientGo, Program::Baton], story);
    Overlap { client_go, baton }
}

/// The leader is paused (a suspended machine, a starved node) until another has succeeded it, and wakes up. client-go finds
/// the other's record at once, answers that it is not the leader, and goes on trying, with its work running, for a
/// whole renew deadline.
#[test]
fn a_leader_that_wakes_up_deposed() {
    let overlap = of_both(|program| {
        let rig = Rig::over(Leases::fresh(), DEFAULTS);
        let admin = &rig.store.namespace.admin;
        let mut old = Contender::start(&rig, program, "old", admin);
        old.must_lead();
        let new = Contender::start(&rig, program, "new", admin);
        new.must_follow();
        let before = old.renewals();
        eventually(PATIENCE, "it renews, so that it is paused between two tries", || {
            old.renewals() > before
        });
        old.pause();
        new.must_lead();
        let woken = old.resume();
        if program == Program::ClientGo {
            eventually(PATIENCE, "it works although it knows better", || old.works_deposed());
        }
        let stopped = old.must_stop();
        old.must_have_lost();
        stopped.since(woken)
    });
    println!("{overlap:?} at {DEFAULTS:?}");
    assert!(overlap.client_go >= DEFAULTS.renew_deadline.mul_f64(0.75), "{overlap:?}");
    assert_eq!(overlap.baton, Duration::ZERO);
}

/// The network between the leader and the API server swallows everything. client-go gives up after its renew deadline, and
/// then first tries to release, for as long as a call may take, before it stops the work.
#[test]
fn a_leader_that_is_cut_off_and_would_release_first() {
    let overlap = of_both(|program| {
        let rig = Rig::over(Leases::fresh(), QUICK_TRIES);
        let admin = &rig.store.namespace.admin;
        let proxy = Proxy::to(ApiServer::shared().address());
        let mut old = Contender::start(&rig, program, "old", &admin.through(proxy.address()));
        old.must_lead();
        let new = Contender::start(&rig, program, "new", admin);
        new.must_follow();
        proxy.set(Way::Requests, Flow::Hold);
        let led = new.must_lead();
        let stopped = old.must_stop();
        old.must_have_lost();
        stopped.since(led)
    });
    println!("{overlap:?} at {QUICK_TRIES:?}");
    // 0.2 s + 6.5 s + a call of 3.25 s after its last renewal, and the other leads after 8 s to 8.9 s.
    assert!(overlap.client_go >= Duration::from_millis(400), "{overlap:?}");
    assert_eq!(overlap.baton, Duration::ZERO);
}

/// The same network, which comes back as soon as another leads. client-go's release reads the record of the other, with its
/// version, looks into its own memory for who holds it, and writes an empty holder over it: a third leads, and the
/// second still does.
#[test]
fn a_release_that_wipes_out_the_successor() {
    let overlap = of_both(|program| {
        let rig = Rig::over(Leases::fresh(), LATE_DEADLINE);
        let admin = &rig.store.namespace.admin;
        let proxy = Proxy::to(ApiServer::shared().address());
        let mut first = Contender::start(&rig, program, "first", &admin.through(proxy.address()));
        first.must_lead();
        let mut others: Vec<_> = (1..=CROWD)
            .map(|number| Contender::start(&rig, program, &format!("other-{number}"), admin))
            .collect();
        others.iter().for_each(Contender::must_follow);
        proxy.set(Way::Requests, Flow::Hold);
        let (second, _) = first_to_lead(&others);
        let mut second = others.remove(second);
        eventually(PATIENCE, "it renews, so that its next try is a retry period away", || {
            second.renewals() > 0.0
        });
        proxy.set(Way::Requests, Flow::Pass);
        first.must_have_lost();
        // Who still leads after a whole lease duration has been left alone.
        let until = rig.now() + LATE_DEADLINE.lease_duration;
        let third = wait_for(PATIENCE, "a third leads, or long enough nobody does", || {
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

/// client-go compares the lease duration with the renew deadline alone, though its holder counts that from its next try.
/// Ours has no such story: it refuses the durations.
#[test]
fn durations_that_let_two_lead() {
    let rig = Rig::over(Leases::fresh(), UNSOUND);
    let admin = &rig.store.namespace.admin;
    let proxy = Proxy::to(ApiServer::shared().address());
    let durations = ["--lease-duration=4s", "--renew-deadline=3600ms"];
    let start = |access: &Access, name: &str, retry_period| {
        Peer::client_go(access, ELECTION, name, &[&durations[..], &[retry_period]].concat())
    };
    let old = start(&admin.through(proxy.address()), "old", "--retry-period=2900ms");
    wait_for(PATIENCE, "client-go takes the durations, and leads", || old.told("started_leading"));
    let new = start(admin, "new", "--retry-period=200ms");
    wait_for(PATIENCE, "another follows", || new.told("new_leader"));
    proxy.set(Way::Requests, Flow::Hold);
    let led = wait_for(PATIENCE, "the other leads", || new.told("started_leading"));
    let stopped = wait_for(PATIENCE, "the old one stops", || old.told("work_cancelled"));
    let overlap = stopped.saturating_sub(led);
    println!("client-go: {overlap:?} at {UNSOUND:?}");
    assert!(overlap >= Duration::from_secs(1), "two led for {overlap:?}");

    let (code, told) = rig.candidate("ours").ends();
    assert_eq!(code, 2);
    assert!(told.contains("another candidate could lead before this one stops"), "{told}");
}
