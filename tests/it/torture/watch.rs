//! Progress and calm of one election: a leader within the documented bound after the last fault, and
//! the same leader until the next one.
//!
//! Pure: the caller observes. Start with [`Watch::observe`].

use crate::rig::Moment;
use std::time::Duration;

pub(super) struct Watch {
    /// How long an election may lack a leader after a fault.
    bound: Duration,
    /// The last moment at which a fault was active.
    faulted: Moment,
    /// The same, or at which a candidate did not run.
    disturbed: Moment,
    /// The token of the leader, once the election has come to rest.
    settled: Option<String>,
}

/// An election at one moment.
pub(super) struct Observed {
    pub(super) now: Moment,
    /// Whether a fault is active.
    pub(super) is_faulted: bool,
    /// A candidate that does not run.
    pub(super) missing: Option<String>,
    /// The token and the end of the latest promise.
    pub(super) claim: Option<(String, Moment)>,
}

impl Watch {
    pub(super) const fn new(bound: Duration) -> Self {
        let start = Moment::from_ms(0);
        Self { bound, faulted: start, disturbed: start, settled: None }
    }

    /// Judges the next moment. After a violation, it starts again, as after a fault.
    pub(super) fn observe(&mut self, observed: Observed) -> Result<(), String> {
        let Observed { now, is_faulted, missing, claim } = observed;
        if is_faulted {
            self.faulted = now;
            self.restart(now);
            return Ok(());
        }
        if let Some(candidate) = missing {
            self.restart(now);
            // A fault may end a candidate later, but not forever.
            if now.since(self.faulted) > self.bound {
                self.faulted = now;
                return Err(format!("no calm: {candidate} ended without a fault"));
            }
            return Ok(());
        }
        let violation = self.violation(now, claim.as_ref());
        if violation.is_some() {
            self.restart(now);
        } else if now.since(self.disturbed) > self.bound && self.settled.is_none() {
            self.settled = claim.filter(|(_, until)| *until > now).map(|(token, _)| token);
        }
        violation.map_or(Ok(()), Err)
    }

    /// Forgets what came before.
    fn restart(&mut self, now: Moment) {
        (self.disturbed, self.settled) = (now, None);
    }

    fn violation(&self, now: Moment, claim: Option<&(String, Moment)>) -> Option<String> {
        let promised = claim.map_or(Moment::from_ms(0), |(_, until)| *until);
        let since = self.disturbed.max(promised);
        if now.since(since) > self.bound {
            return Some(format!(
                "no progress: no candidate leads for {:?}, {:?} are allowed",
                now.since(since),
                self.bound
            ));
        }
        let (token, _) = claim?;
        let settled = self.settled.as_ref().filter(|settled| *settled != token)?;
        Some(format!("no calm: token {token} follows {settled} without a fault"))
    }
}

mod tests {
    use super::{Observed, Watch};
    use crate::rig::Moment;
    use std::time::Duration;

    const BOUND: Duration = Duration::from_secs(9);

    /// Observes an election at that second, with this token promised for another second.
    fn at(second: u64, is_faulted: bool, token: Option<&str>) -> Observed {
        let now = Moment::from_ms(1000 * second);
        let claim = token.map(|token| (token.to_owned(), now + Duration::from_secs(1)));
        Observed { now, is_faulted, missing: None, claim }
    }

    /// Observes at that second that a candidate does not run.
    fn missing(second: u64) -> Observed {
        Observed { missing: Some("a".to_owned()), ..at(second, false, None) }
    }

    #[test]
    fn leader_must_appear_within_the_bound_after_a_fault() {
        let mut watch = Watch::new(BOUND);
        assert_eq!(watch.observe(at(20, true, None)), Ok(()));
        assert_eq!(watch.observe(at(29, false, None)), Ok(()));
        assert!(watch.observe(at(30, false, None)).unwrap_err().contains("no progress"));
        assert_eq!(watch.observe(at(31, false, None)), Ok(()), "each violation counts once");
    }

    #[test]
    fn end_of_a_promise_starts_the_bound_again() {
        let mut watch = Watch::new(BOUND);
        let claim = Some(("1".to_owned(), Moment::from_ms(8000)));
        let later = |second: u64| {
            let now = Moment::from_ms(1000 * second);
            Observed { now, is_faulted: false, missing: None, claim: claim.clone() }
        };
        assert_eq!(watch.observe(later(16)), Ok(()));
        assert!(watch.observe(later(18)).is_err());
    }

    #[test]
    fn settled_election_keeps_its_leader_until_a_fault() {
        let mut watch = Watch::new(BOUND);
        assert_eq!(watch.observe(at(5, false, Some("1"))), Ok(()));
        assert_eq!(watch.observe(at(8, false, Some("2"))), Ok(()), "it has not come to rest");
        assert_eq!(watch.observe(at(10, false, Some("2"))), Ok(()));
        assert!(watch.observe(at(11, false, Some("3"))).unwrap_err().contains("no calm"));
        assert_eq!(watch.observe(at(12, false, Some("4"))), Ok(()), "each violation counts once");
    }

    #[test]
    fn candidate_may_end_for_a_while_after_a_fault_and_not_forever() {
        let mut watch = Watch::new(BOUND);
        assert_eq!(watch.observe(at(10, true, Some("1"))), Ok(()));
        for second in [11, 15, 19] {
            assert_eq!(watch.observe(missing(second)), Ok(()));
        }
        assert!(watch.observe(missing(20)).unwrap_err().contains("a ended without a fault"));
        assert_eq!(watch.observe(missing(21)), Ok(()), "each violation counts once");
    }

    #[test]
    fn leader_must_appear_within_the_bound_after_a_restart() {
        let mut watch = Watch::new(BOUND);
        assert_eq!(watch.observe(missing(8)), Ok(()));
        assert_eq!(watch.observe(at(17, false, None)), Ok(()));
        assert!(watch.observe(at(18, false, None)).unwrap_err().contains("no progress"));
    }

    #[test]
    fn fault_excuses_a_change_of_leader() {
        let mut watch = Watch::new(BOUND);
        assert_eq!(watch.observe(at(10, false, Some("2"))), Ok(()));
        assert_eq!(watch.observe(at(11, true, Some("2"))), Ok(()));
        assert_eq!(watch.observe(at(12, false, Some("3"))), Ok(()));
    }
}
