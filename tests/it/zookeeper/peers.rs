//! Candidates of Curator and of kazoo in one line with ours, before, behind and among them: as in a rolling migration,
//! both ways.

use super::contender::Program;
use crate::rig::{
    Contender, Departure, ELECTION, Handoff, Rig, Store as _, Timing, Znodes, first_to_lead,
    medians_of_releases, side_by_side, throughout,
};
use std::time::Duration;

/// A long session, since dozens of processes start beside each other here.
const TIMING: Timing = Timing::of_ms(9000, 6000, 500, 500);

/// Elections side by side, and how often each goes to the other program and back: 100 handoffs each way.
const PAIRS: usize = 10;
const ROUNDS: usize = 10;
/// Every so many rounds both leaders are killed.
const KILLS: usize = 10;

/// What README promises for a release.
const RELEASE: Duration = Duration::from_millis(100);

/// How long a handoff may take: after a release nobody waits for a session to end, however busy the machine is; after a
/// kill, which ends no session, everybody does.
fn bound(rig: &Rig<Znodes>, end: Departure) -> Duration {
    match end {
        Departure::Released => TIMING.lease_duration / 2,
        Departure::Killed => rig.store.takeover(TIMING) + Znodes::NOISE,
    }
}

#[test]
fn leadership_goes_100_times_from_curator_to_ours_and_100_times_back() {
    goes_to_and_fro(Program::Curator);
}

#[test]
fn leadership_goes_100_times_from_kazoo_to_ours_and_100_times_back() {
    goes_to_and_fro(Program::Kazoo);
}

fn goes_to_and_fro(theirs: Program) {
    let handoffs = side_by_side([(); PAIRS], |()| to_and_fro(theirs));
    let [theirs, ours] = medians_of_releases(&handoffs.concat(), PAIRS * ROUNDS);
    // Where the machine is too busy for that, theirs shows how busy it is.
    assert!(
        ours <= RELEASE.max(theirs),
        "after a release ours took {ours:?} in the median, theirs {theirs:?}"
    );
}

/// Leadership goes to and fro between one candidate of each program.
fn to_and_fro(theirs: Program) -> Vec<Handoff> {
    let rig = Rig::over(Znodes::fresh(), TIMING);
    let mut leader = Contender::start(&rig, Program::Baton, "ours-0");
    leader.must_lead();
    let mut handoffs = Vec::new();
    for round in 1..=ROUNDS {
        let end = if round % KILLS == 0 { Departure::Killed } else { Departure::Released };
        for (program, name) in [(theirs, "theirs"), (Program::Baton, "ours")] {
            let next = Contender::start(&rig, program, &format!("{name}-{round}"));
            next.must_follow();
            handoffs.push(hand_over(&mut leader, end, std::slice::from_ref(&next)));
            leader = next;
        }
    }
    rig.leader(); // so that the last of them is heard too
    assert_eq!(rig.tokens(ELECTION).len(), ROUNDS + 1, "one term for each of ours");
    handoffs
}

#[test]
fn three_candidates_are_replaced_one_by_one_by_those_of_each_other_program() {
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
                // They lead in the order in which they came.
                let mut oldest = running.remove(0);
                let handoff = hand_over(&mut oldest, Departure::Released, &running);
                assert_eq!(handoff.to_ours, running[0].is_ours());
                running[0].must_lead();
            }
        }
    }
    assert_eq!(rig.tokens(ELECTION).len(), 6, "one term for each of ours");
}

/// Ends the leader, and judges how one of the others succeeds it.
#[track_caller]
fn hand_over(
    old: &mut Contender<'_, Znodes>,
    end: Departure,
    others: &[Contender<'_, Znodes>],
) -> Handoff {
    let (since, stopped) = old.end(end);
    let (new, led) = first_to_lead(others);
    let new = &others[new];
    assert!(led >= stopped, "{} led at {led:?}, and {} had until {stopped:?}", new.name, old.name);
    let (gap, bound) = (led.since(since), bound(old.rig, end));
    assert!(
        gap <= bound,
        "{end:?} by {}, {} took {gap:?}, which is more than {bound:?}",
        old.name,
        new.name
    );
    Handoff { to_ours: new.is_ours(), end, gap }
}

/// zkElection names its znodes in a way of its own, and its candidates end where others stand in line. So znodes stand here
/// for them, which ours wait for by their numbers.
#[test]
fn znodes_named_as_zk_election_does_are_waited_for_in_their_turn() {
    const WHILE: Duration = Duration::from_secs(3);
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.path(ELECTION);
    let stranger = |number: u32| {
        let znode = format!("{path}/_c_f3b0c44298fc1c149afbf4c8996fb924-p_{number:010}");
        rig.store.admin.create_ephemeral(&znode).expect("the number is the next one");
        znode
    };
    let first = rig.start_leader("first");
    let before = stranger(1);
    let [second] = rig.start_followers(["second"]);
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    throughout(WHILE, "it waits for the stranger before it", || {
        rig.store.admin.read(&before).is_ok() && rig.has_standing(&second, "following")
    });
    rig.store.admin.delete(&before).expect("it stood there all along");
    assert_eq!(rig.leader().identity, second.identity);
    let behind = stranger(3);
    throughout(WHILE, "no stranger behind it is of interest", || {
        rig.store.admin.read(&behind).is_ok() && rig.has_standing(&second, "leading")
    });
    assert_eq!(second.events("strange_candidates").len(), 1);
}
