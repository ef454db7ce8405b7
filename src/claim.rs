//! What leadership is: a claim that ends by itself, and the promises made on the strength of it.
//!
//! Pure; imports `clock::Instant` and `identity` only. Start at [`publish`]: the driver holds the
//! [`Publisher`], everybody else a [`Reader`]. There is no flag that says "leader": each answer is computed
//! from the claim and the instant of the question, so a late task or a dead one can not make it wrong.
//!
//! ```text
//!  election ──Standing──► Publisher ══╗              ╔══► Reader::promise(now)   to the application
//!                                     ╠═ one mutex ══╣
//!  driver ◄── last promise's end ═════╝              ╚══► Reader::glance(now)    to onlookers
//! ```
//!
//! Every "leading" that leaves the process is a [`Promise`] (the sixth invariant of ARCHITECTURE.md): it is computed and
//! recorded in one step, and a release waits until the last one has run out.

use crate::clock::Instant;
use crate::identity::Identity;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A number that is constant for a term and larger in each later term of the same election.
///
/// A resource that remembers the largest one it has seen can refuse a leader of the past. 128 bits
/// hold every `resourceVersion` that Kubernetes allows (KEP-5504).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken(u128);

impl FencingToken {
    /// The token with this number.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to lead until a deadline on our own clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    token: FencingToken,
    deadline: Instant,
}

impl Claim {
    /// A claim of the term `token` that ends at `deadline`. Only `election` calls this, and only for
    /// an acknowledged conditional write; `tests/it/tidy.rs` holds it to that.
    pub(crate) const fn new(token: FencingToken, deadline: Instant) -> Self {
        Self { token, deadline }
    }

    /// The token of the term.
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The instant from which this claim is worth nothing.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How long the claim still holds; zero from the deadline on.
    pub fn remaining(&self, now: Instant) -> Duration {
        self.deadline.since(now)
    }
}

/// Where an election machine stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Nothing was heard from the store yet.
    Unknown,
    /// Somebody else may lead.
    Following {
        /// Who holds the election, as far as we know.
        leader: Option<Identity>,
    },
    /// We hold the election and may promise it.
    Leading(Claim),
    /// We hold the election and promise nothing more.
    Resigning(Claim),
}

/// What an answer says: a [`Standing`] as it is true at one instant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Told {
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

impl Told {
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
    /// Where we stand.
    pub told: Told,
    /// How often standing or leader changed since this process began.
    pub revision: u64,
}

/// Makes the two ends of what is published.
///
/// `answer_validity` is for how long each promise is good, and so how much of the claim must be left
/// for one to be made.
pub fn publish(answer_validity: Duration) -> (Publisher, Reader) {
    let board = Arc::new(Board {
        notice: Mutex::new(Notice {
            standing: Standing::Unknown,
            told: Aspect::Unknown,
            revision: 0,
            promised_until: None,
            asked_at: None,
        }),
        claimed: Condvar::new(),
        answer_validity,
    });
    (Publisher(Arc::clone(&board)), Reader(board))
}

/// The driver's end.
#[derive(Debug)]
pub struct Publisher(Arc<Board>);

impl Publisher {
    /// Makes `standing` what is answered from now on.
    pub fn publish(&self, standing: Standing, now: Instant) {
        let mut notice = self.0.lock();
        let held = notice.claim().is_some();
        notice.standing = standing;
        notice.settle(now, self.0.answer_validity);
        if !held && notice.claim().is_some() {
            self.0.claimed.notify_all();
        }
    }

    /// The end of the last promise that was given, if there was one.
    pub fn promised_until(&self) -> Option<Instant> {
        self.0.lock().promised_until
    }
}

/// Everybody else's end.
#[derive(Debug, Clone)]
pub struct Reader(Arc<Board>);

impl Reader {
    /// Answers the application: the only way to a "leading" that somebody may act on.
    ///
    /// `now` is read before the call, so a pause in between shortens the promise and never
    /// stretches it.
    pub fn promise(&self, now: Instant) -> Answer {
        let validity = self.0.answer_validity;
        let mut notice = self.0.lock();
        notice.asked_at = notice.asked_at.max(Some(now));
        let answer = notice.answer(now, validity, validity);
        if let Told::Leading(_) = answer.told {
            notice.promised_until = notice.promised_until.max(Some(now + validity));
        }
        answer
    }

    /// Answers an onlooker (a probe, a scrape, `baton status`): the same, good for nothing.
    pub fn glance(&self, now: Instant) -> Answer {
        self.0.lock().answer(now, self.0.answer_validity, Duration::ZERO)
    }

    /// The claim that we hold at `now`, be it promised or not.
    pub fn claim(&self, now: Instant) -> Option<Claim> {
        self.0.lock().claim().filter(|claim| !claim.remaining(now).is_zero())
    }

    /// The claim that is published, also one past its deadline: for those who look after the driver.
    pub fn published_claim(&self) -> Option<Claim> {
        self.0.lock().claim()
    }

    /// When the application last asked.
    pub fn asked_at(&self) -> Option<Instant> {
        self.0.lock().asked_at
    }

    /// Blocks the calling thread until there is a claim, and returns it.
    pub fn await_claim(&self) -> Claim {
        let mut notice = self.0.lock();
        loop {
            if let Some(claim) = notice.claim() {
                return claim;
            }
            notice = self.0.claimed.wait(notice).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[derive(Debug)]
struct Board {
    notice: Mutex<Notice>,
    claimed: Condvar,
    answer_validity: Duration,
}

impl Board {
    /// A thread that panicked while it held the lock left nothing half written: every change below is
    /// an assignment of whole values.
    fn lock(&self) -> MutexGuard<'_, Notice> {
        self.notice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Notice {
    standing: Standing,
    told: Aspect,
    revision: u64,
    promised_until: Option<Instant>,
    asked_at: Option<Instant>,
}

/// What of an answer counts as a change: two promises of one term differ in nothing that a reader
/// would call new.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Aspect {
    Unknown,
    Following(Option<Identity>),
    Leading(FencingToken),
    Resigning,
}

impl Notice {
    fn claim(&self) -> Option<Claim> {
        match self.standing {
            Standing::Leading(claim) | Standing::Resigning(claim) => Some(claim),
            Standing::Unknown | Standing::Following { .. } => None,
        }
    }

    /// Brings what is told up to `now`. The deadline passes whether or not anybody publishes it.
    fn settle(&mut self, now: Instant, validity: Duration) {
        let told = match &self.standing {
            Standing::Unknown => Aspect::Unknown,
            Standing::Following { leader } => Aspect::Following(leader.clone()),
            Standing::Leading(claim) | Standing::Resigning(claim) if claim.remaining(now).is_zero() => {
                Aspect::Following(None)
            }
            Standing::Leading(claim) if claim.remaining(now) >= validity => Aspect::Leading(claim.token),
            Standing::Leading(_) | Standing::Resigning(_) => Aspect::Resigning,
        };
        if told != self.told {
            self.told = told;
            self.revision += 1;
        }
    }

    fn answer(&mut self, now: Instant, validity: Duration, valid_for: Duration) -> Answer {
        self.settle(now, validity);
        let told = match &self.told {
            Aspect::Unknown => Told::Unknown,
            Aspect::Following(leader) => Told::Following { leader: leader.clone() },
            Aspect::Leading(token) => Told::Leading(Promise { token: *token, valid_for }),
            Aspect::Resigning => Told::Resigning,
        };
        Answer { told, revision: self.revision }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    const VALIDITY: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    fn leading_until(deadline: u64) -> Standing {
        Standing::Leading(Claim::new(FencingToken::new(7), at(deadline)))
    }

    #[test]
    fn a_promise_is_good_for_exactly_the_validity_and_only_while_that_much_is_left() {
        let (publisher, reader) = publish(VALIDITY);
        publisher.publish(leading_until(10), at(0));
        let promise = Told::Leading(Promise { token: FencingToken::new(7), valid_for: VALIDITY });
        assert_eq!(reader.promise(at(8)).told, promise);
        assert_eq!(publisher.promised_until(), Some(at(10)));
        assert_eq!(reader.promise(at(9)).told, Told::Resigning);
        assert_eq!(reader.promise(at(10)).told, Told::Following { leader: None });
        assert_eq!(publisher.promised_until(), Some(at(10)));
    }

    #[test]
    fn after_withdrawal_nothing_is_promised() {
        let (publisher, reader) = publish(VALIDITY);
        publisher.publish(leading_until(10), at(0));
        publisher.publish(Standing::Resigning(Claim::new(FencingToken::new(7), at(10))), at(1));
        assert_eq!(reader.promise(at(1)).told, Told::Resigning);
        assert_eq!(publisher.promised_until(), None);
    }

    #[test]
    fn an_onlooker_is_promised_nothing_and_does_not_count_as_asking() {
        let (publisher, reader) = publish(VALIDITY);
        publisher.publish(leading_until(10), at(0));
        let glance = Told::Leading(Promise { token: FencingToken::new(7), valid_for: Duration::ZERO });
        assert_eq!(reader.glance(at(1)).told, glance);
        assert_eq!(publisher.promised_until(), None);
        assert_eq!(reader.asked_at(), None);
    }

    #[test]
    fn the_revision_counts_changes_also_those_that_nobody_published() {
        let (publisher, reader) = publish(VALIDITY);
        publisher.publish(leading_until(10), at(0));
        assert_eq!(reader.promise(at(1)).revision, 1);
        publisher.publish(leading_until(12), at(2));
        assert_eq!(reader.promise(at(3)).revision, 1, "a renewal changes nothing");
        assert_eq!(reader.promise(at(12)).revision, 2, "the deadline does");
        publisher.publish(Standing::Following { leader: None }, at(12));
        assert_eq!(reader.promise(at(13)).revision, 2, "and publishing it later does not count twice");
    }

    #[test]
    fn a_claim_is_had_until_its_deadline_and_stays_published_beyond() {
        let (publisher, reader) = publish(VALIDITY);
        assert_eq!((reader.claim(at(0)), reader.published_claim()), (None, None));
        publisher.publish(leading_until(10), at(0));
        let claim = reader.claim(at(9)).unwrap();
        assert_eq!((claim.token(), claim.deadline()), (FencingToken::new(7), at(10)));
        assert_eq!(claim.remaining(at(9)), Duration::from_secs(1));
        assert_eq!((reader.claim(at(10)), reader.published_claim()), (None, Some(claim)));
    }

    #[test]
    fn the_last_question_of_the_application_is_remembered() {
        let (_publisher, reader) = publish(VALIDITY);
        reader.promise(at(5));
        reader.promise(at(4));
        assert_eq!(reader.asked_at(), Some(at(5)));
    }

    /// Once would not do: who asks late finds the claim without being woken.
    #[test]
    fn whoever_waits_for_a_claim_is_woken_by_it() {
        for _ in 0..100 {
            let (publisher, reader) = publish(VALIDITY);
            let (begins, begun) = mpsc::channel();
            let (woken, wakes) = mpsc::channel();
            thread::spawn(move || {
                begins.send(()).unwrap();
                woken.send(reader.await_claim()).unwrap();
            });
            begun.recv().unwrap();
            thread::yield_now();
            publisher.publish(Standing::Following { leader: None }, at(0));
            publisher.publish(leading_until(10), at(0));
            let claim = wakes.recv_timeout(Duration::from_secs(10)).expect("nobody woke whoever waits");
            assert_eq!(claim.deadline(), at(10));
        }
    }
}
