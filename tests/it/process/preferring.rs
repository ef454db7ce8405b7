//! Candidates that leave a free record to preferred ones (`--stand-after`).

use crate::rig::{Candidate, Rig, Store, eventually, over_every_record, throughout, wait_for};
use std::sync::Arc;
use std::time::Duration;

/// How soon a preferred candidate leads after a release: docs/concepts/guarantees.md.
const AFTER_A_RELEASE: Duration = Duration::from_millis(100);

over_every_record! {
    preferred_candidate_leads_after_every_handoff,
    less_preferred_candidate_replaces_a_killed_leader,
    preference_never_takes_the_record_from_a_leader,
}

/// A candidate that leaves a free record to others for `stand_after`, and hands over on request.
fn standing_after<S: Store>(rig: &Rig<S>, name: &str, stand_after: Duration) -> Arc<Candidate> {
    let start = rig.candidate(name).flag("--on-lost", "stay");
    start.flag("--stand-after", format!("{stand_after:?}")).start()
}

fn preferred_candidate_leads_after_every_handoff<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW);
    let stand_after = rig.timing.retry_period;
    let first = standing_after(&rig, "a", Duration::ZERO);
    assert_eq!(rig.leader().identity, first.identity);
    let second = standing_after(&rig, "b", Duration::ZERO);
    let modest = standing_after(&rig, "c", stand_after);
    for candidate in [&second, &modest] {
        eventually(S::NOISE * 10, "it follows", || rig.has_standing(candidate, "following"));
    }
    let (mut leader, mut other) = (first, second);
    // Long enough for the other one, and shorter than the preference of the last.
    let hold_off = stand_after / 2;
    for _ in 0..4 {
        let asked = rig.now();
        let resigned = leader.baton(&format!("resign --hold-off {hold_off:?}"));
        assert!(resigned.status.success(), "{resigned:?}");
        let within = rig.timing.answer_validity + AFTER_A_RELEASE + S::NOISE;
        let (successor, _) = rig.successor(&leader, asked, within);
        assert_eq!(successor.identity, other.identity, "the preferred follower leads");
        (leader, other) = (other, leader);
        eventually(S::NOISE * 10, "the old leader follows", || {
            rig.has_standing(&other, "following") && rig.has_standing(&leader, "leading")
        });
    }
    assert!(rig.first_promise(&modest).is_none(), "the less preferred candidate never led");
}

fn less_preferred_candidate_replaces_a_killed_leader<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let stand_after = rig.timing.lease_duration / 2;
    let killed = standing_after(&rig, "a", Duration::ZERO);
    rig.leader();
    let modest = standing_after(&rig, "b", stand_after);
    eventually(S::NOISE * 10, "it follows", || rig.has_standing(&modest, "following"));
    let at = killed.kill();
    let (successor, led) = rig.successor(&killed, at, rig.store.takeover(rig.timing) + stand_after);
    assert_eq!(successor.identity, modest.identity);
    let last_renewal = rig.timing.retry_period * 2;
    let least = (rig.timing.lease_duration + stand_after).saturating_sub(last_renewal);
    assert!(led.since(at) >= least, "it waited only {:?}", led.since(at));
}

fn preference_never_takes_the_record_from_a_leader<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let stand_after = rig.timing.retry_period;
    let begun = rig.now();
    let modest = standing_after(&rig, "c", stand_after);
    let led = wait_for(stand_after * 2 + S::NOISE * 10, "it leads", || rig.first_promise(&modest));
    assert!(led.since(begun) >= stand_after, "it led after {:?}", led.since(begun));
    let preferred = standing_after(&rig, "a", Duration::ZERO);
    eventually(S::NOISE * 10, "it follows", || rig.has_standing(&preferred, "following"));
    throughout(rig.timing.retry_period * 3, "the leader keeps the record", || rig.holds(&modest));
}
