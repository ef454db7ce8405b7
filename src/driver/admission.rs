//! Whether the store grants us the rights to take part.
//!
//! Pure. Start with [`Admission`].

use baton_election::instant::Instant;
use std::time::Duration;

/// Our rights, as far as the store's answers have shown them. Reading and writing are separate
/// rights.
///
/// * An answered read admits a candidate, since a follower may write nothing for months.
/// * After a refused write, reads admit it again only once a lease duration has passed: a candidate
///   that may not write could never lead.
/// * A row of refusals that lasts one lease duration ends the process.
/// * A single refusal is forgotten after a lease duration: another candidate leads by then, or a
///   server had just restarted.
/// * A candidate that has written once stays admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admission {
    /// One lease duration.
    refusal_timeout: Duration,
    shown: Rights,
    /// The time of the last refused write.
    refused_write: Option<Instant>,
    /// The first and the last of the refusals in a row.
    refusals: Option<(Instant, Instant)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    Unknown,
    /// The store has answered a read.
    Reads,
    /// The store has applied a write.
    Writes,
}

impl Admission {
    /// No rights are known yet. The store may refuse us for `refusal_timeout`, one lease duration.
    pub(super) const fn new(refusal_timeout: Duration) -> Self {
        Self { refusal_timeout, shown: Rights::Unknown, refused_write: None, refusals: None }
    }

    /// Whether the store lets us take part, as far as known at `now`.
    pub(super) fn is_admitted(self, now: Instant) -> bool {
        match self.shown {
            Rights::Unknown => false,
            Rights::Reads => {
                self.refused_write.is_none_or(|refused| now.since(refused) >= self.refusal_timeout)
            }
            Rights::Writes => true,
        }
    }

    /// Notes an answer that the store gives only to admitted candidates.
    pub(super) fn note_answer(&mut self, now: Instant) {
        if self.shown == Rights::Unknown {
            self.shown = Rights::Reads;
        }
        if self.is_admitted(now) {
            self.refusals = None;
        }
    }

    /// Notes that the store applied a write, or holds one of ours that makes us the leader.
    pub(super) const fn note_write(&mut self) {
        (self.shown, self.refused_write, self.refusals) = (Rights::Writes, None, None);
    }

    /// Notes that the store refused a request, which may have been a write.
    pub(super) fn note_refusal(&mut self, is_write: bool, now: Instant) {
        if is_write {
            self.refused_write = Some(now);
        }
        self.refusals = match self.refusals {
            Some((first, last)) if now.since(last) < self.refusal_timeout => Some((first, now)),
            Some(_) | None => Some((now, now)),
        };
    }

    /// Notes a request without an answer, which shows nothing about our rights.
    pub(super) const fn note_no_answer(&mut self) {
        self.refusals = None;
    }

    /// Whether the store has refused us for a lease duration and never admitted us.
    pub(super) fn is_refused(self, now: Instant) -> bool {
        !self.is_admitted(now)
            && self.refusals.is_some_and(|(first, last)| last.since(first) >= self.refusal_timeout)
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
        assert!(!follower.is_admitted(at(0)), "nothing is known");
        follower.note_answer(at(0));
        assert!(follower.is_admitted(at(0)));
        for second in 1..100 {
            follower.note_refusal(false, at(second));
            assert!(
                follower.is_admitted(at(second)) && !follower.is_refused(at(second)),
                "a server restarts"
            );
        }
    }

    #[test]
    fn refused_writes_end_admission_by_reads() {
        let mut reader = admission();
        reader.note_answer(at(0));
        for second in [1, 3, 5, 7, 9, 11, 13, 15] {
            reader.note_refusal(true, at(second));
            reader.note_answer(at(second));
            assert!(!reader.is_admitted(at(second)) && !reader.is_refused(at(second)));
        }
        reader.note_refusal(true, at(17));
        assert!(reader.is_refused(at(17)));
        reader.note_write();
        assert!(reader.is_admitted(at(17)) && !reader.is_refused(at(17)));
    }

    /// A follower has nothing more to write if another candidate has acquired the record meanwhile.
    #[test]
    fn one_refused_write_is_forgotten() {
        let mut follower = admission();
        follower.note_answer(at(0));
        follower.note_refusal(true, at(1));
        assert!(!follower.is_admitted(at(15)) && !follower.is_refused(at(15)));
        assert!(follower.is_admitted(at(16)) && !follower.is_refused(at(16)));
        follower.note_refusal(true, at(600));
        assert!(
            !follower.is_admitted(at(600)) && !follower.is_refused(at(600)),
            "counting starts again"
        );
    }

    #[test]
    fn candidate_that_wrote_stays_admitted() {
        let mut leader = admission();
        leader.note_write();
        for second in 1..100 {
            leader.note_refusal(true, at(second));
            assert!(leader.is_admitted(at(second)) && !leader.is_refused(at(second)));
        }
    }

    #[test]
    fn outage_interrupts_a_row_of_refusals() {
        let mut candidate = admission();
        candidate.note_refusal(false, at(0));
        candidate.note_no_answer();
        for second in [12, 20, 26] {
            candidate.note_refusal(false, at(second));
            assert!(!candidate.is_refused(at(second)));
        }
        candidate.note_refusal(false, at(27));
        assert!(candidate.is_refused(at(27)));
    }
}
