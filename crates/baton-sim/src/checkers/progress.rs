//! Liveness: while one candidate and the store are well there is a leader, and soon.

use super::exclusion::name;
use super::facts::Facts;
use super::known::{Known, Race};
use crate::clock::Moment;
use crate::trace::{End, Happening, Scene};
use baton_election::machine::{Election, Request as _, Verb, Withdrawal};
use std::time::Duration;

/// Spread over candidates that wait for the same lease to run out.
const SPREAD: Duration = Duration::from_millis(100);
/// How long nobody leads after a release at the most.
const HANDOVER: Duration = Duration::from_millis(100);
/// The longest way that anything calls for over a record: a write that is refused, a read, and the write over that.
const WAY_OVER_A_RECORD: u32 = 3;
/// The same over an ensemble: to connect, make the path, join, list, look, check, read who leads, and write that.
const WAY: u32 = 8;
/// How often anybody asks in one retry period of calm, at the most.
const MOST_IN_CALM: u32 = 2;

/// Any candidate that is well, since it and the store are and since anybody led, sees a leader within `L + 2·retry` by its own
/// clock, and the spread; what the calls take comes on top.
///
/// In an ensemble it waits for sessions that nobody uses any more, `T + 3/2·tick` by the slowest server's clock. Whoever stands
/// next is told of their end at once, and begins to lead.
pub(super) fn in_time<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    _: &Happening<'_, E>,
) -> Option<String> {
    if facts.is_led(scene.now) {
        return None;
    }
    (0..facts.candidates.len()).find_map(|number| {
        let known = &facts.candidates[number];
        // News that come late may tell of a record that a stranger has deleted since: it is waited for as if it were there. Who was
        // shown the past may be told of a later past, and waits for what he reads next.
        let is_late = facts.meddled.is_some() || facts.misled_until.is_some();
        let hears_since = if is_late { known.hears_news_since } else { Moment::START };
        if facts.meddled.is_some() && known.deafening > 0 {
            return None;
        }
        let lease = known.timing.lease_duration().max(facts.protects);
        let calm_since = facts
            .well_since(number)?
            .max(facts.last_led)
            .max(facts.line_moves_since()?)
            .max(hears_since);
        // A session that its owner has had to forget lasts as long as any from when it was heard of last. Who goes on forgetting
        // them when all others are over has no such reason.
        let since = calm_since
            .max(facts.last_orphaned.min(calm_since + facts.end_sessions_in(lease, calm_since)));
        let waited = scene.now.since(since);
        let rate = scene.clocks[number].rate();
        let bound = match facts.lag() {
            None => rate.takes(lease + known.timing.retry_period() * 2 + SPREAD),
            Some(lag) => {
                let given_up = facts.set_back.map_or(Duration::ZERO, |_| {
                    rate.takes(lease + known.timing.retry_period() * 2)
                });
                let ended = facts.end_sessions_in(lease, since);
                ended.max(given_up) + rate.takes(first_claim(known, lag))
            }
        } + facts.latency * 16;
        (waited > bound).then(|| {
            format!(
                "nobody has led for {waited:?}, and {} is well: {bound:?} is allowed",
                name(number)
            )
        })
    })
}

/// Who is in the record without a claim need not wait for himself: two retry periods and a call, and he leads again.
pub(super) fn on_own_record<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    _: &Happening<'_, E>,
) -> Option<String> {
    if facts.is_led(scene.now) {
        return None;
    }
    // In an ensemble he who lost stands in line anew.
    let holder = facts.holder.as_ref().filter(|_| facts.tick.is_zero())?;
    let number =
        facts.candidates.iter().position(|known| known.identity.as_ref() == Some(holder))?;
    // Of what came back with its store he need not have heard, and waits as any other until he writes again.
    let known = Some(&facts.candidates[number]).filter(|known| !known.rests_on(facts.set_back))?;
    let since = facts.well_since(number)?.max(facts.held_since).max(facts.last_led);
    let waited = on_clock(scene, number, since);
    let bound = known.timing.retry_period() * 2 + known.call() + facts.latency * 16;
    (waited > bound)
        .then(|| format!("{} is in the record and has not led for {waited:?}", name(number)))
}

/// A withdrawn candidate holds no record without a claim: no candidate leads until it is gone, and
/// its stop may come much later. It has three calls' time to find out and to release.
pub(super) fn after_withdrawal<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    _: &Happening<'_, E>,
) -> Option<String> {
    let holder = facts.holder.as_ref().filter(|_| facts.tick.is_zero())?;
    let number =
        facts.candidates.iter().position(|known| known.identity.as_ref() == Some(holder))?;
    let known = &facts.candidates[number];
    let (_, withdrew) = known.resigns.filter(|_| !known.claims(scene.shown_to(number)))?;
    let is_well = known.faults + facts.store_faults == 0 && !known.rests_on(facts.set_back);
    let well_since =
        known.well_since.max(facts.store_well_since).max(facts.held_since).max(facts.last_led);
    let since = well_since.max(scene.clocks[number].when(withdrew.max(known.stalled_at)));
    let waited = on_clock(scene, number, since);
    let bound = known.timing.retry_period() * 2 + known.call() * 3 + facts.latency * 16;
    (is_well && waited > bound).then(|| {
        format!(
            "{} has withdrawn, leads no more, and has been in the record for {waited:?}",
            name(number)
        )
    })
}

/// Within 100 ms of a release, if some other candidate has been well for long enough to hear of it. In an ensemble whose tick
/// leaves little of a session, the first claim takes two answers, a lag and a retry period apart.
pub(super) fn after_release<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    _: &Happening<'_, E>,
) -> Option<String> {
    let released = facts.released?;
    let waited = scene.now.since(released);
    if waited <= HANDOVER {
        return None;
    }
    let takes = |number: usize| {
        let (known, rate) = (&facts.candidates[number], scene.clocks[number].rate());
        match facts.lag() {
            // News of a store that was set back look like old ones to who knows of larger numbers, and whoever had those is waited out.
            None if facts.may_know_larger_numbers(number, released) => {
                let lease = known.timing.lease_duration().max(facts.protects);
                HANDOVER + facts.latency * 16 + rate.takes(lease + known.timing.retry_period() * 2)
            }
            None => HANDOVER,
            Some(lag) => HANDOVER + facts.latency * 16 + rate.takes(first_claim(known, lag)),
        }
    };
    let has_long_been_well = |number: &usize| {
        let known = &facts.candidates[*number];
        let retry_period = known.timing.retry_period();
        // Its answers since then must also be old enough for a claim to rest on.
        let settles_in = facts.lag().map_or(Duration::ZERO, |lag| lag + retry_period * 3);
        let long = settles_in.max(retry_period * 6);
        let well_since = facts.well_since(*number).filter(|_| known.deafening == 0);
        // In an ensemble none but the next in the line may, and not by a session that it was cut off from for so long that it
        // had to take it for over.
        let is_next =
            facts.tick.is_zero() || facts.holder == known.identity && facts.orphaned.is_none();
        is_next
            && well_since
                .is_some_and(|since| released.since(since.max(known.hears_news_since)) > long)
            && waited > takes(*number)
    };
    (0..facts.candidates.len()).find(has_long_been_well).map(|number| {
        format!(
            "it was given up {waited:?} ago, and {}, which is well, does not lead",
            name(number)
        )
    })
}

/// Who stops cleanly, and was well meanwhile, leaves nobody waiting for his lease. What he had in an ensemble by a session that
/// he could not reach for its whole length is not his to give back: he has forgotten it, as he must, since servers that were set
/// back would refuse to take it up for ever. Nor is a record that came back with a store, where nobody has shown it to him since.
pub(super) fn stops_release<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Ended(number, End::Stopped) = happening else { return None };
    let known = &facts.candidates[*number];
    let (_, since) = known.resigns?;
    let well_since = known.well_since.max(facts.store_well_since);
    let was_well =
        known.faults + facts.store_faults == 0 && scene.clocks[*number].read(well_since) < since;
    let cut_off = scene.shown_to(*number).since(known.answered_at);
    let is_refused = known.rests_on(facts.set_back) || cut_off > known.timing.lease_duration();
    let has_forgotten = facts.orphaned.is_some() || !facts.tick.is_zero() && is_refused;
    let is_back =
        facts.tick.is_zero() && known.rests_on(facts.set_back) && known.follows != known.identity;
    (was_well && facts.holder == known.identity && !has_forgotten && !is_back)
        .then(|| format!("{} stopped cleanly, and its record is still there", name(*number)))
}

/// Who was told to give leadership up, and does not know what became of its last write, reads: at once, and before it writes. What
/// it released unread might be another's, and others wait for what it leaves.
pub(super) fn looks_before_it_leaves<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let writes_now = |number: usize| {
        let Happening::Asks(whose, request, _) = happening else { return false };
        *whose == number && request.verb() != Verb::Read
    };
    (0..facts.candidates.len()).filter(|_| facts.tick.is_zero()).find_map(|number| {
        let known = &facts.candidates[number];
        let (how, ordered) = known.resigns.filter(|_| known.is_in_doubt())?;
        let leaves_at = known.promised.map_or(ordered, |(until, _)| until.max(ordered));
        let may_rest = scene.clocks[number]
            .when(leaves_at.max(known.rests_until).max(known.heard_at).max(known.stalled_at));
        let writes = writes_now(number) && leaves_at <= scene.shown_to(number);
        let waits = known.stalls == 0 && scene.now.since(may_rest) > facts.latency * 4;
        (how == Withdrawal::Releasing && (writes || waits))
            .then(|| format!("{} leaves, and does not look what became of its write", name(number)))
    })
}

/// Who stops cleanly, and was last shown less than it was told of or may have written, has looked once more: that nothing is its own
/// may be what the past looked like, and others wait for what it leaves.
pub(super) fn leaves_nothing_unread<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Ended(number, End::Stopped) = happening else { return None };
    let known = &facts.candidates[*number];
    let (_, ordered) = known.resigns.filter(|_| facts.tick.is_zero())?;
    let stood_still = known.stalls > 0 || ordered <= known.stalled_at;
    (known.believes_the_past(ordered) && !stood_still)
        .then(|| format!("{} stops, and believes the past", name(*number)))
}

/// Who was told that it will be stopped holds the election until it is.
pub(super) fn leaving_holds<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Claims(number, None) = happening else { return None };
    let known = &facts.candidates[*number];
    let leaves = known.resigns.is_some_and(|(how, _)| how == Withdrawal::Renewing);
    let is_excused = facts.is_undone_from_outside(known) || known.trouble.is_some();
    (leaves && !is_excused)
        .then(|| format!("{} gives up before it was told to stop", name(*number)))
}

/// Nobody asks without pause. In one retry period it goes the longest way no more than once for itself and for each candidate that
/// comes or goes, and once for each deed of a stranger and each order to go or to come back. A connection is opened no more than
/// four times a call, and may break at the next request. In calm a renewal or a look is enough, and one thing more: a look that
/// news overtook, again, or over an ensemble who leads.
pub(super) fn in_peace<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Asks(number, _, sent) = happening else { return None };
    let known = &facts.candidates[*number];
    let (since, count) = known.asking;
    if sent.since(since) >= known.timing.retry_period() || count < MOST_IN_CALM {
        return None;
    }
    let way = if facts.tick.is_zero() { WAY_OVER_A_RECORD } else { WAY };
    let candidates = u32::try_from(facts.candidates.len()).expect("a world has few candidates");
    let breaks = facts.lag().map_or(0, |lag| {
        let calls = known.timing.retry_period().as_nanos()
            / known.call_within(Some(lag)).as_nanos().max(1)
            + 1;
        u32::try_from(calls).unwrap_or(u32::MAX).saturating_mul(8)
    });
    // A leader whose record is edited again and again looks and writes once for each conflict, if
    // not too often.
    let contested = known.overtaken.min(most_tries(known)) * 2;
    let in_storm = ((1 + candidates + known.deeds) * way + contested).saturating_add(breaks);
    let most = if facts.is_calm(scene.now) { MOST_IN_CALM } else { in_storm };
    (count >= most)
        .then(|| format!("{} asks more than {most} times in one retry period", name(*number)))
}

/// How often a leader tries in one retry period while its record is edited again and again: sixteen
/// times in the pace of failures.
fn most_tries(known: &Known) -> u32 {
    let (retry, call) = (known.timing.retry_period().as_nanos(), known.call().as_nanos().max(1));
    u32::try_from(retry.div_ceil(call)).unwrap_or(u32::MAX).saturating_mul(16)
}

/// Who loses a race leaves it to the watch to say who won, and asks no sooner than a retry period later: a thousand losers would.
pub(super) fn losers_wait<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Asks(number, _, sent) = happening else { return None };
    let known = &facts.candidates[*number];
    let Race::Lost(lost) = known.race else { return None };
    let rests = sent.since(lost);
    (facts.tick.is_zero() && rests < known.timing.retry_period())
        .then(|| format!("{} lost a race, and asks {rests:?} later who won", name(*number)))
}

/// How long the first claim of whoever has become the first of the line takes: nothing, or where lags leave little of a session
/// two answers, a lag and a retry period apart.
fn first_claim(known: &Known, lag: Duration) -> Duration {
    let timing = &known.timing;
    let least = timing.drift().min_elapsed(timing.lease_duration());
    let is_tight = least < timing.retry_period() * 3 + lag + known.call();
    if is_tight { lag + timing.retry_period() } else { Duration::ZERO }
}

/// The time since `since` as the clock of `number` counts it.
fn on_clock(scene: &Scene<'_>, number: usize, since: Moment) -> Duration {
    scene.shown_to(number).since(scene.clocks[number].read(since))
}
