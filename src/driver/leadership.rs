//! Shares the driver's [`Leadership`] with everything that answers from it.
//!
//! Touches a mutex and tokio's notifications. Start with [`publish`]: the driver holds the
//! [`Publisher`], all others hold a [`Reader`].
//!
//! ```text
//!  driver: standing ─► Publisher ─┐        ┌─► Reader::promise(now): the application
//!                                 ├─ lock ─┤
//!  driver: last promise's end ◄───┘        └─► Reader::peek(now): observers
//! ```

use baton_election::claim::{Claim, FencingToken, Standing};
use baton_election::instant::Instant;
use baton_election::leadership::{Answer, Asker, Leadership, Loan, Status};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Creates both ends. Each promise is good for `answer_validity`.
pub fn publish(answer_validity: Duration) -> (Publisher, Reader) {
    let shared = Arc::new(SharedLeadership {
        board: Mutex::new(Board { leadership: Leadership::new(answer_validity), notified: 0 }),
        claimed: Condvar::new(),
        changed: Notify::new(),
        claim_changed: Notify::new(),
    });
    (Publisher(Arc::clone(&shared)), Reader(shared))
}

/// The end that publishes.
#[derive(Debug)]
pub struct Publisher(Arc<SharedLeadership>);

impl Publisher {
    /// Publishes `standing` as of `now`.
    pub fn publish(&self, standing: Standing, now: Instant) {
        let [before, after] = self.0.with(|leadership| {
            let state = |leadership: &Leadership| {
                (leadership.claim(), leadership.revision(), leadership.is_withdrawn())
            };
            let before = state(leadership);
            leadership.publish(standing, now);
            [before, state(leadership)]
        });
        if after != before {
            self.0.claim_changed.notify_waiters();
        }
        if before.0.is_none() && after.0.is_some() {
            self.0.claimed.notify_all();
        }
    }

    /// How often the published standing or leader has changed.
    pub fn revision(&self) -> u64 {
        self.0.with(|leadership| leadership.revision())
    }

    /// When to publish again at the latest, because the answers change by themselves: see
    /// [`Leadership::changes_at`].
    pub fn changes_at(&self) -> Option<Instant> {
        self.0.with(|leadership| leadership.changes_at())
    }

    /// The end of the last promise, if there was any.
    pub fn promised_until(&self) -> Option<Instant> {
        self.0.with(|leadership| leadership.promised_until())
    }

    /// Whether a command runs under a claim.
    pub fn is_lent(&self) -> bool {
        self.0.with(|leadership| leadership.is_lent())
    }
}

/// The end that answers.
#[derive(Debug, Clone)]
pub struct Reader(Arc<SharedLeadership>);

impl Reader {
    /// Notes that a request of the application arrived: see [`Leadership::note_poll`].
    pub fn note_poll(&self, now: Instant) {
        self.0.with(|leadership| leadership.note_poll(now));
    }

    /// Answers the application, with a promise: see [`Leadership::promise`].
    pub fn promise(&self, asker: Option<&Asker>, now: Instant) -> Answer {
        self.0.with(|leadership| leadership.promise(asker, now))
    }

    /// Answers the readers of the status file: see [`Leadership::promise_to_file`].
    pub fn promise_to_file(&self, now: Instant) -> Answer {
        self.0.with(|leadership| leadership.promise_to_file(now))
    }

    /// The end of the last promise, if there was any.
    pub fn promised_until(&self) -> Option<Instant> {
        self.0.with(|leadership| leadership.promised_until())
    }

    /// Voids the promises to an asker: see [`Leadership::void`].
    pub fn void(&self, asker: Option<&Asker>, token: FencingToken) -> bool {
        self.0.with(|leadership| leadership.void(asker, token))
    }

    /// Waits until the answers change.
    pub fn next_change(&self) -> Notified<'_> {
        self.0.changed.notified()
    }

    /// Lends the claim to a command: see [`Leadership::lend`].
    pub fn lend(&self, now: Instant) -> Option<Loan> {
        self.0.with(|leadership| leadership.lend(now))
    }

    /// Ends the loan: see [`Leadership::end_loan`].
    pub fn end_loan(&self) {
        self.0.with(Leadership::end_loan);
    }

    /// Waits until a new claim (as after each renewal) or a new standing is published.
    pub fn next_claim_change(&self) -> Notified<'_> {
        self.0.claim_changed.notified()
    }

    /// Answers an observer, without a promise: see [`Leadership::peek`].
    pub fn peek(&self, now: Instant) -> Answer {
        self.0.with(|leadership| leadership.peek(now))
    }

    /// The claim at `now`, whether promised or not.
    pub fn claim(&self, now: Instant) -> Option<Claim> {
        self.published_claim().filter(|claim| !claim.remaining(now).is_zero())
    }

    /// The claim of a leader at `now`; a withdrawn candidate has none here.
    pub fn promising_claim(&self, now: Instant) -> Option<Claim> {
        match self.peek(now).status {
            Status::Leading(_) => self.claim(now),
            Status::Unknown | Status::Following { .. } | Status::Resigning => None,
        }
    }

    /// The published claim, even past its deadline: for code that supervises the driver.
    pub fn published_claim(&self) -> Option<Claim> {
        self.0.with(|leadership| leadership.claim())
    }

    /// When a request of the application last arrived.
    pub fn last_polled_at(&self) -> Option<Instant> {
        self.0.with(|leadership| leadership.last_polled_at())
    }

    /// Blocks the calling thread until there is a claim.
    pub fn await_claim(&self) -> Claim {
        let mut board = self.0.lock();
        loop {
            if let Some(claim) = board.leadership.claim() {
                return claim;
            }
            board = self.0.claimed.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[derive(Debug)]
struct SharedLeadership {
    board: Mutex<Board>,
    claimed: Condvar,
    changed: Notify,
    claim_changed: Notify,
}

#[derive(Debug)]
struct Board {
    leadership: Leadership,
    /// The last revision that waiting requests were notified of.
    notified: u64,
}

impl SharedLeadership {
    /// Runs `use_it`, then notifies waiting requests if the answers have changed. The passage of time
    /// alone can change them.
    fn with<T>(&self, use_it: impl FnOnce(&mut Leadership) -> T) -> T {
        let mut board = self.lock();
        let result = use_it(&mut board.leadership);
        let revision = board.leadership.revision();
        if board.notified != revision {
            board.notified = revision;
            self.changed.notify_waiters();
        }
        result
    }

    /// Ignores poisoning: every change assigns a whole value, so a panic leaves none half written.
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Test helper: a leading standing, which only a machine can produce.
#[cfg(test)]
pub(crate) mod fixture {
    use super::*;
    use baton_election::identity::Identity;
    use baton_election::machine::Election as _;
    use baton_election::record::RecordElection;
    use baton_election::record::messages::{
        Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version,
    };
    use baton_election::timing::{Drift, Durations, Jitter, Timing};

    /// The standing of a leader whose write was sent at `sent`; its claim lasts ten seconds.
    pub(crate) fn leading_since(sent: Instant) -> Standing {
        leading_in_term(1, sent)
    }

    /// The same, with this fencing token.
    pub(crate) fn leading_in_term(number: u128, sent: Instant) -> Standing {
        let seconds = Duration::from_secs;
        let durations = Durations {
            lease_duration: seconds(15),
            renew_deadline: seconds(10),
            retry_period: seconds(2),
            answer_validity: seconds(2),
        };
        let timing = Timing::new(durations, Drift::default()).unwrap();
        let mut machine =
            RecordElection::new(Identity::parse("us_1").unwrap(), timing, Jitter::none(), sent);
        while let Some(request) = machine.poll_request(sent) {
            let event = match request {
                RecordRequest::Read => RecordEvent::Read(None),
                RecordRequest::Write(write) => RecordEvent::Applied(Snapshot {
                    version: Version { uid: "u".into(), number },
                    record: Record {
                        holder: write.holder,
                        duration: Some(write.duration),
                        transitions: write.transitions,
                        acquired: Stamp::default(),
                        renewed: Stamp::default(),
                    },
                }),
            };
            machine.handle_event(event, sent);
        }
        machine.standing()
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::leading_since;
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    /// Answers do not change when a candidate withdraws too close to its deadline for a promise. Its
    /// command must hear of it all the same.
    #[tokio::test]
    async fn withdrawal_without_a_change_of_answers_is_noticed() {
        let (publisher, reader) = publish(Duration::from_secs(2));
        let standing = leading_since(at(0));
        let Standing::Leading(claim) = standing else { panic!("it leads") };
        publisher.publish(standing, at(0));
        publisher.publish(Standing::Leading(claim), at(9));
        let mut changed = std::pin::pin!(reader.next_claim_change());
        changed.as_mut().enable();
        publisher.publish(Standing::Resigning(claim), at(9));
        tokio::time::timeout(Duration::from_secs(1), changed).await.expect("it is notified");
    }

    #[test]
    fn claim_is_held_until_its_deadline() {
        let (publisher, reader) = publish(Duration::from_secs(2));
        publisher.publish(leading_since(at(0)), at(0));
        let claim = reader.claim(at(9)).unwrap();
        assert_eq!(claim.deadline(), at(10));
        assert_eq!((reader.claim(at(10)), reader.published_claim()), (None, Some(claim)));
    }

    /// Repeated, because a thread that starts late finds the claim without waiting.
    #[test]
    fn thread_that_awaits_a_claim_is_woken() {
        for _ in 0..100 {
            let (publisher, reader) = publish(Duration::from_secs(2));
            let (start, started) = mpsc::channel();
            let (send_claim, claims) = mpsc::channel();
            thread::spawn(move || {
                start.send(()).unwrap();
                send_claim.send(reader.await_claim()).unwrap();
            });
            started.recv().unwrap();
            thread::yield_now();
            publisher.publish(Standing::Following { leader: None }, at(0));
            publisher.publish(leading_since(at(0)), at(0));
            let claim =
                claims.recv_timeout(Duration::from_secs(10)).expect("the thread was not woken");
            assert_eq!(claim.deadline(), at(10));
        }
    }
}
