//! Calm: what is not broken does not change hands, and what is broken is noticed.

use super::exclusion::name;
use super::facts::Facts;
use crate::clock::Moment;
use crate::trace::{Happening, Scene};
use baton_election::machine::{Election, Reason, Transition, Withdrawal};
use std::time::Duration;

/// When nothing has been wrong for long enough, nothing happens to anybody.
pub(super) fn no_transition_without_fault<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Tells(number, transition) = happening else { return None };
    let stirred = facts.meddled.map_or(facts.quiet_since, |(at, _)| at.max(facts.quiet_since));
    let quiet = scene.now.since(stirred);
    (facts.is_well() && quiet > facts.settles_in()).then(|| {
        format!("nothing has been wrong for {quiet:?}, and {} tells {transition:?}", name(*number))
    })
}

/// A leader that is cut off for less than the slack, two calls' time, goes on leading, for the third try comes through; and
/// nothing but a stranger or a read from the past takes leadership away before its deadline. An ensemble is away, too, while its
/// servers look for a leader. A claim that the session cut, for it rests on an old answer, suffers from what was wrong since that.
pub(super) fn no_loss_in_short_outage<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Tells(number, Transition::Lost { reason, .. }) = happening else { return None };
    let known = &facts.candidates[*number];
    let releases = known.resigns.is_some_and(|(how, _)| how == Withdrawal::Releasing);
    let is_allowed = match reason {
        // A release of ours that was applied is no loss. Where somebody between sent it twice, we were told of a conflict.
        Reason::Conflict | Reason::Deleted if releases && !facts.is_undone_from_outside(known) => {
            !known.released && known.undoing.or(known.trouble).is_some()
        }
        Reason::Conflict | Reason::Deleted => facts.is_undone_from_outside(known),
        Reason::Deadline if releases || known.rests_on(facts.set_back) => true,
        Reason::Deadline => {
            let elected = facts.elect_for(scene.clocks[*number].when(known.whole_since));
            let lasted =
                known.undoing.map(|(from, to)| to.since(from) + facts.latency * 4 + elected);
            lasted >= Some(known.call_within(facts.lag()) * 2)
        }
        Reason::SessionExpired
        | Reason::Resigned
        | Reason::Unasked
        | Reason::Shutdown
        | Reason::Fault => false,
    };
    (!is_allowed).then(|| {
        let undoing = known.undoing;
        format!(
            "{} lost leadership ({reason}) though all that was wrong since its last renewal is {undoing:?}",
            name(*number)
        )
    })
}

/// Nobody's claim runs out who has not tried three times to renew it, unless it stood still or was contradicted, or the session
/// left less than three calls of it. To take up a session whose connection broke is a try.
pub(super) fn three_tries<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Tells(number, Transition::Lost { reason: Reason::Deadline, .. }) = happening
    else {
        return None;
    };
    let known = &facts.candidates[*number];
    let (tries, renewed) = known.tried;
    // In a session a pause also counts between the answer that the last claim rests on and the claim.
    let stood_still = known.stalls > 0 || renewed.min(known.whole_since) <= known.stalled_at;
    let was_contradicted =
        known.contradicted_at.is_some_and(|at| renewed <= at + facts.latency * 8);
    let releases = known.resigns.is_some_and(|(how, _)| how == Withdrawal::Releasing);
    let is_excused = stood_still || releases || was_contradicted || known.rests_on(facts.set_back);
    (tries < 3 && known.holds_for_three_calls(facts.lag()) && !is_excused).then(|| {
        format!("{} lost leadership after {tries} tries to renew its claim", name(*number))
    })
}

/// A leader that is well and told that its record is gone withdraws at once, whatever else is under way.
pub(super) fn deletion_is_noticed<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    _: &Happening<'_, E>,
) -> Option<String> {
    let deleted = facts.deleted?;
    let ignores = |number: &usize| {
        let known = &facts.candidates[*number];
        let told = known.told_gone.filter(|told| *told >= deleted);
        let was_well = |told: Moment| {
            let well_since = known.well_since.max(facts.store_well_since);
            // A call from before that is never answered has to be waited out first.
            let asks_in_vain =
                known.waits() && known.asked_at < scene.clocks[*number].read(well_since);
            known.faults + facts.store_faults == 0
                && !asks_in_vain
                && well_since <= told
                && scene.now.since(told.max(scene.clocks[*number].when(known.rests_until)))
                    > facts.latency * 8
        };
        // Who waits for its last promise to run out, to release, looks into nothing any more.
        let releases = known.resigns.is_some_and(|(how, _)| how == Withdrawal::Releasing);
        !releases
            && told.is_some_and(was_well)
            && known.claims(scene.shown_to(*number))
            && known.applied_at() <= Some(deleted)
    };
    if let Some(number) = (0..facts.candidates.len()).find(ignores) {
        return Some(format!(
            "{} still claims what it was told is gone since {deleted:?}",
            name(number)
        ));
    }
    let (meddled, was_quiet) = facts.meddled?;
    let is_due = scene.now.since(meddled) > facts.latency * 8;
    if !was_quiet || !is_due || !facts.tells_leaders || facts.quiet_since > meddled {
        return None;
    }
    let claims = |number: &usize| {
        let known = &facts.candidates[*number];
        let hears_news = known.deafening == 0 && known.hears_news_since < meddled;
        hears_news && known.claims(scene.shown_to(*number)) && known.applied_at() <= Some(meddled)
    };
    (0..facts.candidates.len()).find(claims).map(|number| {
        format!("{} still claims what a stranger deleted at {meddled:?}", name(number))
    })
}

impl Facts {
    /// The longest retry period of any.
    pub(super) fn longest_retry(&self) -> Duration {
        self.candidates.iter().map(|known| known.timing.retry_period()).max().unwrap_or_default()
    }

    /// Whether nothing has been wrong, and no stranger has done anything, for so long that nothing may happen.
    pub(super) fn is_calm(&self, now: Moment) -> bool {
        let stirred = self.quiet_since.max(self.last_deed);
        self.is_well() && now.since(stirred) > self.settles_in()
    }

    /// How long an election takes at the most, from the end of what was wrong, until it changes no more.
    pub(super) fn settles_in(&self) -> Duration {
        let lease = self
            .candidates
            .iter()
            .map(|known| known.timing.lease_duration())
            .max()
            .unwrap_or_default();
        // On the slowest clock that is drawn.
        let ensemble = self.tick * (4 + self.sync_limit)
            + if self.tick.is_zero() { Duration::ZERO } else { lease };
        (lease.max(self.protects) + ensemble + self.longest_retry() * 6 + self.latency * 20) * 3 / 2
    }
}
