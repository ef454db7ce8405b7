//! Liveness: while one candidate and the store are well there is a leader, and soon.

use super::exclusion::name;
use super::facts::Facts;
use baton::election::{Election, Withdrawal};
use baton::sim::clock::Moment;
use baton::sim::happening::{End, Happening, Scene};
use std::time::Duration;

/// Spread over candidates that wait for the same lease to run out.
const SPREAD: Duration = Duration::from_millis(100);
/// How long nobody leads after a release at the most.
const HANDOVER: Duration = Duration::from_millis(100);
/// More requests in one retry period than anything calls for.
const STORM: u32 = 30;

/// `L + 2·retry`, by the clock of any candidate that is well, since it and the store are and since anybody led; and
/// the spread, and what the calls take.
pub(super) fn in_time<E: Election>(facts: &Facts, scene: &Scene<'_>, _: &Happening<'_, E>) -> Option<String> {
    if facts.leader(scene).is_some() {
        return None;
    }
    (0..facts.candidates.len()).find_map(|number| {
        let known = &facts.candidates[number];
        let waited = on_clock(scene, number, facts.well_since(number)?.max(facts.last_led));
        let lease = known.timing.lease_duration().max(facts.protects);
        let bound = lease + known.timing.retry_period() * 2 + SPREAD + facts.latency * 16;
        (waited > bound).then(|| {
            format!(
                "nobody has led for {waited:?} by the clock of {}, which is well: {bound:?} is allowed",
                name(number)
            )
        })
    })
}

/// Who is in the record without a claim need not wait for himself: two retry periods and a call, and he leads again.
pub(super) fn on_own_record<E: Election>(facts: &Facts, scene: &Scene<'_>, _: &Happening<'_, E>) -> Option<String> {
    let holder = facts.holder.as_ref()?;
    let number = facts.candidates.iter().position(|known| known.identity.as_ref() == Some(holder))?;
    let known = &facts.candidates[number];
    if known.claims(scene.shown_to(number)) {
        return None;
    }
    let since = facts.well_since(number)?.max(facts.held_since).max(facts.last_led);
    let waited = on_clock(scene, number, since);
    let bound = known.timing.retry_period() * 2 + known.call() + facts.latency * 16;
    (waited > bound).then(|| format!("{} is in the record and has not led for {waited:?}", name(number)))
}

/// Within 100 ms of a release, if some other candidate has been well for long enough to hear of it.
pub(super) fn after_release<E: Election>(facts: &Facts, scene: &Scene<'_>, _: &Happening<'_, E>) -> Option<String> {
    let released = facts.released?;
    let waited = scene.now.since(released);
    if waited <= HANDOVER {
        return None;
    }
    let has_long_been_well = |number: &usize| {
        let long = facts.candidates[*number].timing.retry_period() * 6;
        let known = &facts.candidates[*number];
        let well_since = facts.well_since(*number).filter(|_| known.deafening == 0);
        well_since.is_some_and(|since| released.since(since.max(known.hears_news_since)) > long)
    };
    (0..facts.candidates.len())
        .find(has_long_been_well)
        .map(|number| format!("it was given up {waited:?} ago, and {}, which is well, does not lead", name(number)))
}

/// Who stops cleanly, and was well meanwhile, leaves nobody waiting for his lease.
pub(super) fn stops_release<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Ended(number, End::Stopped) = happening else { return None };
    let known = &facts.candidates[*number];
    let (_, since) = known.resigns?;
    let well_since = known.well_since.max(facts.store_well_since);
    let was_well = known.faults + facts.store_faults == 0 && scene.clocks[*number].read(well_since) < since;
    (was_well && facts.holder == known.identity)
        .then(|| format!("{} stopped cleanly, and its record is still there", name(*number)))
}

/// Who was told that it will be stopped holds the election until it is.
pub(super) fn leaving_holds<E: Election>(facts: &Facts, _: &Scene<'_>, happening: &Happening<'_, E>) -> Option<String> {
    let Happening::Claims(number, None) = happening else { return None };
    let known = &facts.candidates[*number];
    let leaves = known.resigns.is_some_and(|(how, _)| how == Withdrawal::Renewing);
    let is_excused = facts.was_stale || facts.meddled.is_some() || known.trouble.is_some();
    (leaves && !is_excused).then(|| format!("{} gives up before it was told to stop", name(*number)))
}

/// Nobody asks without pause.
pub(super) fn in_peace<E: Election>(facts: &Facts, _: &Scene<'_>, happening: &Happening<'_, E>) -> Option<String> {
    let Happening::Asks(number, _, sent) = happening else { return None };
    let known = &facts.candidates[*number];
    let (since, count) = known.asking;
    (count > STORM && sent.since(since) < known.timing.retry_period())
        .then(|| format!("{} asks more than {STORM} times in one retry period", name(*number)))
}

/// The time since `since` as the clock of `number` counts it.
fn on_clock(scene: &Scene<'_>, number: usize, since: Moment) -> Duration {
    scene.shown_to(number).since(scene.clocks[number].read(since))
}
