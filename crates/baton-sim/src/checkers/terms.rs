//! Terms: one token for each, larger than all before; nobody begins one who may not, and nobody follows one that is over.

use super::exclusion::name;
use super::facts::Facts;
use crate::trace::{Happening, Scene};
use baton_election::claim::FencingToken;
use baton_election::machine::{Election, Transition};

/// A term's token is larger than that of every term before it, and a term that has lapsed is not taken up again.
pub(super) fn tokens_grow<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Claims(number, Some(claim)) = happening else { return None };
    let known = &facts.candidates[*number];
    if known.term == Some(claim.token()) {
        return (!known.claims(known.heard_at))
            .then(|| format!("{} takes up term {} after its end", name(*number), claim.token()));
    }
    let (greatest, whose) = facts.greatest?;
    // What is published too late to be a claim is no term.
    let is_current = !claim.remaining(scene.shown_to(*number)).is_zero();
    // One whose write a stranger undid before its reply came in is overtaken by whoever took what he left.
    let is_excused = facts.is_excused(known.applied_at(), known.applied_at());
    (is_current && !is_excused && claim.token() <= greatest).then(|| {
        format!(
            "{} begins term {} after {greatest} of {}",
            name(*number),
            claim.token(),
            name(whose)
        )
    })
}

/// A token does not change while its claim is current.
pub(super) fn tokens_stay<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Claims(number, Some(claim)) = happening else { return None };
    let known = &facts.candidates[*number];
    let is_other = known.term.is_some_and(|token| token != claim.token());
    (is_other && known.claims(known.heard_at)).then(|| {
        format!("the token of {} changes from {:?} to {}", name(*number), known.term, claim.token())
    })
}

/// Nobody goes on with a term whose token is larger than the version of the record that it was shown last: a store that was set
/// back may have given tokens in between that it has forgotten, and will give them again.
pub(super) fn tokens_are_known<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let (Happening::Asks(number, ..) | Happening::Answered(number, ..)) = happening else {
        return None;
    };
    let known = &facts.candidates[*number];
    let claim =
        known.claim.filter(|_| facts.tick.is_zero() && known.claims(scene.shown_to(*number)))?;
    let shown = FencingToken::new(known.newest);
    (shown < claim.token()).then(|| {
        format!("{} goes on with term {} over version {shown}", name(*number), claim.token())
    })
}

/// No candidate begins a term after it was told to give up leadership, even by an earlier request,
/// or while it was told to wait.
pub(super) fn begin_when_they_may<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Claims(number, Some(claim)) = happening else { return None };
    let known = &facts.candidates[*number];
    if known.term == Some(claim.token()) || known.asked_as_leader {
        return None;
    }
    let is_too_late = known.resigns.is_some();
    let is_too_soon = known.asked_at < known.campaigns_from;
    (is_too_late || is_too_soon).then(|| {
        let (from, resigns) = (known.campaigns_from, known.resigns);
        format!(
            "{} begins a term that it asked for at {:?}: {from:?}, {resigns:?}",
            name(*number),
            known.asked_at
        )
    })
}

/// Nobody follows whom, by the newest that it was told, nobody has to follow any more: neither a read that newer news overtook
/// nor an old notice brings him back. A read from the past may that was asked for after the last news. Numbers of before a store was
/// set back say nothing of those after it: who may still go by them may follow whoever is in the record.
pub(super) fn nobody_unhears<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Tells(number, Transition::Following { leader: Some(leader) }) = happening else {
        return None;
    };
    let known = &facts.candidates[*number];
    let is_in_record =
        facts.may_know_larger_numbers(*number, scene.now) && facts.holder.as_ref() == Some(leader);
    let is_held = !facts.tick.is_zero() || is_in_record || known.follows.as_ref() == Some(leader);
    (!is_held).then(|| {
        format!("{} follows {leader:?}, and was told last of {:?}", name(*number), known.follows)
    })
}
