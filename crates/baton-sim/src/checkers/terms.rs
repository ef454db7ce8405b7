//! Terms: tokens increase, only eligible candidates begin terms, and no candidate follows a leader
//! that it knows to be replaced.
//!
//! Each function is one property. Start with [`tokens_increase`].

use super::candidate_view::RoleWhenSent;
use super::exclusion::name;
use super::state::CheckerState;
use crate::trace::{TraceContext, TraceEvent};
use baton_election::claim::FencingToken;
use baton_election::machine::{Election, Transition};

/// The token of a term is larger than all tokens before it, and an expired term never resumes.
pub(super) fn tokens_increase<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ClaimPublished(number, Some(claim)) = event else { return None };
    let candidate = &state.candidates[*number];
    if candidate.term == Some(claim.token()) {
        return (!candidate.claims(candidate.last_input_at))
            .then(|| format!("{} resumes term {} after its end", name(*number), claim.token()));
    }
    let (greatest, owner) = state.greatest_token?;
    // A claim that is published after its end begins no term.
    let is_current = !claim.remaining(context.local_time(*number)).is_zero();
    // If another client undid a write before the reply arrived, a later term may have begun first.
    let is_excused = state.is_excused(candidate.applied_at(), candidate.applied_at());
    (is_current && !is_excused && claim.token() <= greatest).then(|| {
        format!(
            "{} begins term {} after term {greatest} of {}",
            name(*number),
            claim.token(),
            name(owner)
        )
    })
}

/// The token does not change while the claim is current.
pub(super) fn token_is_constant<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ClaimPublished(number, Some(claim)) = event else { return None };
    let candidate = &state.candidates[*number];
    let is_other = candidate.term.is_some_and(|token| token != claim.token());
    (is_other && candidate.claims(candidate.last_input_at)).then(|| {
        format!(
            "the token of {} changes from {:?} to {}",
            name(*number),
            candidate.term,
            claim.token()
        )
    })
}

/// A leader whose token is larger than the version that it last saw stops leading. A restored store
/// may have issued tokens that it has forgotten, and will issue them again.
pub(super) fn restored_store_ends_term<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let (TraceEvent::RequestSent(number, ..) | TraceEvent::QueryAnswered(number, ..)) = event
    else {
        return None;
    };
    let candidate = &state.candidates[*number];
    let claim = candidate
        .claim
        .filter(|_| state.tick.is_zero() && candidate.claims(context.local_time(*number)))?;
    let version = FencingToken::new(candidate.newest_version);
    (version < claim.token())
        .then(|| format!("{} continues term {} at version {version}", name(*number), claim.token()))
}

/// No term begins after a withdrawal, even by an earlier request, or before the candidate may
/// campaign.
pub(super) fn begins_when_eligible<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ClaimPublished(number, Some(claim)) = event else { return None };
    let candidate = &state.candidates[*number];
    if candidate.term == Some(claim.token()) || candidate.role_when_sent == RoleWhenSent::Leading {
        return None;
    }
    let is_too_late = candidate.withdrawal.is_some();
    let is_too_soon = candidate.role_when_sent == RoleWhenSent::Away;
    (is_too_late || is_too_soon).then(|| {
        let (from, withdrawal) = (candidate.campaigns_from, candidate.withdrawal);
        format!(
            "{} begins a term by a request of {:?}, eligible from {from:?}: {withdrawal:?}",
            name(*number),
            candidate.sent_at
        )
    })
}

/// A candidate never follows a leader that it knows to be replaced: neither an overtaken read nor
/// an old watch event brings that leader back. Only a stale read that was requested after the last
/// watch event may. Versions from before a restore of the store are not comparable, so a candidate
/// that may know such versions may follow the current holder.
pub(super) fn knowledge_never_regresses<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::Transitioned(number, Transition::Following { leader: Some(leader) }) = event
    else {
        return None;
    };
    let candidate = &state.candidates[*number];
    let is_in_record = state.may_know_newer_versions(*number, context.now)
        && state.holder.as_ref() == Some(leader);
    let is_held =
        !state.tick.is_zero() || is_in_record || candidate.believed_holder.as_ref() == Some(leader);
    (!is_held).then(|| {
        format!(
            "{} follows {leader:?}, but last saw {:?} as holder",
            name(*number),
            candidate.believed_holder
        )
    })
}
