//! Calm: what is not broken does not change hands, and what is broken is noticed.

use super::exclusion::name;
use super::facts::Facts;
use baton::election::{Election, Reason, Transition, Withdrawal};
use baton::sim::happening::{Happening, Scene};

/// When nothing has been wrong for long enough, nothing happens to anybody.
pub(super) fn no_transition_without_fault<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Tells(number, transition) = happening else { return None };
    let stirred = facts.meddled.map_or(facts.quiet_since, |(at, _)| at.max(facts.quiet_since));
    let quiet = scene.now.since(stirred);
    (facts.is_well() && quiet > facts.settles_in())
        .then(|| format!("nothing has been wrong for {quiet:?}, and {} tells {transition:?}", name(*number)))
}

/// A leader that is cut off for less than the slack, two calls' time, goes on leading; and nothing but a stranger or a read
/// from the past takes leadership away before its deadline.
pub(super) fn no_loss_in_short_outage<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Tells(number, Transition::Lost { reason, .. }) = happening else { return None };
    let known = &facts.candidates[*number];
    let releases = known.resigns.is_some_and(|(how, _)| how == Withdrawal::Releasing);
    let is_allowed = match reason {
        // An ensemble elects too, and whoever was let go by its server comes back when that is done.
        Reason::Deadline | Reason::SessionExpired if !facts.tick.is_zero() => releases || known.undoing.is_some(),
        // A release of ours that was applied is no loss. Where somebody between sent it twice, we were told of a conflict.
        Reason::Conflict | Reason::Deleted if releases && !facts.was_stale && facts.meddled.is_none() => {
            !known.released && known.undoing.or(known.trouble).is_some()
        }
        Reason::Conflict | Reason::Deleted => facts.was_stale || facts.meddled.is_some(),
        Reason::Deadline if releases => true,
        Reason::Deadline => {
            let lasted = known.undoing.map(|(from, to)| to.since(from) + facts.latency * 4);
            lasted >= Some(known.call() * 2)
        }
        Reason::SessionExpired | Reason::Resigned | Reason::Unasked | Reason::Shutdown | Reason::Fault => false,
    };
    (!is_allowed).then(|| {
        let undoing = known.undoing;
        format!(
            "{} lost leadership ({reason}) though all that was wrong since its last renewal is {undoing:?}",
            name(*number)
        )
    })
}

/// Nobody's claim runs out who has not tried three times to renew it, unless it stood still or was contradicted.
pub(super) fn three_tries<E: Election>(facts: &Facts, _: &Scene<'_>, happening: &Happening<'_, E>) -> Option<String> {
    let Happening::Tells(number, Transition::Lost { reason: Reason::Deadline, .. }) = happening else { return None };
    if !facts.tick.is_zero() {
        return None;
    }
    let known = &facts.candidates[*number];
    let (tries, renewed) = known.tried;
    let stood_still = known.stalls > 0 || renewed <= known.stalled_at;
    let was_contradicted = known.contradicted_at.is_some_and(|at| renewed <= at + facts.latency * 8);
    let releases = known.resigns.is_some_and(|(how, _)| how == Withdrawal::Releasing);
    (tries < 3 && !stood_still && !releases && !was_contradicted)
        .then(|| format!("{} lost leadership after {tries} tries to renew its claim", name(*number)))
}

/// A leader that is well and told that its record is gone withdraws at once.
pub(super) fn deletion_is_noticed<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    _: &Happening<'_, E>,
) -> Option<String> {
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
    (0..facts.candidates.len())
        .find(claims)
        .map(|number| format!("{} still claims what a stranger deleted at {meddled:?}", name(number)))
}
