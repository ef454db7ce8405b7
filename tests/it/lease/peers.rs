//! client-go's candidates and ours on one Lease, as in a rolling migration in both directions.

use super::contender::Program;
use super::meter::Meter;
use crate::rig::{
    ApiServer, Contender, Departure, ELECTION, Handoff, Leases, Rig, Store as _, Timing,
    first_to_lead, medians_of_releases, side_by_side,
};
use std::time::{Duration, Instant};

/// A long lease, since hundreds of processes start here, and a short retry period.
const TIMING: Timing = Timing::of_ms(9000, 6000, 500, 500);

/// Elections that run at the same time, and round trips in each: 200 handoffs in each direction.
const PAIRS: usize = 10;
const ROUNDS: usize = 20;
/// In every tenth round, both leaders are killed.
const ROUNDS_PER_KILL: usize = 10;

/// The calls that a handoff waits for: two by client-go and one by ours.
const CALLS_OF_A_HANDOFF: u32 = 3;

/// How long client-go leaves an election without a leader. It tries every 1 to 2.2 retry periods
/// (`RetryPeriod` plus `JitterFactor`), so the next attempt finds a release. A dead holder's lease
/// counts from the attempt that found its last renewal; the first attempt after that acquires.
fn client_go_takes(end: Departure) -> Duration {
    let next_try = TIMING.retry_period.mul_f64(2.2);
    match end {
        Departure::Released => next_try,
        Departure::Killed => next_try + TIMING.lease_duration + next_try,
    }
}

#[test]
fn leadership_alternates_200_times_with_client_go() {
    let admin = ApiServer::shared().namespace().admin;
    Meter::during(&admin, |meter| {
        let handoffs = side_by_side([(); PAIRS], |()| alternate(meter));
        let [_, gap] = medians_of_releases(&handoffs.concat(), PAIRS * ROUNDS);
        let bound = meter.release();
        println!("a release may take {bound:?} in the median on this machine");
        assert!(
            gap <= bound,
            "after a release, ours took {gap:?} in the median, more than {bound:?}"
        );
    });
}

/// Leadership alternates between one candidate of each program.
fn alternate(meter: &Meter) -> Vec<Handoff> {
    let rig = Rig::over(Leases::fresh(), TIMING);
    let access = &rig.store.account.access;
    // client-go creates by POST, which no Role can limit to one name, so ours creates the Lease.
    let mut leader = Contender::start(&rig, Program::Baton, "ours-0", access);
    leader.must_lead();
    let mut handoffs = Vec::new();
    for round in 1..=ROUNDS {
        let end =
            if round % ROUNDS_PER_KILL == 0 { Departure::Killed } else { Departure::Released };
        for (program, name) in [(Program::ClientGo, "theirs"), (Program::Baton, "ours")] {
            let next = Contender::start(&rig, program, &format!("{name}-{round}"), access);
            next.must_follow();
            handoffs.push(hand_over(&rig, meter, &mut leader, end, std::slice::from_ref(&next)));
            leader = next;
        }
    }
    rig.leader(); // the prober must observe the last term
    assert_eq!(rig.tokens(ELECTION).len(), ROUNDS + 1, "one term for each of ours");
    handoffs
}

#[test]
fn three_candidates_migrate_from_client_go_and_back() {
    let rig = Rig::over(Leases::fresh(), TIMING);
    let admin = &rig.store.namespace.admin;
    let mut running = vec![Contender::start(&rig, Program::ClientGo, "theirs-1", admin)];
    running[0].must_lead();
    let replacements: [(Program, &[&str]); 3] = [
        (Program::ClientGo, &["theirs-2", "theirs-3"]),
        (Program::Baton, &["ours-1", "ours-2", "ours-3"]),
        (Program::ClientGo, &["theirs-4", "theirs-5", "theirs-6"]),
    ];
    Meter::during(admin, |meter| {
        for (program, name) in replacements
            .iter()
            .flat_map(|(program, names)| names.iter().map(|name| (*program, name)))
        {
            let new = Contender::start(&rig, program, name, admin);
            new.must_follow();
            running.push(new);
            if running.len() > 3 {
                let mut oldest = running.remove(0);
                if oldest.led().is_some() {
                    hand_over(&rig, meter, &mut oldest, Departure::Released, &running);
                } else {
                    oldest.terminate();
                    oldest.must_have_stopped_cleanly();
                }
            }
        }
    });
    assert!(running.iter().all(|contender| contender.program() == Program::ClientGo));
}

/// Ends the leader and checks how one of the others succeeds it.
#[track_caller]
fn hand_over(
    rig: &Rig<Leases>,
    meter: &Meter,
    old: &mut Contender<'_, Leases>,
    end: Departure,
    others: &[Contender<'_, Leases>],
) -> Handoff {
    let begun = Instant::now();
    let (since, stopped) = old.end(end);
    let not_before = match end {
        Departure::Released => stopped,
        Departure::Killed => stopped.max(rig.written(ELECTION) + TIMING.lease_duration),
    };
    let (new, led) = first_to_lead(others);
    let new = &others[new];
    let gap = led.since(since);
    assert!(
        led >= not_before,
        "{} led at {led:?}, but {} had until {not_before:?}",
        new.name,
        old.name
    );
    let bound = client_go_takes(end) + Leases::NOISE;
    // A slow machine may need more; only then is the meter read.
    if gap > bound {
        let call = meter.longest(&rig.store.namespace.admin, begun);
        let (old, new) = (&old.name, &new.name);
        assert!(
            gap <= bound + CALLS_OF_A_HANDOFF * call,
            "{end:?} by {old}: {new} took {gap:?}, and the longest call {call:?}"
        );
    }
    Handoff { to_ours: new.is_ours(), end, gap }
}
