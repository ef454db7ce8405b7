//! What a candidate publishes of its leadership, and the promises made on the strength of it.
//!
//! Pure. Start with [`Leadership`]. There is no flag that says "leader": each answer is computed from the
//! claim and the instant of the question, so a late task cannot make it wrong. Every "leading" that leaves
//! a process is a [`Promise`]: it is computed and recorded in one step, and a release waits until the last
//! promise expires.

use crate::claim::{Claim, FencingToken, Standing};
use crate::identity::Identity;
use crate::instant::Instant;
use std::time::Duration;

/// What an answer says: a [`Standing`] as it is true at one instant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// Nothing was heard from the store yet.
    Unknown,
    /// Not leading.
    Following {
        /// Who holds the election, as far as we know.
        leader: Option<Identity>,
    },
    /// Leading, and for at least this long.
    Leading(Promise),
    /// Holding the election without a promise: withdrawn, or too close to the deadline for one.
    Resigning,
}

impl Status {
    /// Every word that [`Self::standing`] can say.
    pub const STANDINGS: [&'static str; 4] = ["unknown", "following", "leading", "resigning"];

    /// The standing as JSON and metrics spell it.
    pub const fn standing(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Following { .. } => "following",
            Self::Leading(_) => "leading",
            Self::Resigning => "resigning",
        }
    }
}

/// "Leading, and for at least `valid_for` from now."
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Promise {
    /// The token of the term.
    pub token: FencingToken,
    /// How long the promise is good, from the instant it was asked for; zero for an onlooker.
    pub valid_for: Duration,
}

/// One answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Answer {
    /// The standing as of the question.
    pub status: Status,
    /// How often standing or leader changed since this process began.
    pub revision: u64,
}

/// The published standing, and what was promised on it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Leadership {
    answer_validity: Duration,
    standing: Standing,
    aspect: Aspect,
    revision: u64,
    promised_until: Option<Instant>,
    asked_at: Option<Instant>,
}

impl Leadership {
    /// Nothing is published yet.
    ///
    /// `answer_validity` is how long each promise is good, and so how much of the claim must remain for
    /// a promise to be made.
    pub const fn new(answer_validity: Duration) -> Self {
        Self {
            answer_validity,
            standing: Standing::Unknown,
            aspect: Aspect::Unknown,
            revision: 0,
            promised_until: None,
            asked_at: None,
        }
    }

    /// Answers from `standing` from `now` on.
    pub fn publish(&mut self, standing: Standing, now: Instant) {
        self.standing = standing;
        self.settle(now);
    }

    /// Answers the application: the only way to a "leading" that it may act on.
    ///
    /// `now` is read before the call, so a pause in between shortens the promise and never stretches it.
    pub fn promise(&mut self, now: Instant) -> Answer {
        self.asked_at = self.asked_at.max(Some(now));
        let answer = self.answer(now, self.answer_validity);
        if let Status::Leading(_) = answer.status {
            self.promised_until = self.promised_until.max(Some(now + self.answer_validity));
        }
        answer
    }

    /// Answers an onlooker (a probe, a scrape, `baton status`): the same, without a promise.
    pub fn glance(&mut self, now: Instant) -> Answer {
        self.answer(now, Duration::ZERO)
    }

    /// The published claim, also past its deadline.
    pub const fn claim(&self) -> Option<Claim> {
        match self.standing {
            Standing::Leading(claim) | Standing::Resigning(claim) => Some(claim),
            Standing::Unknown | Standing::Following { .. } => None,
        }
    }

    /// The end of the last promise, if there was one.
    pub const fn promised_until(&self) -> Option<Instant> {
        self.promised_until
    }

    /// When the application last asked.
    pub const fn asked_at(&self) -> Option<Instant> {
        self.asked_at
    }

    /// Brings the aspect up to `now`. The deadline passes whether or not the driver publishes it.
    fn settle(&mut self, now: Instant) {
        let aspect = match &self.standing {
            Standing::Unknown => Aspect::Unknown,
            Standing::Following { leader } => Aspect::Following(leader.clone()),
            Standing::Leading(claim) | Standing::Resigning(claim)
                if claim.remaining(now).is_zero() =>
            {
                Aspect::Following(None)
            }
            Standing::Leading(claim) if claim.remaining(now) >= self.answer_validity => {
                Aspect::Leading(claim.token())
            }
            Standing::Leading(_) | Standing::Resigning(_) => Aspect::Resigning,
        };
        if aspect != self.aspect {
            self.aspect = aspect;
            self.revision += 1;
        }
    }

    fn answer(&mut self, now: Instant, valid_for: Duration) -> Answer {
        self.settle(now);
        let status = match &self.aspect {
            Aspect::Unknown => Status::Unknown,
            Aspect::Following(leader) => Status::Following { leader: leader.clone() },
            Aspect::Leading(token) => Status::Leading(Promise { token: *token, valid_for }),
            Aspect::Resigning => Status::Resigning,
        };
        Answer { status, revision: self.revision }
    }
}

/// What of an answer counts as a change: two promises of one term do not differ.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Aspect {
    Unknown,
    Following(Option<Identity>),
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
    fn promise_is_made_only_while_the_claim_outlasts_it() {
        let mut leadership = leading_until(10);
        let promise = Status::Leading(Promise { token: FencingToken::new(7), valid_for: VALIDITY });
        assert_eq!(leadership.promise(at(8)).status, promise);
        assert_eq!(leadership.promised_until(), Some(at(10)));
        assert_eq!(leadership.promise(at(9)).status, Status::Resigning);
        assert_eq!(leadership.promise(at(10)).status, Status::Following { leader: None });
        assert_eq!(leadership.promised_until(), Some(at(10)));
    }

    #[test]
    fn withdrawn_claim_is_not_promised() {
        let mut leadership = leading_until(10);
        leadership.publish(Standing::Resigning(claim_until(10)), at(1));
        assert_eq!(leadership.promise(at(1)).status, Status::Resigning);
        assert_eq!(leadership.promised_until(), None);
    }

    #[test]
    fn glance_promises_nothing_and_is_no_question() {
        let mut leadership = leading_until(10);
        let glance =
            Status::Leading(Promise { token: FencingToken::new(7), valid_for: Duration::ZERO });
        assert_eq!(leadership.glance(at(1)).status, glance);
        assert_eq!(leadership.promised_until(), None);
        assert_eq!(leadership.asked_at(), None);
    }

    #[test]
    fn revision_counts_changes_published_or_not() {
        let mut leadership = leading_until(10);
        assert_eq!(leadership.promise(at(1)).revision, 1);
        leadership.publish(Standing::Leading(claim_until(12)), at(2));
        assert_eq!(leadership.promise(at(3)).revision, 1, "a renewal changes nothing");
        assert_eq!(leadership.promise(at(12)).revision, 2, "the deadline does");
        leadership.publish(Standing::Following { leader: None }, at(12));
        assert_eq!(
            leadership.promise(at(13)).revision,
            2,
            "and publishing it later does not count twice"
        );
    }

    #[test]
    fn claim_stays_published_past_its_deadline() {
        assert_eq!(Leadership::new(VALIDITY).claim(), None);
        let mut leadership = leading_until(10);
        leadership.glance(at(11));
        assert_eq!(leadership.claim(), Some(claim_until(10)));
    }

    #[test]
    fn latest_question_is_remembered() {
        let mut leadership = Leadership::new(VALIDITY);
        leadership.promise(at(5));
        leadership.promise(at(4));
        assert_eq!(leadership.asked_at(), Some(at(5)));
    }
}
