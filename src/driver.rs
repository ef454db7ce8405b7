//! The async loop that runs an election machine over a store.
//!
//! Touches tokio, the clock, [`leadership`], and telemetry; knows no particular store and decides
//! nothing about the election. Start with [`drive`]. A turn follows two rules: publish the
//! machine's standing before awaiting anything, and count a request's age from `poll_request`,
//! before it is sent.
//!
//! ```text
//!  ┌─► turn: handle_timeout, publish the standing, report transitions
//!  │   start Store::perform if poll_request has a request
//!  │   wait for its reply, a store event, an order, or poll_timeout
//!  └── pass that to the machine
//! ```

mod admission;
pub mod leadership;
mod orders;
mod releases;

pub use orders::{Control, DriverStopped, Orders, ResignRefusal, Resigning, Withdrawn, orders};

use crate::config::OnLost;
use crate::driver::leadership::Publisher;
use crate::health::Health;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::store::{RequestSummary, Store, StoreError};
use crate::telemetry::reporter::{Loss, Reporter};
use admission::Admission;
use baton_election::duration::Rounded;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event, Outcome, Reason, Request, Transition};
use baton_election::withdrawals::Order;
use orders::DriverOrder;
use releases::Releases;
use std::future::{Future, pending};
use std::mem::replace;
use std::pin::pin;
use std::time::Duration;

/// A turn this late is logged: the process was paused or starved.
const LOGGED_DELAY: Duration = Duration::from_millis(500);

/// A call exceeded its share of the renew deadline.
#[derive(Debug, thiserror::Error)]
#[error(
    "{location} did not answer within {}, one call's share of the renew deadline: check whether \
     it is up and responsive",
    Rounded::nearest(*.timeout)
)]
struct TimedOut {
    location: String,
    timeout: Duration,
}

/// The parameters of [`drive`] besides the machine and the store.
#[derive(Debug)]
pub struct DriverContext {
    /// Publishes standings.
    pub publisher: Publisher,
    /// Receives orders from the supervisor and HTTP.
    pub orders: Orders,
    /// Logs and counts transitions and requests.
    pub reporter: Reporter,
    /// Tracks the health of the loop.
    pub health: Health,
    /// Whether the process exits when leadership is lost.
    pub on_lost: OnLost,
    /// How long the store may refuse us from the start before the driver ends.
    pub refusal_timeout: Duration,
    /// When the machine begins to campaign.
    pub campaign_from: Instant,
    /// An order that applies before the first request.
    pub first_order: Option<Order>,
}

/// Why [`drive`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverOutcome {
    /// Leadership was lost, and the process must exit.
    Lost(Reason),
    /// The store refused us from the start for a whole lease duration.
    Refused,
    /// The store's settings prevent us from leading with ours.
    Incompatible,
}

impl DriverOutcome {
    /// The exit code of the process; `is_stopping` during a clean stop.
    pub const fn exit(self, is_stopping: bool) -> Exit {
        match self {
            // The last promise has expired too, so nothing is left to release and no client is
            // misled.
            Self::Lost(Reason::Deadline) | Self::Refused | Self::Incompatible if is_stopping => {
                Exit::Clean
            }
            Self::Lost(_) => Exit::Lost,
            Self::Refused => Exit::Refused,
            Self::Incompatible => Exit::Usage,
        }
    }
}

/// Runs `election` over `store` until leadership is lost (unless the process stays as a follower),
/// or until the store keeps this candidate from ever leading.
///
/// Cancel-safe: a write in progress then has an unknown outcome, and the claim ends at its
/// deadline.
pub async fn drive<E: Election, S: Store<E>>(
    election: E,
    store: &S,
    context: DriverContext,
) -> DriverOutcome {
    let admission = Admission::new(context.refusal_timeout);
    let releases = Releases::new(context.campaign_from);
    let mut driver = Driver {
        election,
        context,
        releases,
        admission,
        longest_delay: Duration::ZERO,
        revision: 0,
    };
    driver.carry_out_first_order();
    let mut call = None;
    let mut due = None;
    let mut store_event = pin!(store.next_event());
    loop {
        let now = Clock.now();
        driver.note_delay(due, now);
        if let Some(outcome) = driver.turn(now) {
            return outcome;
        }
        let call_timeout = driver.election.call_timeout();
        if call.is_none() {
            call = driver
                .election
                .poll_request(now)
                .map(|request| Box::pin(perform(store, request, call_timeout)));
            // poll_request checks the deadline first, and may have ended the term instead.
            if let Some(outcome) = driver.turn(now) {
                return outcome;
            }
        }
        let wake = driver.wakes_at();
        let call_ends = call.as_ref().map(|_| now + call_timeout);
        driver.context.health.expect_turn_by(wake, call_ends);
        due = wake.map(|wake| wake.max(now)).into_iter().chain(call_ends).min();
        tokio::select! {
            completed = wait_for(&mut call) => {
                call = None;
                driver.handle_reply(completed);
            }
            event = &mut store_event => {
                store_event.set(store.next_event());
                driver.handle_store_event(event);
            }
            order = driver.context.orders.next() => driver.handle_order(order),
            () = sleep_until(wake) => driver.election.handle_timeout(Clock.now()),
        }
    }
}

/// A request and its result.
struct CompletedRequest<E: Election> {
    request: RequestSummary,
    result: Result<E::Event, StoreError>,
    took: Duration,
}

async fn perform<E: Election, S: Store<E>>(
    store: &S,
    request: E::Request,
    timeout: Duration,
) -> CompletedRequest<E> {
    let began = Clock.now();
    tracing::trace!(?request, "sending a request to the store");
    let summary = RequestSummary { verb: request.verb(), is_renewal: request.is_renewal() };
    let result = match tokio::time::timeout(timeout, store.perform(request)).await {
        Ok(result) => result,
        Err(_elapsed) => {
            Err(StoreError::Unreachable(Box::new(TimedOut { location: store.location(), timeout })))
        }
    };
    CompletedRequest { request: summary, result, took: Clock.now().since(began) }
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

/// The state of a driver between two awaits.
struct Driver<E: Election> {
    election: E,
    context: DriverContext,
    /// Why the candidate stays away, and who waits for its release.
    releases: Releases,
    /// Whether the store grants us the rights to take part.
    admission: Admission,
    /// The worst delay of the loop since the last acknowledged renewal.
    longest_delay: Duration,
    /// The last published revision.
    revision: u64,
}

impl<E: Election> Driver<E> {
    /// Withdraws before the first request, if so ordered. Nothing waits for the outcome.
    fn carry_out_first_order(&mut self) {
        let Self { election, releases, context, .. } = self;
        if let Some(order) = context.first_order {
            let DriverContext { publisher, reporter, .. } = context;
            drop(releases.withdraw(order, election, publisher, reporter, Clock.now()));
        }
    }

    /// When the next turn is due.
    fn wakes_at(&self) -> Option<Instant> {
        let publisher = &self.context.publisher;
        let election = self.election.poll_timeout().map(|(due, _)| due);
        let releases = self.releases.poll_timeout(publisher);
        election.into_iter().chain(releases).chain(publisher.changes_at()).min()
    }

    /// Notes that a turn due by `due` happens at `now`.
    fn note_delay(&mut self, due: Option<Instant>, now: Instant) {
        let delay = due.map_or(Duration::ZERO, |due| now.since(due));
        self.longest_delay = self.longest_delay.max(delay);
    }

    /// The exit that a loss leads to, and the pause that may have caused it.
    fn loss(&self, reason: Reason) -> Loss {
        let exit = match self.context.on_lost {
            OnLost::Exit => Some(DriverOutcome::Lost(reason).exit(self.releases.is_stopping())),
            OnLost::Stay => self.releases.is_stopping().then_some(Exit::Clean),
        };
        Loss { exit, pause: Some(self.longest_delay).filter(|delay| *delay >= LOGGED_DELAY) }
    }

    /// Advances the machine to `now`, publishes its standing, and reports its transitions.
    fn turn(&mut self, now: Instant) -> Option<DriverOutcome> {
        self.election.handle_timeout(now);
        self.releases.turn(&mut self.election, &self.context.publisher, now);
        self.context.publisher.publish(self.election.standing(), now);
        let revision = self.context.publisher.revision();
        if replace(&mut self.revision, revision) != revision {
            self.context.health.record_standing();
        }
        while let Some(transition) = self.election.poll_transition() {
            self.context.health.record_change();
            let loss = if let Transition::Lost { reason, .. } = &transition {
                self.loss(*reason)
            } else {
                Loss::default()
            };
            self.context.reporter.transition(&transition, loss);
            if let Transition::Leading { .. } = transition {
                self.admission.note_write();
            }
            if let (Transition::Lost { reason, .. }, OnLost::Exit) =
                (&transition, self.context.on_lost)
            {
                return Some(DriverOutcome::Lost(*reason));
            }
            if transition.prevents_leading() && !self.admission.is_admitted(now) {
                return Some(DriverOutcome::Incompatible);
            }
        }
        self.releases.report(&self.context.reporter);
        self.context.health.set_admitted(self.admission.is_admitted(now));
        self.admission.is_refused(now).then_some(DriverOutcome::Refused)
    }

    fn handle_reply(&mut self, completed: CompletedRequest<E>) {
        let now = Clock.now();
        let outcome = completed.result.as_ref().map_or(Outcome::Unknown, Event::outcome);
        self.context.reporter.request(completed.request, outcome, completed.took);
        let event = match completed.result {
            Ok(event) => {
                self.context.health.record_contact();
                if event.shows_admission() {
                    self.admit(completed.request.verb.writes() && outcome == Outcome::Applied, now);
                }
                if completed.request.is_renewal && outcome == Outcome::Applied {
                    self.longest_delay = Duration::ZERO;
                }
                event
            }
            Err(error) => {
                // Rights lost while the process exits are reported with the exit.
                let is_final =
                    matches!(error, StoreError::Refused(_)) && self.releases.refuse_shutdown();
                if !is_final {
                    self.context.reporter.store_failed(&error);
                }
                match error {
                    StoreError::Refused(_) => {
                        self.admission.note_refusal(completed.request.verb.writes(), now);
                        E::Event::REFUSED
                    }
                    StoreError::Unusable(_) | StoreError::Unreachable(_) => {
                        self.admission.note_no_answer();
                        E::Event::UNKNOWN
                    }
                }
            }
        };
        self.election.handle_event(event, now);
    }

    /// Handles an event of the store. It counts as contact with the store, since a follower with a
    /// working watch sends no requests.
    fn handle_store_event(&mut self, event: E::Event) {
        let now = Clock.now();
        if event.shows_admission() {
            self.context.health.record_contact();
            self.admit(false, now);
        }
        self.election.handle_event(event, now);
    }

    /// Handles an answer that only an admitted candidate gets. After a refused write, an answered
    /// read is no recovery.
    fn admit(&mut self, has_written: bool, now: Instant) {
        if has_written {
            self.admission.note_write();
        } else {
            self.admission.note_answer(now);
        }
        if self.admission.is_admitted(now) {
            self.context.reporter.store_recovered();
        }
    }

    fn handle_order(&mut self, order: DriverOrder) {
        let now = Clock.now();
        let Self { election, releases, context, .. } = self;
        let DriverContext { publisher, reporter, .. } = context;
        match order {
            DriverOrder::Withdraw { order, done } => {
                done.send(releases.withdraw(order, election, publisher, reporter, now)).ok();
            }
            DriverOrder::Resign { token, hold_off, done } => {
                let resigning =
                    releases.resign(token, hold_off, election, publisher, reporter, now);
                done.send(resigning).ok();
            }
            DriverOrder::End(cause) => releases.end(cause, election, now),
            // The next turn asks for the end of the last promise.
            DriverOrder::PromisesVoided => {}
        }
    }
}
