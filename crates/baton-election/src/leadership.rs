//! The published role of a candidate, and the promises to lead that it makes.
//!
//! Pure. Start with [`Leadership`]. No flag says "leader": each answer is computed from the claim
//! and the time of the request, so a delayed task cannot make it wrong. Every "leading" that leaves
//! the process is a [`Promise`], computed and recorded in one step. A release waits until the last
//! promise expires, or until the worker that got it has voided it.

use crate::claim::{Claim, FencingToken, Standing};
use crate::identity::Identity;
use crate::instant::Instant;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The role in an answer: a [`Standing`], evaluated at one instant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// The store has not replied yet.
    Unknown,
    /// Not leading.
    Following {
        /// The leader, if known.
        leader: Option<Identity>,
    },
    /// Leading, for at least as long as promised.
    Leading(Promise),
    /// Holding the election without promising to lead: withdrawn, or too close to the deadline.
    Resigning,
}

impl Status {
    /// Every value of [`Self::standing`].
    pub const STANDINGS: [&'static str; 4] = ["unknown", "following", "leading", "resigning"];

    /// The name of the role in JSON and metrics.
    pub const fn standing(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Following { .. } => "following",
            Self::Leading(_) => "leading",
            Self::Resigning => "resigning",
        }
    }
}

/// The promise to lead for at least `valid_for`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Promise {
    /// The fencing token of the term.
    pub token: FencingToken,
    /// How long the promise is valid, from the instant of the request. Zero in answers from
    /// [`Leadership::peek`].
    pub valid_for: Duration,
}

/// A claim that a command runs under.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Loan {
    /// The claim.
    pub claim: Claim,
    /// Whether the candidate is withdrawn, so that the command must stop.
    pub is_withdrawn: bool,
}

/// A worker of the application that asks for promises of its own, so that it can void them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Asker(String);

/// Not a valid name of an asker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid asker: use 1 to {} letters, digits, '-', '_', and '.'", Asker::MAX_LENGTH)]
pub struct InvalidAsker;

impl Asker {
    /// The longest name, in bytes: enough for a UUID with a prefix.
    pub const MAX_LENGTH: usize = 64;

    /// The asker with this name: 1 to 64 ASCII letters, digits, `-`, `_`, and `.`.
    pub fn parse(text: &str) -> Result<Self, InvalidAsker> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_valid = (1..=Self::MAX_LENGTH).contains(&text.len()) && text.bytes().all(is_allowed);
        is_valid.then(|| Self(text.to_owned())).ok_or(InvalidAsker)
    }
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An answer to a request for the current role.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Answer {
    /// The role at the instant of the request.
    pub status: Status,
    /// How many times the role or the leader has changed since the process started.
    pub revision: u64,
}

/// The most askers that hold promises at once.
const MAX_ASKERS: usize = 64;

/// The published standing, and the promises made so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Leadership {
    answer_validity: Duration,
    standing: Standing,
    visible: VisibleState,
    /// The leader in answers while following, if known.
    leader: Option<Identity>,
    revision: u64,
    promises: Promises,
    last_polled_at: Option<Instant>,
}

/// When the last promise to each asker expires.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Promises {
    anonymous: Option<Instant>,
    by_asker: BTreeMap<Asker, Instant>,
    /// Promises that nothing voids: those of a file, and to askers beyond [`MAX_ASKERS`].
    lasting: Option<Instant>,
    /// The end of the claim that the command of `baton exec` runs under, and its token.
    loan: Option<(FencingToken, Instant)>,
    /// When the last of them expires. Each turn asks for it, and few turns change it.
    end: Option<Instant>,
}

impl Promises {
    /// Records a promise until `until`. If too many askers hold promises at `now`, nothing voids the
    /// promise, so a release waits until it expires.
    fn record(&mut self, asker: Option<&Asker>, until: Instant, now: Instant) {
        self.by_asker.retain(|_, expires_at| *expires_at > now);
        match asker {
            Some(asker) => self.record_named(asker, until),
            None => self.anonymous = self.anonymous.max(Some(until)),
        }
        self.find_end();
    }

    fn record_named(&mut self, asker: &Asker, until: Instant) {
        if let Some(expires_at) = self.by_asker.get_mut(asker) {
            *expires_at = until.max(*expires_at);
        } else if self.by_asker.len() < MAX_ASKERS {
            self.by_asker.insert(asker.clone(), until);
        } else {
            self.record_lasting(until);
        }
    }

    fn record_lasting(&mut self, until: Instant) {
        self.lasting = self.lasting.max(Some(until));
        self.find_end();
    }

    fn set_loan(&mut self, loan: Option<(FencingToken, Instant)>) {
        self.loan = loan;
        self.find_end();
    }

    /// Voids every promise to `asker`, or every anonymous one.
    fn void(&mut self, asker: Option<&Asker>) {
        match asker {
            Some(asker) => drop(self.by_asker.remove(asker)),
            None => self.anonymous = None,
        }
        self.find_end();
    }

    fn find_end(&mut self) {
        let loan = self.loan.map(|(_, until)| until);
        let named = self.by_asker.values().copied().max();
        self.end = named.max(self.anonymous).max(self.lasting).max(loan);
    }
}

impl Leadership {
    /// Starts with [`Standing::Unknown`].
    ///
    /// `answer_validity` is how long each promise is valid. A promise is made only while at least
    /// that much of the claim remains.
    pub const fn new(answer_validity: Duration) -> Self {
        Self {
            answer_validity,
            standing: Standing::Unknown,
            visible: VisibleState::Unknown,
            leader: None,
            revision: 0,
            promises: Promises {
                anonymous: None,
                by_asker: BTreeMap::new(),
                lasting: None,
                loan: None,
                end: None,
            },
            last_polled_at: None,
        }
    }

    /// Publishes `standing`: later answers are computed from it.
    pub fn publish(&mut self, standing: Standing, now: Instant) {
        self.standing = standing;
        self.refresh(now);
    }

    /// Notes that a request of the application arrived at `now`. A waiting request counts from its
    /// arrival, because the application may have ended since.
    pub fn note_poll(&mut self, now: Instant) {
        self.last_polled_at = self.last_polled_at.max(Some(now));
    }

    /// Answers the application. Only a "leading" from here is safe to act on.
    ///
    /// The promise is recorded under `asker`, or as anonymous. Read `now` before the call, so that
    /// a pause in between shortens the promise and never extends it.
    pub fn promise(&mut self, asker: Option<&Asker>, now: Instant) -> Answer {
        let answer = self.answer(now, self.answer_validity);
        if let Status::Leading(_) = answer.status {
            self.promises.record(asker, now + self.answer_validity, now);
        }
        answer
    }

    /// Answers the readers of the status file. The promise cannot be voided. It does not count as a
    /// poll, because the application may have ended.
    pub fn promise_to_file(&mut self, now: Instant) -> Answer {
        let answer = self.answer(now, self.answer_validity);
        if let Status::Leading(_) = answer.status {
            self.promises.record_lasting(now + self.answer_validity);
        }
        answer
    }

    /// Voids the promises to `asker`, or the anonymous ones: their holders have stopped acting in
    /// the term `token`. Returns whether `token` is that of the published claim; if not, nothing is
    /// voided.
    pub fn void(&mut self, asker: Option<&Asker>, token: FencingToken) -> bool {
        let is_current = self.claim().is_some_and(|claim| claim.token() == token);
        if is_current {
            self.promises.void(asker);
        }
        is_current
    }

    /// Lends the whole claim to a command that a guard ends before the claim's deadline. The claim
    /// counts as promised until then, or until [`Self::end_loan`].
    ///
    /// A new loan needs a leader. A withdrawn candidate extends the loan of the command that still
    /// runs, so that it can stop in order.
    pub fn lend(&mut self, now: Instant) -> Option<Loan> {
        let (claim, is_withdrawn) = match self.standing {
            Standing::Leading(claim) => (claim, false),
            Standing::Resigning(claim) => {
                let is_lent = self.promises.loan.is_some_and(|(token, _)| token == claim.token());
                (Some(claim).filter(|_| is_lent)?, true)
            }
            Standing::Unknown | Standing::Following { .. } => return None,
        };
        if claim.remaining(now).is_zero() {
            return None;
        }
        self.promises.set_loan(Some((claim.token(), claim.deadline())));
        Some(Loan { claim, is_withdrawn })
    }

    /// Ends the loan: no process of the command is left.
    pub fn end_loan(&mut self) {
        self.promises.set_loan(None);
    }

    /// Whether a command runs under a claim.
    pub const fn is_lent(&self) -> bool {
        self.promises.loan.is_some()
    }

    /// Answers a probe, a metrics scrape, or `baton status` with the role, but makes no promise.
    pub fn peek(&mut self, now: Instant) -> Answer {
        self.answer(now, Duration::ZERO)
    }

    /// The published claim, even past its deadline.
    pub const fn claim(&self) -> Option<Claim> {
        match self.standing {
            Standing::Leading(claim) | Standing::Resigning(claim) => Some(claim),
            Standing::Unknown | Standing::Following { .. } => None,
        }
    }

    /// Whether the candidate holds the election, but is withdrawn.
    pub const fn is_withdrawn(&self) -> bool {
        matches!(self.standing, Standing::Resigning(_))
    }

    /// When the last promise expires that was not voided; `None` if there is none.
    pub const fn promised_until(&self) -> Option<Instant> {
        self.promises.end
    }

    /// How many times the role or the leader has changed.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// When the answers change next without a new standing: first when the claim becomes too short
    /// for a promise, then when it ends.
    pub fn changes_at(&self) -> Option<Instant> {
        let deadline = self.claim()?.deadline();
        match self.visible {
            VisibleState::Leading(_) => {
                let last_promise =
                    deadline.elapsed_since_boot().saturating_sub(self.answer_validity);
                Some(Instant::since_boot(last_promise + Duration::from_nanos(1)))
            }
            VisibleState::Resigning => Some(deadline),
            VisibleState::Unknown | VisibleState::Following => None,
        }
    }

    /// When the application last asked for a promise.
    pub const fn last_polled_at(&self) -> Option<Instant> {
        self.last_polled_at
    }

    /// Evaluates the standing at `now`. A deadline takes effect even if the driver never publishes
    /// it.
    fn refresh(&mut self, now: Instant) {
        let (visible, leader) = match &self.standing {
            Standing::Unknown => (VisibleState::Unknown, None),
            Standing::Following { leader } => (VisibleState::Following, leader.as_ref()),
            Standing::Leading(claim) | Standing::Resigning(claim)
                if claim.remaining(now).is_zero() =>
            {
                (VisibleState::Following, None)
            }
            Standing::Leading(claim) if claim.remaining(now) >= self.answer_validity => {
                (VisibleState::Leading(claim.token()), None)
            }
            Standing::Leading(_) | Standing::Resigning(_) => (VisibleState::Resigning, None),
        };
        if visible != self.visible || leader != self.leader.as_ref() {
            (self.visible, self.leader) = (visible, leader.cloned());
            self.revision += 1;
        }
    }

    fn answer(&mut self, now: Instant, valid_for: Duration) -> Answer {
        self.refresh(now);
        let status = match self.visible {
            VisibleState::Unknown => Status::Unknown,
            VisibleState::Following => Status::Following { leader: self.leader.clone() },
            VisibleState::Leading(token) => Status::Leading(Promise { token, valid_for }),
            VisibleState::Resigning => Status::Resigning,
        };
        Answer { status, revision: self.revision }
    }
}

/// The part of an answer whose change increments the revision, besides the leader. All promises of
/// one term are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum VisibleState {
    Unknown,
    Following,
    Leading(FencingToken),
    Resigning,
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALIDITY: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    fn claim_until(deadline: u64) -> Claim {
        Claim::new(FencingToken::new(7), at(deadline))
    }

    fn leading_until(deadline: u64) -> Leadership {
        let mut leadership = Leadership::new(VALIDITY);
        leadership.publish(Standing::Leading(claim_until(deadline)), at(0));
        leadership
    }

    #[test]
    fn promise_requires_a_claim_that_outlasts_it() {
        let mut leadership = leading_until(10);
        let promise = Status::Leading(Promise { token: FencingToken::new(7), valid_for: VALIDITY });
        assert_eq!(leadership.promise(None, at(8)).status, promise);
        assert_eq!(leadership.promised_until(), Some(at(10)));
        assert_eq!(leadership.promise(None, at(9)).status, Status::Resigning);
        assert_eq!(leadership.promise(None, at(10)).status, Status::Following { leader: None });
        assert_eq!(leadership.promised_until(), Some(at(10)));
    }

    #[test]
    fn withdrawn_claim_yields_no_promise() {
        let mut leadership = leading_until(10);
        leadership.publish(Standing::Resigning(claim_until(10)), at(1));
        assert_eq!(leadership.promise(None, at(1)).status, Status::Resigning);
        assert_eq!(leadership.promised_until(), None);
    }

    #[test]
    fn peek_neither_promises_nor_counts_as_a_poll() {
        let mut leadership = leading_until(10);
        let status =
            Status::Leading(Promise { token: FencingToken::new(7), valid_for: Duration::ZERO });
        assert_eq!(leadership.peek(at(1)).status, status);
        assert_eq!(leadership.promised_until(), None);
        assert_eq!(leadership.last_polled_at(), None);
    }

    #[test]
    fn loan_lasts_until_it_ends_or_the_claim_does() {
        let mut leadership = leading_until(10);
        assert_eq!(leadership.lend(at(1)).unwrap().claim, claim_until(10));
        leadership.promise(None, at(1));
        assert_eq!(leadership.promised_until(), Some(at(10)), "the whole claim is promised");
        leadership.end_loan();
        assert_eq!(leadership.promised_until(), Some(at(3)), "other promises stand");
        assert_eq!(leadership.lend(at(10)), None, "the claim has ended");
    }

    #[test]
    fn withdrawn_claim_is_lent_only_to_the_running_command() {
        let mut leadership = leading_until(10);
        leadership.lend(at(1));
        leadership.publish(Standing::Resigning(claim_until(12)), at(2));
        let loan = Loan { claim: claim_until(12), is_withdrawn: true };
        assert_eq!(leadership.lend(at(2)), Some(loan));
        leadership.end_loan();
        assert_eq!(leadership.lend(at(2)), None);
        assert!(!leadership.is_lent());
    }

    #[test]
    fn asker_voids_its_own_promises_only() {
        let [one, two] = ["one", "two"].map(|name| Asker::parse(name).unwrap());
        let mut leadership = leading_until(10);
        leadership.promise(Some(&one), at(3));
        leadership.promise(Some(&two), at(2));
        leadership.promise(None, at(1));
        let token = FencingToken::new(7);
        assert!(leadership.void(Some(&one), token));
        assert_eq!(leadership.promised_until(), Some(at(4)), "the other asker's promise stands");
        assert!(leadership.void(Some(&one), token), "a duplicate is harmless");
        assert!(leadership.void(Some(&two), token));
        assert_eq!(leadership.promised_until(), Some(at(3)), "the anonymous promise stands");
        assert!(leadership.void(None, token));
        assert_eq!(leadership.promised_until(), None);
    }

    #[test]
    fn late_void_of_an_earlier_term_changes_nothing() {
        let mut leadership = leading_until(10);
        leadership.promise(None, at(1));
        assert!(!leadership.void(None, FencingToken::new(6)));
        assert_eq!(leadership.promised_until(), Some(at(3)));
        leadership.publish(Standing::Following { leader: None }, at(2));
        assert!(!leadership.void(None, FencingToken::new(7)), "the term has ended");
        assert_eq!(leadership.promised_until(), Some(at(3)));
    }

    #[test]
    fn promise_to_a_surplus_asker_stands_until_it_expires() {
        let mut leadership = leading_until(10);
        let name = |number: usize| Asker::parse(&format!("worker-{number}")).unwrap();
        for number in 0..=MAX_ASKERS {
            leadership.promise(Some(&name(number)), at(1));
        }
        for number in 0..=MAX_ASKERS {
            leadership.void(Some(&name(number)), FencingToken::new(7));
        }
        leadership.void(None, FencingToken::new(7));
        assert_eq!(leadership.promised_until(), Some(at(3)), "nothing voids the last promise");
        leadership.promise(Some(&name(0)), at(4));
        leadership.void(Some(&name(0)), FencingToken::new(7));
        assert_eq!(leadership.promised_until(), Some(at(3)), "expired askers make room");
    }

    #[test]
    fn promise_to_file_cannot_be_voided() {
        let mut leadership = leading_until(10);
        assert!(matches!(leadership.promise_to_file(at(1)).status, Status::Leading(_)));
        leadership.void(None, FencingToken::new(7));
        assert_eq!(leadership.promised_until(), Some(at(3)));
        assert_eq!(leadership.last_polled_at(), None, "it is no poll");
        assert_eq!(leadership.promise_to_file(at(9)).status, Status::Resigning);
    }

    #[test]
    fn names_of_askers_are_short_and_plain() {
        for name in ["a", "job-7.retry_2", &"x".repeat(64)] {
            assert_eq!(Asker::parse(name).unwrap().to_string(), name);
        }
        for name in ["", "a b", "a%20b", "é", &"x".repeat(65)] {
            assert_eq!(Asker::parse(name), Err(InvalidAsker), "{name}");
        }
    }

    #[test]
    fn revision_counts_unpublished_deadlines_once() {
        let mut leadership = leading_until(10);
        assert_eq!(leadership.promise(None, at(1)).revision, 1);
        leadership.publish(Standing::Leading(claim_until(12)), at(2));
        assert_eq!(leadership.promise(None, at(3)).revision, 1, "a renewal is not a change");
        assert_eq!(leadership.promise(None, at(12)).revision, 2, "the deadline is a change");
        leadership.publish(Standing::Following { leader: None }, at(12));
        assert_eq!(
            leadership.promise(None, at(13)).revision,
            2,
            "publishing the lost claim later is not a second change"
        );
    }

    #[test]
    fn claim_is_readable_past_its_deadline() {
        assert_eq!(Leadership::new(VALIDITY).claim(), None);
        let mut leadership = leading_until(10);
        leadership.peek(at(11));
        assert_eq!(leadership.claim(), Some(claim_until(10)));
    }

    #[test]
    fn answers_change_when_last_promise_and_claim_end() {
        assert_eq!(Leadership::new(VALIDITY).changes_at(), None);
        let mut leadership = leading_until(10);
        let just_after = Instant::since_boot(Duration::new(8, 1));
        assert_eq!(leadership.changes_at(), Some(just_after));
        leadership.peek(at(8));
        assert_eq!(leadership.revision(), 1, "the last promise is made now");
        leadership.peek(just_after);
        assert_eq!((leadership.revision(), leadership.changes_at()), (2, Some(at(10))));
        leadership.peek(at(10));
        assert_eq!((leadership.revision(), leadership.changes_at()), (3, None));
    }

    #[test]
    fn last_poll_never_goes_backward() {
        let mut leadership = Leadership::new(VALIDITY);
        leadership.note_poll(at(5));
        leadership.note_poll(at(4));
        leadership.promise(None, at(6));
        assert_eq!(leadership.last_polled_at(), Some(at(5)));
    }
}
