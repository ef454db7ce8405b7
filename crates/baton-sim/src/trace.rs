//! The events of a run, at true time.
//!
//! Pure. Start with [`TraceEvent`]. The checkers and the trace printer observe the same events.

use crate::clock::{Clock, Moment};
use crate::scenario::Fault;
use baton_election::claim::{Claim, FencingToken};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Answer;
use baton_election::machine::{Election, Reason, Transition, Withdrawal};
use baton_election::withdrawals::{Cause, Order, OrderOutcome, Ticket};
use std::time::Duration;

/// Receives the events of a run.
pub trait Observer<E: Election> {
    /// Called for each `event`, at `context.now`.
    fn observe(&mut self, context: &TraceContext<'_>, event: &TraceEvent<'_, E>);
}

/// Both observe each event, the first one first.
impl<E: Election, A: Observer<E>, B: Observer<E>> Observer<E> for (A, B) {
    fn observe(&mut self, context: &TraceContext<'_>, event: &TraceEvent<'_, E>) {
        self.0.observe(context, event);
        self.1.observe(context, event);
    }
}

/// The true time of an event, and every candidate's clock.
#[derive(Clone, Copy, Debug)]
pub struct TraceContext<'a> {
    /// The true time.
    pub now: Moment,
    /// The clocks, by candidate.
    pub clocks: &'a [Clock],
}

impl TraceContext<'_> {
    /// The reading of the clock of `candidate` at this moment.
    pub fn local_time(&self, candidate: usize) -> Instant {
        self.clocks[candidate].read(self.now)
    }
}

/// An event of a run. A `usize` is a candidate's index unless the variant says otherwise.
#[derive(Hash, Debug)]
pub enum TraceEvent<'a, E: Election> {
    /// A fault starts. The number is that of the affected candidate or server.
    FaultBegan(&'a Fault, Option<usize>),
    /// A fault ends. The number is that of the affected candidate or server.
    FaultEnded(&'a Fault, Option<usize>),
    /// Effects of a fault reach this candidate, or all candidates for `None`.
    Disturbed(Option<usize>),
    /// Watch events of this candidate are lost or late, so it has to read.
    WatchImpaired(usize),
    /// A process starts, and will campaign from this local time on.
    ProcessStarted(usize, &'a Identity, Instant),
    /// A process exits.
    ProcessExited(usize, ExitCause),
    /// A process accepts an order to withdraw at this local time.
    Ordered(usize, Ticket, &'a Order, Instant),
    /// An order has ended in this way, at this local time.
    OrderSettled(usize, Ticket, OrderOutcome, Instant),
    /// An order ends the withdrawal for this cause.
    WithdrawalEnded(usize, Cause),
    /// A candidate withdraws in this way, and stops campaigning.
    Withdrew(usize, Withdrawal),
    /// A candidate campaigns again, from this local time on.
    CampaignResumed(usize, Instant),
    /// The named worker of a candidate's application has finished this piece of work. It acts on no
    /// promise for that piece any more, nor on an answer that is still on its way.
    WorkDone(usize, u32),
    /// A machine sends a request at this local time. A claim that the request earns counts from it.
    RequestSent(usize, &'a E::Request, Instant),
    /// The record has this holder now, if any, and others must wait this long before they may
    /// acquire it.
    HolderChanged(Option<&'a Identity>, Duration),
    /// Precedes [`Self::HolderChanged`] where it is known why the previous holder is gone.
    HolderDeparted(Departure),
    /// The holder has forgotten the session that keeps it in the record: it can neither use nor end
    /// that session.
    SessionForgotten,
    /// The store has processed a request and replies. The caller may have exited, or the reply may
    /// get lost.
    RequestPerformed(usize, &'a E::Request, &'a E::Event),
    /// A machine receives the reply to its request, at this local time.
    ReplyReceived(usize, &'a E::Event, Instant),
    /// A machine receives a watch event, at this local time.
    WatchEventReceived(usize, &'a E::Event, Instant),
    /// A machine reports a transition.
    Transitioned(usize, &'a Transition<E::Diagnostic>),
    /// A candidate publishes another claim than before, or none.
    ClaimPublished(usize, Option<Claim>),
    /// Something happens to the command that a candidate runs in the term of this token.
    Command(usize, FencingToken, CommandEvent),
    /// A worker of a candidate's application gets an answer, at this time on the clock that it
    /// shares with its candidate.
    QueryAnswered(usize, Worker, &'a Answer, Instant),
}

/// A stage of a command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CommandEvent {
    /// The elector starts a guard for it.
    Ordered,
    /// It runs.
    Started,
    /// Its guard stops it because leadership ends.
    Ending,
    /// No process of it is left, or none was started.
    Ended,
}

/// A worker of the application.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Worker {
    /// It names itself after its piece of work, and voids its promises when the piece is done.
    Named(u32),
    /// It never voids a promise.
    Anonymous,
    /// It reads answers that its waiting request gets at each change, and never voids a promise.
    Waiting,
    /// It reads the status file. Nothing voids a promise in the file.
    FileReader,
}

/// Why the previous holder is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Departure {
    /// It released the election.
    Released,
    /// Another client deleted its record.
    Deleted,
}

/// Why a process exited.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExitCause {
    /// It was asked to stop, and stopped cleanly.
    Stopped,
    /// It lost leadership.
    LeadershipLost(Reason),
    /// It was killed.
    Crashed,
}
