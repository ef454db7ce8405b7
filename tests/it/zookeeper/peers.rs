//! Candidates of Curator, kazoo, and Baton in one queue, as in a rolling migration in either
//! direction.

use super::contender::Program;
use crate::rig::{
    Contender, Departure, ELECTION, Handoff, Rig, Store as _, Timing, Znodes, first_to_lead,
    medians_of_releases, side_by_side, throughout,
};
use std::time::Duration;

/// A long session, because dozens of processes start at the same time.
const TIMING: Timing = Timing::of_ms(9000, 6000, 500, 500);

/// Elections in parallel, and how often each goes to the other program and back: 100 handoffs each
/// way.
const PAIRS: usize = 10;
const ROUNDS: usize = 10;
/// In every tenth round, both leaders are killed.
const ROUNDS_PER_KILL: usize = 10;

/// The bound on a handoff after a release: docs/concepts/guarantees.md.
const RELEASE_HANDOFF: Duration = Duration::from_millis(100);

/// The bound on a handoff. After a release, no candidate waits for a session to end, however busy
/// the machine is. After a kill, every candidate does, because a kill does not end the session.
fn bound(rig: &Rig<Znodes>, end: Departure) -> Duration {
    match end {
        Departure::Released => TIMING.lease_duration / 2,
        Departure::Killed => rig.store.takeover(TIMING) + Znodes::NOISE,
    }
}

#[test]
fn leadership_alternates_with_curator_100_times() {
    assert_alternates(Program::Curator);
}

#[test]
fn leadership_alternates_with_kazoo_100_times() {
    assert_alternates(Program::Kazoo);
}

fn assert_alternates(theirs: Program) {
    let handoffs = side_by_side([(); PAIRS], |()| alternate(theirs));
    let [theirs, ours] = medians_of_releases(&handoffs.concat(), PAIRS * ROUNDS);
    // On a busy machine, the other program's median is the bound.
    assert!(
        ours <= RELEASE_HANDOFF.max(theirs),
        "median handoff after a release: {ours:?}, of the other program {theirs:?}"
    );
}

/// Passes leadership between one candidate of each program, again and again.
fn alternate(theirs: Program) -> Vec<Handoff> {
    let rig = Rig::over(Znodes::fresh(), TIMING);
    let mut leader = Contender::start(&rig, Program::Baton, "ours-0");
    leader.must_lead();
    let mut handoffs = Vec::new();
    for round in 1..=ROUNDS {
        let end =
            if round % ROUNDS_PER_KILL == 0 { Departure::Killed } else { Departure::Released };
        for (program, name) in [(theirs, "theirs"), (Program::Baton, "ours")] {
            let next = Contender::start(&rig, program, &format!("{name}-{round}"));
            next.must_follow();
            handoffs.push(hand_over(&mut leader, end, std::slice::from_ref(&next)));
            leader = next;
        }
    }
    rig.leader(); // The prober has to see the last leader too.
    assert_eq!(rig.tokens(ELECTION).len(), ROUNDS + 1, "one term for each of our candidates");
    handoffs
}

#[test]
fn rolling_migration_between_programs_keeps_one_leader() {
    let rig = Rig::over(Znodes::fresh(), TIMING);
    let mut running = vec![Contender::start(&rig, Program::Curator, "curator-0")];
    running[0].must_lead();
    let programs =
        [Program::Curator, Program::Baton, Program::Kazoo, Program::Baton, Program::Curator];
    for (generation, program) in programs.into_iter().enumerate() {
        for number in 1..=3 {
            let new =
                Contender::start(&rig, program, &format!("{program:?}-{generation}-{number}"));
            new.must_follow();
            running.push(new);
            if running.len() > 3 {
                // Candidates lead in the order in which they joined.
                let mut oldest = running.remove(0);
                let handoff = hand_over(&mut oldest, Departure::Released, &running);
                assert_eq!(handoff.to_ours, running[0].is_ours());
                running[0].must_lead();
            }
        }
    }
    assert_eq!(rig.tokens(ELECTION).len(), 6, "one term for each of our candidates");
}

/// Stops or kills the leader, and checks how another candidate succeeds it.
#[track_caller]
fn hand_over(
    old: &mut Contender<'_, Znodes>,
    end: Departure,
    others: &[Contender<'_, Znodes>],
) -> Handoff {
    let (since, stopped) = old.end(end);
    let (new, led) = first_to_lead(others);
    let new = &others[new];
    assert!(
        led >= stopped,
        "{} led at {led:?}, before {} had stopped at {stopped:?}",
        new.name,
        old.name
    );
    let (gap, bound) = (led.since(since), bound(old.rig, end));
    assert!(
        gap <= bound,
        "{} led {gap:?} after {} ({end:?}), which is more than {bound:?}",
        new.name,
        old.name
    );
    Handoff { to_ours: new.is_ours(), end, gap }
}

/// zkElection names its znodes differently, and its candidates exit if others are in the queue. So
/// the test creates such znodes itself.
#[test]
fn znodes_named_like_those_of_zk_election_are_awaited_in_order() {
    const SPAN: Duration = Duration::from_secs(3);
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.path(ELECTION);
    let stranger = |number: u32| {
        let znode = format!("{path}/_c_f3b0c44298fc1c149afbf4c8996fb924-p_{number:010}");
        rig.store.admin.create_ephemeral(&znode).expect("the number is the next one");
        znode
    };
    let first = rig.start_leader("first");
    let predecessor = stranger(1);
    let [second] = rig.start_followers(["second"]);
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    throughout(SPAN, "it waits for its predecessor", || {
        rig.store.admin.read(&predecessor).is_ok() && rig.has_standing(&second, "following")
    });
    rig.store.admin.delete(&predecessor).expect("it still exists");
    assert_eq!(rig.leader().identity, second.identity);
    let later = stranger(3);
    throughout(SPAN, "a later znode changes nothing", || {
        rig.store.admin.read(&later).is_ok() && rig.has_standing(&second, "leading")
    });
    assert_eq!(second.events("strange_candidates").len(), 1);
}
