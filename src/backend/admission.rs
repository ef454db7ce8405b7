//! Whether the store lets us take part, as its answers have shown so far.
//!
//! Pure. Start with [`Admission`].

use crate::clock::Instant;
use std::time::Duration;

/// What the store has shown of our rights.
///
/// Reading and writing are separate rights, and a follower writes nothing, perhaps for months. So
/// answers to reads admit it until the store refuses it a write. From then on only an applied write
/// admits it: a candidate that may read and not write looks like a follower, and can never lead. It
/// ends when the store has applied no write for a lease duration after that. One that has written
/// once stays admitted: servers that restart refuse what they will soon do.
///
/// Time without an answer does not count, since a store that is away takes no right from anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Admission {
    rights: Rights,
    /// Since when the store has refused us, without an answer that admits us.
    refused_since: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Rights {
    #[default]
    Unknown,
    /// The store answers reads, and was asked for no write.
    Reads,
    /// The store refused a write, and has applied none.
    NoWrites,
    /// The store has applied a write.
    Writes,
}

impl Admission {
    /// Whether the store lets us take part, as far as it has shown.
    pub(super) const fn is_admitted(self) -> bool {
        match self.rights {
            Rights::Reads | Rights::Writes => true,
            Rights::Unknown | Rights::NoWrites => false,
        }
    }

    /// The store answered something that it tells only to those whom it lets take part.
    pub(super) fn answered(&mut self) {
        match self.rights {
            Rights::Unknown | Rights::Reads => {
                self.rights = Rights::Reads;
                self.refused_since = None;
            }
            Rights::NoWrites | Rights::Writes => {}
        }
    }

    /// The store applied a write, or holds one by which we lead.
    pub(super) const fn wrote(&mut self) {
        *self = Self { rights: Rights::Writes, refused_since: None };
    }

    /// The store refused a request: a write, or something else.
    pub(super) fn refused(&mut self, is_write: bool, now: Instant) {
        match self.rights {
            Rights::Unknown | Rights::Reads if is_write => self.rights = Rights::NoWrites,
            Rights::Unknown | Rights::Reads | Rights::NoWrites | Rights::Writes => {}
        }
        self.refused_since = self.refused_since.or(Some(now));
    }

    /// The store did not answer.
    pub(super) fn missed(&mut self, now: Instant) {
        self.refused_since = match self.rights {
            Rights::NoWrites => Some(now),
            Rights::Unknown | Rights::Reads | Rights::Writes => None,
        };
    }

    /// Whether the store has refused a candidate for this long that it never let take part.
    pub(super) fn is_refused_for(self, patience: Duration, now: Instant) -> bool {
        !self.is_admitted() && self.refused_since.is_some_and(|since| now.since(since) >= patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(15);

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn follower_is_admitted_by_reads() {
        let mut follower = Admission::default();
        assert!(!follower.is_admitted(), "nothing was answered");
        follower.answered();
        assert!(follower.is_admitted());
        follower.refused(false, at(1));
        assert!(follower.is_admitted() && !follower.is_refused_for(PATIENCE, at(100)), "a restarted server refuses");
    }

    #[test]
    fn refused_write_ends_admission_by_reads() {
        let mut powerless = Admission::default();
        powerless.answered();
        powerless.refused(true, at(1));
        powerless.answered();
        assert!(!powerless.is_admitted());
        assert!(!powerless.is_refused_for(PATIENCE, at(15)) && powerless.is_refused_for(PATIENCE, at(16)));
        powerless.wrote();
        assert!(powerless.is_admitted() && !powerless.is_refused_for(PATIENCE, at(16)));
    }

    #[test]
    fn writer_stays_admitted() {
        let mut leader = Admission::default();
        leader.wrote();
        leader.refused(true, at(1));
        assert!(leader.is_admitted() && !leader.is_refused_for(PATIENCE, at(100)));
    }

    #[test]
    fn outage_is_no_time_of_refusals() {
        let mut candidate = Admission::default();
        candidate.refused(false, at(0));
        candidate.missed(at(10));
        candidate.refused(false, at(20));
        assert!(!candidate.is_refused_for(PATIENCE, at(34)) && candidate.is_refused_for(PATIENCE, at(35)));
        candidate.refused(true, at(36));
        candidate.missed(at(40));
        assert!(!candidate.is_refused_for(PATIENCE, at(54)) && candidate.is_refused_for(PATIENCE, at(55)));
    }
}
