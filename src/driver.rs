//! The one async loop: a machine of `election` over a real store.
//!
//! Touches tokio, `election`, `claim`, `report` and the clock; knows no store and takes no decision about the
//! election. Start with [`drive`]. The order of a turn matters: what a machine says is published before anything is
//! awaited, and a request counts from the instant at which it was polled, just before it is sent.
//!
//! ```text
//!            ┌────────────── turn: time-out, transitions, publish ◄─┐
//!            ▼                                                      │
//!   poll_request ──► Store::perform (within one call's time-out) ──►┤
//!                    Store::next_event (a watch) ──────────────────►┤
//!                    Command (stop, resign, campaign) ─────────────►┤
//!                    poll_timeout ─────────────────────────────────►┘
//! ```

mod admission;
pub mod leadership;
mod orders;

pub use orders::{Control, Orders, Over, Released, orders};

use crate::config::OnLost;
use crate::driver::leadership::Publisher;
use crate::health::Health;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::store::{Call, Store, StoreError};
use crate::telemetry::reporter::{Loss, Reporter};
use admission::Admission;
use baton_election::claim::Standing;
use baton_election::duration::Rounded;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event, Outcome, Reason, Request, Transition, Withdrawal};
use orders::Command;
use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::oneshot;

/// A turn of the loop that is this late means that the process was paused or starved. It is logged.
const NOTEWORTHY_PAUSE: Duration = Duration::from_millis(500);

/// A call that took longer than its share of the renew deadline.
#[derive(Debug, thiserror::Error)]
#[error(
    "{place} did not answer within {}, one call's share of the renew deadline: see whether it is up and not slow",
    Rounded::nearest(*.timeout)
)]
struct TimedOut {
    place: String,
    timeout: Duration,
}

/// What a drive needs besides machine and store.
#[derive(Debug)]
pub struct DriverContext {
    /// Where standings are published.
    pub publisher: Publisher,
    /// What the supervisor orders.
    pub orders: Orders,
    /// Where transitions and requests are told.
    pub reporter: Reporter,
    /// How the loop itself is.
    pub health: Health,
    /// What to do when leadership is lost.
    pub on_lost: OnLost,
    /// How long a store may refuse us from the start.
    pub patience_with_refusals: Duration,
}

/// Why a drive ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Leadership was lost, and the process is to end with it.
    Lost(Reason),
    /// The store refused us from the start for a whole lease duration.
    Refused,
    /// The store's own settings do not let us lead with ours.
    Unsuited,
}

impl Ended {
    /// The exit code of the process then; `is_stopping` during a clean stop.
    pub const fn exit(self, is_stopping: bool) -> Exit {
        match self {
            // By the deadline the last promise has expired too: nothing is left to release, and no
            // reader can be misled.
            Self::Lost(Reason::Deadline) | Self::Refused | Self::Unsuited if is_stopping => {
                Exit::Clean
            }
            Self::Lost(_) => Exit::Lost,
            Self::Refused => Exit::Refused,
            Self::Unsuited => Exit::Usage,
        }
    }
}

/// Runs `election` over `store` until leadership is lost (unless it may stay) or the store has refused us for good.
///
/// Dropping the future is safe at any time: a write that is under way has an unknown outcome, and the claim ends by
/// its deadline.
pub async fn drive<E: Election, S: Store<E>>(
    election: E,
    store: &S,
    context: DriverContext,
) -> Ended {
    let admission = Admission::new(context.patience_with_refusals);
    let mut driver = Driver {
        election,
        context,
        release: None,
        admission,
        is_ending: false,
        is_stopping: false,
        stood_still: Duration::ZERO,
    };
    let mut reply = None;
    let mut due = None;
    let mut news = pin!(store.next_event());
    loop {
        let now = Clock.now();
        driver.came_round(due, now);
        if let Some(ended) = driver.turn(now) {
            return ended;
        }
        let call_timeout = driver.election.call_timeout();
        if reply.is_none() {
            reply = driver
                .election
                .poll_request(now)
                .map(|request| Box::pin(call(store, request, call_timeout)));
            // A request may have been refused by the deadline, which poll_request looks at first.
            if let Some(ended) = driver.turn(now) {
                return ended;
            }
        }
        let wake = driver.election.poll_timeout().map(|(due, _)| due);
        let call_ends = reply.as_ref().map(|_| now + call_timeout);
        driver.context.health.will_turn_by(wake, call_ends);
        due = wake.map(|wake| wake.max(now)).into_iter().chain(call_ends).min();
        tokio::select! {
            called = wait_for(&mut reply) => {
                reply = None;
                driver.replied(called);
            }
            event = &mut news => {
                news.set(store.next_event());
                driver.noticed(event);
            }
            command = driver.context.orders.next() => driver.obey(command),
            () = sleep_until(wake) => driver.election.handle_timeout(Clock.now()),
        }
    }
}

/// What came of one request.
struct Called<E: Election> {
    request: Call,
    result: Result<E::Event, StoreError>,
    took: Duration,
}

async fn call<E: Election, S: Store<E>>(
    store: &S,
    request: E::Request,
    timeout: Duration,
) -> Called<E> {
    let began = Clock.now();
    tracing::trace!(?request, "asking the store");
    let call = Call { verb: request.verb(), is_renewal: request.is_renewal() };
    let result = match tokio::time::timeout(timeout, store.perform(request)).await {
        Ok(result) => result,
        Err(_elapsed) => {
            Err(StoreError::Unreachable(Box::new(TimedOut { place: store.place(), timeout })))
        }
    };
    Called { request: call, result, took: Clock.now().since(began) }
}

async fn wait_for<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(instant) => Clock.sleep_until(instant).await,
        None => pending().await,
    }
}

/// The state of a drive between two awaits.
struct Driver<E: Election> {
    election: E,
    context: DriverContext,
    /// Who waits for a release to be over.
    release: Option<oneshot::Sender<Released>>,
    /// Whether the store lets us take part.
    admission: Admission,
    /// Whether the process is about to end.
    is_ending: bool,
    /// Whether it was asked to stop, and releases as soon as it may.
    is_stopping: bool,
    /// The worst lateness of the loop since the last acknowledged renewal.
    stood_still: Duration,
}

impl<E: Election> Driver<E> {
    /// Notes that the loop turns at `now`, and should have turned at `due` at the latest.
    fn came_round(&mut self, due: Option<Instant>, now: Instant) {
        let late = due.map_or(Duration::ZERO, |due| now.since(due));
        self.stood_still = self.stood_still.max(late);
    }

    /// The outcome of a loss of leadership, and the pause that may have caused it.
    fn loss(&self, reason: Reason) -> Loss {
        let exit = match self.context.on_lost {
            OnLost::Exit => Some(Ended::Lost(reason).exit(self.is_stopping)),
            OnLost::Stay => self.is_stopping.then_some(Exit::Clean),
        };
        Loss { exit, stood_still: Some(self.stood_still).filter(|late| *late >= NOTEWORTHY_PAUSE) }
    }

    /// Takes in that it is `now`, tells what happened and publishes where the machine stands.
    fn turn(&mut self, now: Instant) -> Option<Ended> {
        self.election.handle_timeout(now);
        self.context.publisher.publish(self.election.standing(), now);
        while let Some(transition) = self.election.poll_transition() {
            self.context.health.changed();
            let loss = if let Transition::Lost { reason, .. } = &transition {
                self.loss(*reason)
            } else {
                Loss::default()
            };
            self.context.reporter.transition(&transition, loss);
            if let Transition::Leading { .. } = transition {
                self.admission.wrote();
            }
            if let (Transition::Lost { reason, .. }, OnLost::Exit) =
                (&transition, self.context.on_lost)
            {
                return Some(Ended::Lost(*reason));
            }
            if transition.prevents_leading() && !self.admission.is_admitted(now) {
                return Some(Ended::Unsuited);
            }
        }
        if self.election.is_released()
            && let Some(waiter) = self.release.take()
        {
            // Who ordered the release may have stopped waiting for it.
            waiter.send(Released::Confirmed).ok();
        }
        self.context.health.admit(self.admission.is_admitted(now));
        self.admission.is_refused(now).then_some(Ended::Refused)
    }

    fn replied(&mut self, called: Called<E>) {
        let now = Clock.now();
        let outcome = called.result.as_ref().map_or(Outcome::Unknown, Event::outcome);
        self.context.reporter.request(called.request, outcome, called.took);
        let event = match called.result {
            Ok(event) => {
                self.context.health.heard();
                if event.shows_admission() {
                    self.admit(called.request.verb.writes() && outcome == Outcome::Applied, now);
                }
                if called.request.is_renewal && outcome == Outcome::Applied {
                    self.stood_still = Duration::ZERO;
                }
                event
            }
            Err(error) => {
                // Who ends without its rights has lost them with everything else: that is told where the end is.
                let is_final = self.is_ending && matches!(error, StoreError::Refused(_));
                match self.release.take_if(|_| is_final) {
                    Some(waiter) => drop(waiter.send(Released::Refused)),
                    None => self.context.reporter.trouble(&error),
                }
                match error {
                    StoreError::Refused(_) => {
                        self.admission.refused(called.request.verb.writes(), now);
                        E::Event::REFUSED
                    }
                    StoreError::Unusable(_) | StoreError::Unreachable(_) => {
                        self.admission.missed();
                        E::Event::UNKNOWN
                    }
                }
            }
        };
        self.election.handle_event(event, now);
    }

    /// News are a sign of the store too: a follower that hears them asks for nothing.
    fn noticed(&mut self, event: E::Event) {
        let now = Clock.now();
        if event.shows_admission() {
            self.context.health.heard();
            self.admit(false, now);
        }
        self.election.handle_event(event, now);
    }

    /// Takes in an answer that a stranger would not have had. The trouble of a refused write
    /// outlasts it, unless a write was applied.
    fn admit(&mut self, has_written: bool, now: Instant) {
        if has_written {
            self.admission.wrote();
        } else {
            self.admission.answered(now);
        }
        if self.admission.is_admitted(now) {
            self.context.reporter.store_answers();
        }
    }

    fn obey(&mut self, command: Command) {
        let now = Clock.now();
        match command {
            Command::Withdraw { how, for_good, done } => {
                self.is_ending |= for_good;
                self.is_stopping |= for_good && how == Withdrawal::Releasing;
                let before = self.election.standing();
                self.election.withdraw(how);
                let after = self.election.standing();
                self.context.publisher.publish(after.clone(), now);
                if let (Standing::Leading(claim), Standing::Resigning(_)) = (before, after) {
                    self.context.reporter.withdrawn(claim.token(), how);
                }
                done.send(self.context.publisher.promised_until().unwrap_or(now)).ok();
            }
            Command::Release(reason, done) => {
                self.election.release(reason, now);
                self.release = Some(done);
            }
            Command::Campaign(_) if self.is_ending => {}
            Command::Campaign(from) => self.election.campaign(from),
        }
    }
}
