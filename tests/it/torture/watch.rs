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
    disturbed: Moment,
    /// The token of the leader, once the election has come to rest.
    settled: Option<String>,
}

/// An election at one moment.
pub(super) struct Observed {
    pub(super) now: Moment,
    /// Whether a fault is active, or a candidate does not run.
    pub(super) is_disturbed: bool,
    /// The token and the end of the latest promise.
    pub(super) claim: Option<(String, Moment)>,
}

impl Watch {
    pub(super) const fn new(bound: Duration) -> Self {
        Self { bound, disturbed: Moment::from_ms(0), settled: None }
    }

    /// Whether the election has come to rest, so that nothing may end a term or a candidate.
    pub(super) const fn is_settled(&self) -> bool {
        self.settled.is_some()
    }

    /// Judges the next moment. After a violation, it starts again, as after a fault.
    pub(super) fn observe(&mut self, observed: Observed) -> Result<(), String> {
        let Observed { now, is_disturbed, claim } = observed;
        if is_disturbed {
            self.restart(now);
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

    /// Forgets what came before: a fault is active.
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
    fn at(second: u64, is_disturbed: bool, token: Option<&str>) -> Observed {
        let now = Moment::from_ms(1000 * second);
        let claim = token.map(|token| (token.to_owned(), now + Duration::from_secs(1)));
        Observed { now, is_disturbed, claim }
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
            Observed { now, is_disturbed: false, claim: claim.clone() }
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
        assert!(watch.is_settled());
        assert!(watch.observe(at(11, false, Some("3"))).unwrap_err().contains("no calm"));
        assert!(!watch.is_settled());
    }

    #[test]
    fn fault_excuses_a_change_of_leader() {
        let mut watch = Watch::new(BOUND);
        assert_eq!(watch.observe(at(10, false, Some("2"))), Ok(()));
        assert_eq!(watch.observe(at(11, true, Some("2"))), Ok(()));
        assert_eq!(watch.observe(at(12, false, Some("3"))), Ok(()));
        assert!(!watch.is_settled());
    }
}
