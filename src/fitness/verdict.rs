//! Decides from single answers whether an application is fit to lead.
//!
//! Pure. Start with [`Fitness::record`].

use std::num::NonZeroU32;

/// The verdict, and how many answers in a row contradict it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fitness {
    is_fit: bool,
    contradictions: u32,
    /// How many contradictions in a row change the verdict.
    needed: u32,
    /// How many failures in a row end fitness.
    failures: NonZeroU32,
}

/// A change of the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Fit,
    Unfit,
}

impl Fitness {
    /// Not fit until the first success. After that, `failures` answers in a row change the verdict,
    /// either way.
    pub(super) const fn new(failures: NonZeroU32) -> Self {
        Self { is_fit: false, contradictions: 0, needed: 1, failures }
    }

    pub(super) const fn is_fit(self) -> bool {
        self.is_fit
    }

    /// Records one answer.
    pub(super) const fn record(&mut self, is_success: bool) -> Option<Change> {
        if is_success == self.is_fit {
            self.contradictions = 0;
            return None;
        }
        self.contradictions += 1;
        if self.contradictions < self.needed {
            return None;
        }
        (self.is_fit, self.contradictions) = (is_success, 0);
        self.needed = self.failures.get();
        Some(if is_success { Change::Fit } else { Change::Unfit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(answers: &str) -> String {
        let mut fitness = Fitness::new(NonZeroU32::new(3).unwrap());
        let verdict = |answer| {
            fitness.record(answer == '+');
            if fitness.is_fit() { '+' } else { '-' }
        };
        answers.chars().map(verdict).collect()
    }

    #[test]
    fn first_success_makes_fit() {
        assert_eq!(verdicts("---+"), "---+");
    }

    #[test]
    fn only_failures_in_a_row_make_unfit() {
        assert_eq!(verdicts("+--+--+---"), "+++++++++-");
    }

    #[test]
    fn after_unfitness_as_many_successes_in_a_row_are_needed() {
        assert_eq!(verdicts("+---++-+++---"), "+++-".to_owned() + "-----" + "+++-");
    }
}
