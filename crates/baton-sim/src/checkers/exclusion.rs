//! Safety: who may hold what at one true instant, and what it rests on.
//!
//! Each function is one property. A claim or promise can only come to overlap with another when one of them is made, so
//! looking then is enough.

use super::facts::Facts;
use crate::trace::{Happening, Scene};
use baton_election::leadership::Status;
use baton_election::machine::Election;

/// No two candidates hold a current claim.
pub(super) fn of_claims<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Claims(number, Some(claim)) = happening else { return None };
    if claim.remaining(scene.shown_to(*number)).is_zero() {
        return None;
    }
    let applied_at = |number: usize| facts.candidates[number].applied_at();
    others(facts, *number)
        .filter(|other| facts.candidates[*other].claims(scene.shown_to(*other)))
        .find(|other| !facts.is_excused(applied_at(*number), applied_at(*other)))
        .map(|other| {
            format!("{} claims {}, and so does {}", name(*number), claim.token(), name(other))
        })
}

/// No two answers "leading", given by two candidates, are valid; nor one beside another's claim.
pub(super) fn of_promises<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let number = begins_to_lead(scene, happening)?;
    let applied_at = facts.candidates[number].applied_at();
    let is_valid = |other: &usize| facts.candidates[*other].promises(scene.shown_to(*other));
    let is_excused = |other: usize| {
        facts.candidates[other]
            .promised
            .is_none_or(|(_, backed)| facts.is_excused(applied_at, backed))
    };
    others(facts, number).filter(is_valid).find(|other| !is_excused(*other)).map(|other| {
        format!(
            "{} leads while an answer of {} that says the same is still valid",
            name(number),
            name(other)
        )
    })
}

/// An answer "leading" lies within a claim that was not given up, and names its term; no other answer names its giver.
pub(super) fn promises_are_backed<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Answered(number, answer, asked) = happening else { return None };
    let known = &facts.candidates[*number];
    match &answer.status {
        Status::Leading(promise) => {
            let until = *asked + promise.valid_for;
            let is_backed = known
                .claim
                .is_some_and(|claim| claim.token() == promise.token && until <= claim.deadline());
            (!is_backed
                || known.resigns.is_some()
                || promise.valid_for != known.timing.answer_validity())
            .then(|| {
                format!("{} promises {promise:?} at {asked:?} on {:?}", name(*number), known.claim)
            })
        }
        Status::Following { leader } if leader.is_some() && *leader == known.identity => {
            Some(format!("{} names itself and does not lead", name(*number)))
        }
        Status::Unknown | Status::Following { .. } | Status::Resigning => None,
    }
}

/// Who holds a claim for as long as an answer is good, and was not told to give it up, says so.
pub(super) fn leaders_say_so<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Answered(number, answer, asked) = happening else { return None };
    let known = &facts.candidates[*number];
    let claim = known.claim.filter(|_| known.resigns.is_none())?;
    let denies = !matches!(answer.status, Status::Leading(_))
        && claim.remaining(*asked) >= known.timing.answer_validity();
    denies.then(|| {
        format!("{} holds {claim:?} at {asked:?}, and answers {:?}", name(*number), answer.status)
    })
}

/// A claim ends no later than one renew deadline after a write of its holder was applied, and acknowledged; and what has
/// ended already is not published.
pub(super) fn claims_are_backed<E: Election>(
    facts: &Facts,
    _: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Claims(number, Some(claim)) = happening else { return None };
    let known = &facts.candidates[*number];
    let backed_until = known.acknowledged.map(|(_, shown)| shown + known.timing.renew_deadline());
    let is_backed = backed_until >= Some(claim.deadline()) && claim.deadline() > known.heard_at;
    (!is_backed).then(|| {
        let (deadline, heard_at) = (claim.deadline(), known.heard_at);
        format!(
            "{} claims until {deadline:?} at {heard_at:?}, backed until {backed_until:?}",
            name(*number)
        )
    })
}

/// Nobody but a stranger replaces the holder in the record while his claim is current.
pub(super) fn record_names_claimant<E: Election>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<String> {
    let Happening::Holder(holder, _) = happening else { return None };
    let by_stranger = facts.is_meddled(scene.now);
    let is_robbed = |number: &usize| {
        let known = &facts.candidates[*number];
        known.claims(scene.shown_to(*number))
            && known.identity.as_ref() != *holder
            && !facts.is_excused(known.applied_at(), known.applied_at())
    };
    (0..facts.candidates.len())
        .find(|number| !by_stranger && is_robbed(number))
        .map(|number| format!("the record names {holder:?} while {} holds a claim", name(number)))
}

/// Whose claim or promise is made now, and current.
fn begins_to_lead<E: Election>(scene: &Scene<'_>, happening: &Happening<'_, E>) -> Option<usize> {
    if let Happening::Claims(number, Some(claim)) = happening {
        return Some(*number).filter(|number| !claim.remaining(scene.shown_to(*number)).is_zero());
    }
    let Happening::Answered(number, answer, asked) = happening else { return None };
    let Status::Leading(promise) = answer.status else { return None };
    Some(*number).filter(|number| *asked + promise.valid_for > scene.shown_to(*number))
}

fn others(facts: &Facts, number: usize) -> impl Iterator<Item = usize> {
    (0..facts.candidates.len()).filter(move |other| *other != number)
}

pub(crate) fn name(number: usize) -> char {
    char::from(b'a' + u8::try_from(number).expect("a world has few candidates"))
}
