//! Safety: at most one candidate leads at any true instant, and each claim rests on a write.
//!
//! Pure. Start with [`at_most_one_claim`]. Each function is one property. An overlap begins when a
//! claim or promise is made, so each is checked at that moment.

use super::state::CheckerState;
use crate::trace::{TraceContext, TraceEvent};
use baton_election::identity::Identity;
use baton_election::leadership::Status;
use baton_election::machine::Election;

/// At most one candidate holds a current claim.
pub(super) fn at_most_one_claim<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ClaimPublished(number, Some(claim)) = event else { return None };
    if claim.remaining(context.local_time(*number)).is_zero() {
        return None;
    }
    let applied_at = |number: usize| state.candidates[number].applied_at();
    others(state, *number)
        .filter(|other| state.candidates[*other].claims(context.local_time(*other)))
        .find(|other| !state.is_excused(applied_at(*number), applied_at(*other)))
        .map(|other| {
            format!(
                "{} claims token {} while {} holds a claim",
                name(*number),
                claim.token(),
                name(other)
            )
        })
}

/// While one candidate's answer "leading" is valid, no other candidate gives such an answer or
/// holds a claim.
pub(super) fn at_most_one_promise<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let number = begins_to_lead(context, event)?;
    let applied_at = state.candidates[number].applied_at();
    let is_valid = |other: &usize| state.candidates[*other].promises(context.local_time(*other));
    let is_excused = |other: usize| {
        state.candidates[other]
            .promised()
            .is_none_or(|(_, backed)| state.is_excused(applied_at, backed))
    };
    others(state, number).filter(is_valid).find(|other| !is_excused(*other)).map(|other| {
        format!(
            "{} leads while an answer \"leading\" of {} is still valid",
            name(number),
            name(other)
        )
    })
}

/// An answer "leading" is valid within a current claim, names its term, and is never given after a
/// withdrawal. No other answer names the candidate itself as leader.
pub(super) fn promises_are_backed<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::QueryAnswered(number, _, answer, queried_at) = event else { return None };
    let candidate = &state.candidates[*number];
    match &answer.status {
        Status::Leading(promise) => {
            let until = *queried_at + promise.valid_for;
            let is_backed = candidate
                .claim
                .is_some_and(|claim| claim.token() == promise.token && until <= claim.deadline());
            (!is_backed
                || candidate.withdrawal.is_some()
                || promise.valid_for != candidate.timing.answer_validity())
            .then(|| {
                format!(
                    "{} gives {promise:?} at {queried_at:?} under {:?}",
                    name(*number),
                    candidate.claim
                )
            })
        }
        Status::Following { leader } if leader.is_some() && *leader == candidate.identity => {
            Some(format!("{} names itself as leader without leading", name(*number)))
        }
        Status::Unknown | Status::Following { .. } | Status::Resigning => None,
    }
}

/// A candidate that has not withdrawn and whose claim covers the validity of an answer answers
/// "leading".
pub(super) fn leader_answers_leading<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::QueryAnswered(number, _, answer, queried_at) = event else { return None };
    let candidate = &state.candidates[*number];
    let claim = candidate.claim.filter(|_| candidate.withdrawal.is_none())?;
    let denies = !matches!(answer.status, Status::Leading(_))
        && claim.remaining(*queried_at) >= candidate.timing.answer_validity();
    denies.then(|| {
        format!(
            "{} holds {claim:?} at {queried_at:?} but answers {:?}",
            name(*number),
            answer.status
        )
    })
}

/// A claim ends at most one renew deadline after an acknowledged write of its holder was applied,
/// and a claim that has already ended is never published.
pub(super) fn claims_are_backed<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ClaimPublished(number, Some(claim)) = event else { return None };
    let candidate = &state.candidates[*number];
    let backed_until = candidate
        .acknowledged_write
        .map(|(_, local_time)| local_time + candidate.timing.renew_deadline());
    let is_backed =
        backed_until >= Some(claim.deadline()) && claim.deadline() > candidate.last_input_at;
    (!is_backed).then(|| {
        let (deadline, last_input_at) = (claim.deadline(), candidate.last_input_at);
        format!(
            "{} claims until {deadline:?} at {last_input_at:?}, backed until {backed_until:?}",
            name(*number)
        )
    })
}

/// Only another client replaces the holder while its claim is current.
pub(super) fn record_names_claim_holder<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::HolderChanged(holder, _) = event else { return None };
    let is_external = state.is_external_change(context.now);
    let is_replaced = |number: &usize| {
        let candidate = &state.candidates[*number];
        candidate.claims(context.local_time(*number))
            && candidate.identity.as_ref() != *holder
            && !state.is_excused(candidate.applied_at(), candidate.applied_at())
    };
    (0..state.candidates.len()).find(|number| !is_external && is_replaced(number)).map(|number| {
        let holder = holder.map_or("nobody", Identity::as_str);
        format!("the record names {holder} while {} holds a claim", name(number))
    })
}

/// The candidate whose current claim or promise begins with this event.
fn begins_to_lead<E: Election>(
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<usize> {
    if let TraceEvent::ClaimPublished(number, Some(claim)) = event {
        return Some(*number)
            .filter(|number| !claim.remaining(context.local_time(*number)).is_zero());
    }
    let TraceEvent::QueryAnswered(number, _, answer, queried_at) = event else { return None };
    let Status::Leading(promise) = answer.status else { return None };
    Some(*number).filter(|number| *queried_at + promise.valid_for > context.local_time(*number))
}

fn others(state: &CheckerState, number: usize) -> impl Iterator<Item = usize> {
    (0..state.candidates.len()).filter(move |other| *other != number)
}

pub(crate) fn name(number: usize) -> char {
    char::from(b'a' + u8::try_from(number).expect("fewer than 26 candidates"))
}
