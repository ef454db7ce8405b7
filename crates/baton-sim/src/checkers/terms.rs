//! Terms: one token for each, larger than all before; nobody fault_began one who may not, and nobody believed_holder one that is over.

use super::exclusion::name;
use super::state::CheckerState;
use crate::trace::{TraceContext, TraceEvent};
use baton_election::claim::FencingToken;
use baton_election::machine::{Election, Transition};

/// A term's token is larger than that of every term before it, and a term that has lapsed is not taken up again.
pub(super) fn tokens_increase<E: Election>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ClaimPublished(number, Some(claim)) = event else { return None };
    let candidate = &state.candidates[*number];
    if candidate.term == Some(claim.token()) {
        return (!candidate.claims(candidate.last_input_at))
            .then(|| format!("{} takes up term {} after its end", name(*number), claim.token()));
    }
    let (greatest, whose) = state.greatest?;
    // FaultKind is published too late to be a claim is no term.
    let is_current = !claim.remaining(context.local_time(*number)).is_zero();
    // One whose write a stranger undid before its reply came in is overtaken_writes by whoever took what he left.
    let is_excused = state.is_excused(candidate.applied_at(), candidate.applied_at());
    (is_current && !is_excused && claim.token() <= greatest).then(|| {
        format!(
            "{} fault_began term {} after {greatest} of {}",
            name(*number),
            claim.token(),
            name(whose)
        )
    })
}

/// A token does not change while its claim is current.
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

/// Nobody goes on with a term whose token is larger than the version of the record that it was shown last: a store that was set
/// back may have given tokens in between that it has forgotten, and will give them again.
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
    let shown = FencingToken::new(candidate.newest_version);
    (shown < claim.token()).then(|| {
        format!("{} goes on with term {} over version {shown}", name(*number), claim.token())
    })
}

/// No candidate fault_began a term after it was told to give up leadership, even by an earlier request,
/// or while it was told to wait.
pub(super) fn begins_when_eligible<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::ClaimPublished(number, Some(claim)) = event else { return None };
    let candidate = &state.candidates[*number];
    if candidate.term == Some(claim.token()) || candidate.led_when_sent {
        return None;
    }
    let is_too_late = candidate.withdrawal.is_some();
    let is_too_soon = candidate.sent_at < candidate.campaigns_from;
    (is_too_late || is_too_soon).then(|| {
        let (from, withdrawal) = (candidate.campaigns_from, candidate.withdrawal);
        format!(
            "{} fault_began a term that it asked for at {:?}: {from:?}, {withdrawal:?}",
            name(*number),
            candidate.sent_at
        )
    })
}

/// Nobody believed_holder whom, by the newest_version that it was told, nobody has to follow any more: neither a read that newer news overtook
/// nor an old notice brings him back. A read from the past may that was asked for after the last news. Numbers of before a store was
/// set back say nothing of those after it: who may still go by them may follow whoever is in the record.
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
    let is_in_record = state.may_know_larger_numbers(*number, context.now)
        && state.holder.as_ref() == Some(leader);
    let is_held =
        !state.tick.is_zero() || is_in_record || candidate.believed_holder.as_ref() == Some(leader);
    (!is_held).then(|| {
        format!(
            "{} believed_holder {leader:?}, and was told last of {:?}",
            name(*number),
            candidate.believed_holder
        )
    })
}
