//! Whether the store lets us take part, as its answers have shown so far.
//!
//! Pure. Start with [`Admission`].

use baton_election::instant::Instant;
use std::time::Duration;

/// What the store has shown of our rights.
///
/// Reading and writing are separate rights, and a follower writes nothing, perhaps for months. So
/// answers to reads admit it, unless the store refused it a write within the last lease duration: a
/// candidate that may read and not write looks like a follower, and can never lead. Refusals that
/// follow on one another for a lease duration end the process. A refusal that nothing follows is
/// forgotten after that time, for another candidate leads meanwhile, or a server had just restarted.
/// A candidate that has written once stays admitted, whatever is refused to it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    /// One lease duration.
    patience: Duration,
    shown: Rights,
    /// When the store last refused a write.
    refused_write: Option<Instant>,
    /// The first and the last of the refusals that follow on one another.
    refusals: Option<(Instant, Instant)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    Unknown,
    /// The store answers reads.
    Reads,
    /// The store has applied a write.
    Writes,
}

impl Admission {
    /// Nothing was asked yet; `patience` is how long a store may refuse us.
    pub(super) const fn new(patience: Duration) -> Self {
        Self { patience, shown: Rights::Unknown, refused_write: None, refusals: None }
    }

    /// Whether the store lets us take part, as far as it has shown until `now`.
    pub(super) fn is_admitted(self, now: Instant) -> bool {
        match self.shown {
            Rights::Unknown => false,
            Rights::Reads => {
                self.refused_write.is_none_or(|refused| now.since(refused) >= self.patience)
            }
            Rights::Writes => true,
        }
    }

    /// The store answered something at `now` that it tells only to those whom it lets take part.
    pub(super) fn answered(&mut self, now: Instant) {
        if self.shown == Rights::Unknown {
            self.shown = Rights::Reads;
        }
        if self.is_admitted(now) {
            self.refusals = None;
        }
    }

    /// The store applied a write, or holds one by which we lead.
    pub(super) const fn wrote(&mut self) {
        (self.shown, self.refused_write, self.refusals) = (Rights::Writes, None, None);
    }

    /// The store refused a request: a write, or something else.
    pub(super) fn refused(&mut self, is_write: bool, now: Instant) {
        if is_write {
            self.refused_write = Some(now);
        }
        self.refusals = match self.refusals {
            Some((first, last)) if now.since(last) < self.patience => Some((first, now)),
            Some(_) | None => Some((now, now)),
        };
    }

    /// The store did not answer, which shows nothing about our rights.
    pub(super) const fn missed(&mut self) {
        self.refusals = None;
    }

    /// Whether the store has refused us for a lease duration, and never let us take part.
    pub(super) fn is_refused(self, now: Instant) -> bool {
        !self.is_admitted(now)
            && self.refusals.is_some_and(|(first, last)| last.since(first) >= self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    fn admission() -> Admission {
        Admission::new(Duration::from_secs(15))
    }

    #[test]
    fn follower_is_admitted_by_reads() {
        let mut follower = admission();
        assert!(!follower.is_admitted(at(0)), "nothing was answered");
        follower.answered(at(0));
        assert!(follower.is_admitted(at(0)));
        for second in 1..100 {
            follower.refused(false, at(second));
            assert!(
                follower.is_admitted(at(second)) && !follower.is_refused(at(second)),
                "a server restarts"
            );
        }
    }

    #[test]
    fn refused_writes_end_admission_by_reads() {
        let mut powerless = admission();
        powerless.answered(at(0));
        for second in [1, 3, 5, 7, 9, 11, 13, 15] {
            powerless.refused(true, at(second));
            powerless.answered(at(second));
            assert!(!powerless.is_admitted(at(second)) && !powerless.is_refused(at(second)));
        }
        powerless.refused(true, at(17));
        assert!(powerless.is_refused(at(17)));
        powerless.wrote();
        assert!(powerless.is_admitted(at(17)) && !powerless.is_refused(at(17)));
    }

    /// Another candidate took the record meanwhile, so a follower had nothing to write.
    #[test]
    fn one_refused_write_is_forgotten() {
        let mut follower = admission();
        follower.answered(at(0));
        follower.refused(true, at(1));
        assert!(!follower.is_admitted(at(15)) && !follower.is_refused(at(15)));
        assert!(follower.is_admitted(at(16)) && !follower.is_refused(at(16)));
        follower.refused(true, at(600));
        assert!(!follower.is_admitted(at(600)) && !follower.is_refused(at(600)), "it counts anew");
    }

    #[test]
    fn writer_stays_admitted() {
        let mut leader = admission();
        leader.wrote();
        for second in 1..100 {
            leader.refused(true, at(second));
            assert!(leader.is_admitted(at(second)) && !leader.is_refused(at(second)));
        }
    }

    #[test]
    fn outage_is_no_time_of_refusals() {
        let mut candidate = admission();
        candidate.refused(false, at(0));
        candidate.missed();
        for second in [12, 20, 26] {
            candidate.refused(false, at(second));
            assert!(!candidate.is_refused(at(second)));
        }
        candidate.refused(false, at(27));
        assert!(candidate.is_refused(at(27)));
    }
}
