//! Until when an answer of the ensemble lets us lead.
//!
//! Pure. No single answer shows how long a session still lives. The leader of the ensemble ends sessions, and no request
//! that it is handed by another server counts as a sign of the session: those servers note who spoke to them, and tell the
//! leader with the answers to its pings, one each half tick. A claim takes two answers of one connection:
//!
//! * **k**, a transaction answered last: a quorum agreed after k was sent that our session lives and our znode stands.
//! * **j**, an answer that had come in at least [a lag](crate::queue::timing::SessionTiming::lag) before k was sent. Between the two
//!   the server answered a ping of the ensemble's leader, and told it of j. That answer and k went to the leader on one
//!   stream, in this order; k was answered, so the leader heard of j, and counts the whole session time-out T from an
//!   instant after j was sent. Any request can be a j, for each is noted by the server; so can the connect itself, with
//!   no lag, for a session is opened and taken up again by the leader.
//!
//! Our clock measures the lag, which has to cover ¾ tick on the clock of the ensemble's leader:
//! half a tick between two pings, and a quarter by which the second may take longer. So the lag is
//! ¾ tick · (1+ρ)/(1−ρ).
//!
//! Hence nobody's session that we sent j in ends before `j + T` on the leader's clock, which is no sooner than
//! `j + T (1−ρ)/(1+ρ)` on ours, and by then a claim has ended. A new leader of the ensemble changes nothing: it counts a
//! whole T anew from its own start, the T with which the session began, and servers that follow it have dropped their
//! connections. That is why the smallest T counts that any server granted in this session. What is relied on: all
//! servers tick no slower than we were told, and none grants less than another while the answer in which it says so
//! is lost.
//!
//! ```text
//!  sent    j        answered j ── lag ──►  sent k    answered k
//!  ────────●────────────●──────────────────────●─────────●────────────────●──────► our clock
//!          └───────────────── T (1−ρ)/(1+ρ) ───────────────────────────────┘ or k + R, whichever is sooner
//! ```

use crate::instant::Instant;
use std::cmp::min;
use std::collections::VecDeque;
use std::time::Duration;

/// The answers of one connection, as far as a deadline can rest on them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Answers {
    lag: Duration,
    /// When the newest request was sent of which the ensemble's leader surely knows.
    settled: Instant,
    /// Younger ones, when each was sent and answered.
    young: VecDeque<(Instant, Instant)>,
}

impl Answers {
    /// Those of a connection that was asked for at `sent`, and granted.
    pub(super) const fn connected(sent: Instant, lag: Duration) -> Self {
        Self { lag, settled: sent, young: VecDeque::new() }
    }

    /// Takes in that a request which was sent at `sent` was answered at `now`.
    pub(super) fn answered(&mut self, sent: Instant, now: Instant) {
        self.settle(sent);
        self.young.push_back((sent, now));
    }

    /// Until when a transaction that was sent at `sent` and answered lets us lead, if the servers surely keep a session
    /// alive for `life` on our clock, and nobody leads longer than `renew_deadline` without another answer.
    pub(super) fn deadline(
        &mut self,
        sent: Instant,
        renew_deadline: Duration,
        life: Duration,
    ) -> Instant {
        self.settle(sent);
        min(sent + renew_deadline, self.settled + life)
    }

    /// From when on a transaction lets a claim rest on a younger answer than the last one did.
    pub(super) fn settles_at(&self) -> Instant {
        self.young.front().map_or(self.settled, |(_, answered)| *answered + self.lag)
    }

    /// Whether claims can be extended from answer to answer: each younger one counts, and a `call` made then is over, before
    /// what they rest on until then is.
    pub(super) fn outlast(&self, life: Duration, call: Duration) -> bool {
        let mut rests_on = self.settled;
        self.young.iter().all(|(sent, answered)| {
            let ends = rests_on + life;
            rests_on = *sent;
            *answered + self.lag + call <= ends
        })
    }

    /// Nothing will be asked about that was sent before `sent`, for one request is in flight at a time.
    fn settle(&mut self, sent: Instant) {
        while let Some((young, answered)) = self.young.front()
            && *answered + self.lag <= sent
        {
            self.settled = *young;
            self.young.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::timing::SessionTiming;
    use crate::timing::{Drift, Durations, Jitter, Timing};
    use std::cmp::max;

    /// An arithmetic model of an ensemble, seen from a session whose server may be cut off after any of its requests.
    ///
    /// Times are microseconds of a time that nobody has; each clock counts them at a rate of its own.
    struct Model {
        chance: Jitter,
        drift: Drift,
        /// Ours and that of the ensemble's leader, in parts per million.
        rates: [u64; 2],
        tick: u64,
        timeout: u64,
        /// What the leader's clock shows at the beginning.
        began: u64,
        lag: Duration,
        answers: Answers,
        /// When our server heard of us, oldest first, and has not told the leader.
        untold: Vec<u64>,
        /// When the leader was last told of us.
        told: u64,
        /// The next ping of the leader, counted on its clock in half ticks.
        pings: u64,
        /// When the stream from our server to the leader has last brought something.
        stream: u64,
    }

    impl Model {
        fn new(seed: u64) -> Self {
            let mut chance = Jitter::new(seed);
            let mut below = |bound: u64| chance.number() % bound;
            let off = [10_000, 100_000][usize::try_from(below(2)).unwrap()];
            let drift = Drift::parts_per_million(u32::try_from(off).unwrap()).unwrap();
            let rates = [0; 2].map(|_: u64| {
                [1_000_000 - off, 1_000_000, 1_000_000 + off][usize::try_from(below(3)).unwrap()]
            });
            let tick = [500_000, 2_000_000, 3_000_000][usize::try_from(below(3)).unwrap()];
            let timeout = tick * (4 + below(12));
            let began = 1_000_000_000 + below(tick);
            let lag = drift.most_of_ours(Duration::from_micros(tick / 2 + tick / 4));
            let answers = Answers::connected(Instant::since_boot(Duration::ZERO), lag);
            let pings = began / (tick / 2) + 1;
            let (untold, told, stream) = (Vec::new(), 0, 0);
            Self {
                chance,
                drift,
                rates,
                tick,
                timeout,
                began,
                lag,
                answers,
                untold,
                told,
                pings,
                stream,
            }
        }

        fn ours(&self, time: u64) -> Instant {
            Instant::since_boot(Duration::from_micros(time * self.rates[0] / 1_000_000))
        }

        fn below(&mut self, bound: u64) -> u64 {
            self.chance.number() % bound.max(1)
        }

        /// Brings what our server has told the leader up to what leaves it before `time`.
        fn ping_until(&mut self, time: u64) {
            loop {
                let sent = (self.pings * (self.tick / 2) - self.began) * 1_000_000 / self.rates[1];
                let answered = sent + self.below(self.tick / 4);
                if answered >= time {
                    return;
                }
                self.pings += 1;
                let told = self.untold.iter().any(|heard| *heard <= answered);
                self.untold.retain(|heard| *heard > answered);
                self.stream = max(self.stream, answered + self.below(self.tick / 50));
                if told {
                    self.told = self.stream;
                }
            }
        }

        /// Sends a request at `time`, and returns when it was answered. `is_write`: the leader has to agree.
        fn ask(&mut self, time: u64, there: u64, back: u64, is_write: bool) -> u64 {
            let heard = time + there;
            // In two steps, so that a ping between two requests is answered before the second.
            self.ping_until(heard);
            self.untold.push(heard);
            if is_write {
                self.stream = max(self.stream, heard + self.below(self.tick / 50));
            }
            let answered = if is_write { max(self.stream, heard) } else { heard } + back;
            self.answers.answered(self.ours(time), self.ours(answered));
            answered
        }

        /// When our session ends if nothing more of us reaches the leader, on our clock.
        fn expires(&self) -> Instant {
            let told = self.began + self.told * self.rates[1] / 1_000_000;
            let bucket = ((told + self.timeout) / self.tick + 1) * self.tick;
            self.ours((bucket - self.began) * 1_000_000 / self.rates[1])
        }

        fn life(&self) -> Duration {
            self.drift.least_of_ours(Duration::from_micros(self.timeout))
        }
    }

    /// Runs the schedule of `seed`, and returns how much was left at the least between a claim's deadline by `rule` and the
    /// session's end, had our server been cut off right after any transaction.
    fn least_left(seed: u64, mut rule: impl FnMut(&mut Model, Instant) -> Instant) -> i64 {
        let mut model = Model::new(seed);
        let mut time = 0;
        let mut least = i64::MAX;
        for _ in 0..40 {
            time += model.below(model.timeout / 4);
            // Mostly quick; a stall of up to four tenths of a session, either way, now and then.
            let slow = if model.below(5) == 0 { model.timeout * 4 / 10 } else { model.tick / 20 };
            let (there, back) = (model.below(slow), model.below(slow));
            let is_write = model.below(3) != 0;
            let sent = model.ours(time);
            time = model.ask(time, there, back, is_write) + 1;
            if is_write {
                let deadline = rule(&mut model, sent).elapsed_since_boot().as_micros();
                let expires = model.expires().elapsed_since_boot().as_micros();
                least =
                    least.min(i64::try_from(expires).unwrap() - i64::try_from(deadline).unwrap());
            }
        }
        least
    }

    #[test]
    fn no_session_ends_before_a_claim_that_rests_on_it() {
        for seed in 0..3_000 {
            let left = least_left(seed, |model, sent| {
                let life = model.life();
                model.answers.deadline(sent, Duration::from_hours(1), life)
            });
            assert!(left > 0, "seed {seed}: the session ends {} µs before the claim", -left);
        }
    }

    #[test]
    fn a_period_that_was_configured_says_nothing_of_the_gap_that_there_was() {
        let broken = (0..3_000).filter(|seed| {
            least_left(*seed, |model, sent| {
                let period = Duration::from_micros(model.timeout / 8);
                sent + model.life().saturating_sub(period + model.lag)
            }) < 0
        });
        assert!(broken.count() > 300, "the model is too kind to find the fault");
    }

    /// One slow ping, told by our clock, which is 0.7 % fast: a check is sent at 0 s and told at
    /// 0.48 s, j comes in just after the ping at 2.48 s, and k just before the late ping at 4.00 s.
    #[test]
    fn late_ping_on_a_slower_clock_vouches_for_nothing() {
        let at = |millis| Instant::since_boot(Duration::from_millis(millis));
        let drift = Drift::parts_per_million(10_000).unwrap();
        let session = Duration::from_secs(15);
        let durations = Durations {
            lease_duration: session,
            renew_deadline: Duration::from_millis(12_600),
            retry_period: Duration::from_secs(2),
            answer_validity: Duration::from_secs(2),
        };
        let asked = Timing::new(durations, drift).unwrap();
        let lag = SessionTiming::new(asked, Duration::from_secs(2)).unwrap().lag();
        let deadline_with = |lag| {
            let mut answers = Answers::connected(at(0), lag);
            answers.answered(at(0), at(0));
            answers.answered(at(2_000), at(2_490));
            answers.deadline(at(4_000), asked.renew_deadline(), drift.least_of_ours(session))
        };
        // The leader counts 15 s on its clock from the sign that it was told of at 0.48 s.
        let may_end = at(480) + session * 1_007 / 1_000;
        assert!(deadline_with(lag) < may_end, "{:?} and {may_end:?}", deadline_with(lag));
        let unstretched = Duration::from_millis(1_500);
        assert_eq!(deadline_with(unstretched), at(16_600), "a second too late");
    }

    #[test]
    fn a_stalled_link_shortens_the_claim_that_follows() {
        let at = |seconds: f64| Instant::since_boot(Duration::from_secs_f64(seconds));
        let [renew_deadline, session, lag] = [10.0, 15.0, 1.5].map(Duration::from_secs_f64);
        let life = Drift::default().least_of_ours(session);
        let mut answers = Answers::connected(at(0.0), lag);
        answers.answered(at(2.0), at(2.1));
        // 0.39 of the session goes by on the way there; the answer to the next one is quick, and then our server is cut off.
        // The leader last heard of us by a ping after 2 s, so the session may end just after 17 s.
        answers.answered(at(4.0), at(9.85));
        answers.answered(at(9.9), at(9.91));
        let deadline = answers.deadline(at(9.9), renew_deadline, life);
        assert!(at(14.2) < deadline && deadline < at(14.3), "{deadline:?}");
        let by_the_period =
            at(9.9) + renew_deadline.min(life.saturating_sub(Duration::from_secs(2)));
        assert!(by_the_period > at(17.0 + 2.0), "the rule that lets two lead: {by_the_period:?}");
    }

    #[test]
    fn what_is_kept_does_not_grow() {
        let mut answers =
            Answers::connected(Instant::since_boot(Duration::ZERO), Duration::from_secs(1));
        for second in 0..10_000 {
            let sent = Instant::since_boot(Duration::from_secs(second));
            answers.answered(sent, sent + Duration::from_millis(10));
        }
        assert!(answers.young.len() < 4);
    }

    #[test]
    fn a_claim_that_would_end_before_a_younger_answer_counts_does_not_outlast() {
        let at = |seconds| Instant::since_boot(Duration::from_secs(seconds));
        let [lag, call] = [9, 1].map(Duration::from_secs);
        let mut answers = Answers::connected(at(0), lag);
        answers.answered(at(10), at(10));
        answers.answered(at(16), at(16));
        assert_eq!(answers.settles_at(), at(19), "the older of the two, a lag after it came in");
        assert!(
            !answers.outlast(Duration::from_secs(19), call),
            "over at 19 s, and to be extended by 20 s"
        );
        assert!(answers.outlast(Duration::from_secs(20), call));
        answers.answered(at(28), at(28));
        assert!(
            !answers.outlast(Duration::from_secs(20), call),
            "nothing was asked for too long: over at 36 s"
        );
    }
}
