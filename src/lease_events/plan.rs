//! Decides which Event to send next.
//!
//! Pure. Start with [`EventPlan::next`]. It compares the term that was told last with the present one,
//! so at most one Event waits while a call hangs, and terms that passed meanwhile are left out.

use crate::kubernetes::lease_event::LeaseChange;
use baton_election::claim::FencingToken;

/// The term that the last Event told of.
#[derive(Debug, Default)]
pub(super) struct EventPlan {
    told: Option<FencingToken>,
}

impl EventPlan {
    /// The Event that tells of `term`, if the last one does not. Each is returned once.
    pub(super) fn next(&mut self, term: Option<FencingToken>) -> Option<LeaseChange> {
        match (self.told, term) {
            (told, term) if told == term => None,
            (Some(_), _) => {
                self.told = None;
                Some(LeaseChange::Stopped)
            }
            (None, term) => {
                self.told = term;
                Some(LeaseChange::Became)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Events after each of these terms.
    fn told(terms: &[Option<u128>]) -> Vec<LeaseChange> {
        let mut plan = EventPlan::default();
        let mut told = Vec::new();
        for term in terms {
            while let Some(change) = plan.next(term.map(FencingToken::new)) {
                told.push(change);
            }
        }
        told
    }

    #[test]
    fn each_term_begins_and_ends_once() {
        use LeaseChange::{Became, Stopped};
        assert_eq!(told(&[None, Some(5), Some(5), None, None]), [Became, Stopped]);
        assert_eq!(told(&[Some(5), Some(7)]), [Became, Stopped, Became]);
        assert_eq!(told(&[None]), []);
    }
}
