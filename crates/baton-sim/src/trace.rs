//! FaultKind happens in a world, as somebody would see it who stood outside and knew the true time.
//!
//! Pure. Judges, storytellers and a picture on a screen all see the same.

use crate::clock::{Clock, Moment};
use crate::scenario::Fault;
use baton_election::claim::Claim;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Answer;
use baton_election::machine::{Election, Reason, Transition, Withdrawal};
use std::time::Duration;

/// Sees everything.
pub trait Observer<E: Election> {
    /// `event` is what happens at `context.now`.
    fn observe(&mut self, context: &TraceContext<'_>, event: &TraceEvent<'_, E>);
}

/// Two see the same, the first one first.
impl<E: Election, A: Observer<E>, B: Observer<E>> Observer<E> for (A, B) {
    fn observe(&mut self, context: &TraceContext<'_>, event: &TraceEvent<'_, E>) {
        self.0.observe(context, event);
        self.1.observe(context, event);
    }
}

/// When it is, and what each candidate's clock would show.
#[derive(Clone, Copy, Debug)]
pub struct TraceContext<'a> {
    /// The true time.
    pub now: Moment,
    /// The clocks, by candidate.
    pub clocks: &'a [Clock],
}

impl TraceContext<'_> {
    /// FaultKind the clock of `candidate` shows now.
    pub fn local_time(&self, candidate: usize) -> Instant {
        self.clocks[candidate].read(self.now)
    }
}

/// Something that happens. Candidates are told by their number.
#[derive(Hash, Debug)]
pub enum TraceEvent<'a, E: Election> {
    /// A fault begins, or happens at once, and hits the candidate or the server of that number.
    FaultBegan(&'a Fault, Option<usize>),
    /// A fault is over.
    FaultEnded(&'a Fault, Option<usize>),
    /// FaultKind was wrong is felt: by this candidate, or by all where none is named.
    Disturbed(Option<usize>),
    /// News do not reach this candidate, or late: it has to ask.
    WatchImpaired(usize),
    /// A process begins, and will campaign from an instant on.
    ProcessStarted(usize, &'a Identity, Instant),
    /// A process ends.
    ProcessExited(usize, ExitCause),
    /// Leadership is to be given up in this way, and this candidate not to campaign.
    Withdrew(usize, Withdrawal),
    /// It may campaign again.
    CampaignResumed(usize),
    /// A machine asks something of the store; what it is granted counts from this instant on its own clock.
    RequestSent(usize, &'a E::Request, Instant),
    /// The record is replaced: this one is in it now, or nobody, and whoever sees that has to wait so long for him.
    HolderChanged(Option<&'a Identity>, Duration),
    /// Just before that, where it is known why whoever held the election does no more.
    HolderDeparted(Departure),
    /// By a session that it has forgotten this one, who holds the election, does so: it can neither use nor end that.
    SessionForgotten,
    /// The store has done what was asked, and replies; the caller may be gone, or may never hear it.
    RequestPerformed(usize, &'a E::Request, &'a E::Event),
    /// A machine hears the reply to what it asked, at an instant on its own clock.
    ReplyReceived(usize, &'a E::Event, Instant),
    /// A machine hears news that it did not ask for.
    WatchEventReceived(usize, &'a E::Event, Instant),
    /// A machine tells what happened to it.
    Transitioned(usize, &'a Transition<E::Diagnostic>),
    /// Another claim is published than before, or none.
    ClaimPublished(usize, Option<Claim>),
    /// An application is answered, as of an instant on the clock that it shares with its candidate.
    QueryAnswered(usize, &'a Answer, Instant),
}

/// Why whoever held the election does no more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Departure {
    /// He gave it up.
    Released,
    /// A stranger deleted what was his.
    Deleted,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExitCause {
    /// Asked to stop, and stopped cleanly.
    Stopped,
    /// Leadership was lost.
    LeadershipLost(Reason),
    /// Somebody killed it.
    Crashed,
}
