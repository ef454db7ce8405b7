//! One [`Leadership`], shared between the driver that publishes and everything that answers.
//!
//! Touches a mutex. Start at [`publish`]: the driver holds the [`Publisher`], everything else a [`Reader`].
//!
//! ```text
//!  election ──Standing──► Publisher ══╗              ╔══► Reader::promise(now)   to the application
//!                                     ╠═ one mutex ══╣
//!  driver ◄── last promise's end ═════╝              ╚══► Reader::peek(now)      to onlookers
//! ```

use baton_election::claim::{Claim, Standing};
use baton_election::instant::Instant;
use baton_election::leadership::{Answer, Leadership};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Makes the two ends of what is published. Each promise is good for `answer_validity`.
pub fn publish(answer_validity: Duration) -> (Publisher, Reader) {
    let shared = Arc::new(Shared {
        leadership: Mutex::new(Leadership::new(answer_validity)),
        claimed: Condvar::new(),
    });
    (Publisher(Arc::clone(&shared)), Reader(shared))
}

/// The driver's end.
#[derive(Debug)]
pub struct Publisher(Arc<Shared>);

impl Publisher {
    /// Answers from `standing` from `now` on.
    pub fn publish(&self, standing: Standing, now: Instant) {
        let mut leadership = self.0.lock();
        let held = leadership.claim().is_some();
        leadership.publish(standing, now);
        if !held && leadership.claim().is_some() {
            self.0.claimed.notify_all();
        }
    }

    /// The end of the last promise, if there was one.
    pub fn promised_until(&self) -> Option<Instant> {
        self.0.lock().promised_until()
    }
}

/// Everything else's end.
#[derive(Debug, Clone)]
pub struct Reader(Arc<Shared>);

impl Reader {
    /// Answers the application: see [`Leadership::promise`].
    pub fn promise(&self, now: Instant) -> Answer {
        self.0.lock().promise(now)
    }

    /// Answers an onlooker: see [`Leadership::peek`].
    pub fn peek(&self, now: Instant) -> Answer {
        self.0.lock().peek(now)
    }

    /// The claim that is held at `now`, promised or not.
    pub fn claim(&self, now: Instant) -> Option<Claim> {
        self.published_claim().filter(|claim| !claim.remaining(now).is_zero())
    }

    /// The published claim, also past its deadline: for code that supervises the driver.
    pub fn published_claim(&self) -> Option<Claim> {
        self.0.lock().claim()
    }

    /// When the application last asked.
    pub fn last_polled_at(&self) -> Option<Instant> {
        self.0.lock().last_polled_at()
    }

    /// Blocks the calling thread until there is a claim, and returns it.
    pub fn await_claim(&self) -> Claim {
        let mut leadership = self.0.lock();
        loop {
            if let Some(claim) = leadership.claim() {
                return claim;
            }
            leadership = self.0.claimed.wait(leadership).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[derive(Debug)]
struct Shared {
    leadership: Mutex<Leadership>,
    claimed: Condvar,
}

impl Shared {
    /// A thread that panicked while it held the lock left nothing half written: every change is an
    /// assignment of whole values.
    fn lock(&self) -> MutexGuard<'_, Leadership> {
        self.leadership.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For tests: a standing that leads, since only a machine can make a claim.
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

    /// Leads from a write that was sent at `sent`, and so for ten seconds from then on.
    pub(crate) fn leading_since(sent: Instant) -> Standing {
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
                    version: Version { uid: "u".into(), number: 1 },
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

    #[test]
    fn claim_is_held_until_its_deadline() {
        let (publisher, reader) = publish(Duration::from_secs(2));
        publisher.publish(leading_since(at(0)), at(0));
        let claim = reader.claim(at(9)).unwrap();
        assert_eq!(claim.deadline(), at(10));
        assert_eq!((reader.claim(at(10)), reader.published_claim()), (None, Some(claim)));
    }

    /// Once would not do: a thread that asks late finds the claim without being woken.
    #[test]
    fn thread_that_waits_for_a_claim_is_woken_by_it() {
        for _ in 0..100 {
            let (publisher, reader) = publish(Duration::from_secs(2));
            let (begins, begun) = mpsc::channel();
            let (woken, wakes) = mpsc::channel();
            thread::spawn(move || {
                begins.send(()).unwrap();
                woken.send(reader.await_claim()).unwrap();
            });
            begun.recv().unwrap();
            thread::yield_now();
            publisher.publish(Standing::Following { leader: None }, at(0));
            publisher.publish(leading_since(at(0)), at(0));
            let claim =
                wakes.recv_timeout(Duration::from_secs(10)).expect("the thread was not woken");
            assert_eq!(claim.deadline(), at(10));
        }
    }
}
