//! The interface of simulated stores.
//!
//! Pure. Start with [`Store`]. A store processes requests in the order of their arrival. Outages,
//! delays, and stale reads are simulated by the [world](crate::world).

use crate::clock::Moment;
use crate::scenario::{CandidateConfig, ExternalAction, ServerFault, ServerTarget};
use crate::trace::Departure;
use crate::world::StoreView;
use baton_election::ended_run::EndedRun;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event as _};
use baton_election::timing::Jitter;
use std::fmt;
use std::time::Duration;

/// A store that can hold an election.
pub trait Store: fmt::Debug {
    /// The machine that runs over this store.
    type Election: Election + Clone;

    /// The machine of one candidate.
    fn machine(&mut self, start: NewProcess<'_>) -> Self::Election;

    /// A candidate sends a request. Returns a number that arrives with it: that of its connection,
    /// or of the value that a write compares.
    fn on_send(&mut self, _from: usize, _request: &Request<Self>) -> u64 {
        0
    }

    /// Processes `request`. Returns the reply unless it comes later as an [`Effect`].
    fn perform(&mut self, arrival: Arrival, request: &Request<Self>) -> Option<Event<Self>>;

    /// The process of a candidate handles a reply or a watch event.
    fn on_handle(&mut self, _by: usize, _event: &Event<Self>) {}

    /// The reply to this call has arrived.
    fn on_reply(&mut self, _from: usize, _call: u64) {}

    /// Whether watch events on this connection still reach the candidate.
    fn is_connected(&self, _to: usize, _connection: u64) -> bool {
        true
    }

    /// When the next internal event is due.
    fn next_at(&self) -> Moment {
        Moment::NEVER
    }

    /// Processes the next internal event.
    fn step(&mut self, _now: Moment) {}

    /// Takes the next pending effect.
    fn next_effect(&mut self) -> Option<Effect<Self::Election>> {
        None
    }

    /// Starts a fault of servers and returns the index of the first affected one. `leader` is the
    /// candidate that leads.
    fn begin_server_fault(
        &mut self,
        _now: Moment,
        _target: ServerTarget,
        _leader: Option<usize>,
        _fault: ServerFault,
    ) -> usize {
        0
    }

    /// Ends a fault that affects `server` and, for some targets, servers after it.
    fn end_server_fault(
        &mut self,
        _now: Moment,
        _target: ServerTarget,
        _server: usize,
        _fault: ServerFault,
    ) {
    }

    /// The reply of a store that serves the state of `ago` changes ago and applies nothing.
    fn false_reply(&self, _request: &Request<Self>, _ago: usize) -> Event<Self> {
        Event::<Self>::UNKNOWN
    }

    /// The request after a component in front of the store has shortened its lease.
    fn shorten_lease(&self, request: &Request<Self>) -> Request<Self> {
        request.clone()
    }

    /// The watch event for the record as it was `ago` changes ago.
    fn watch_event(&self, _ago: usize) -> Option<Event<Self>> {
        None
    }

    /// A watch event that falsely reports a deletion.
    fn false_deletion_event(&self) -> Option<Event<Self>> {
        None
    }

    /// Applies an action of another client.
    fn apply_external_action(&mut self, now: Moment, action: ExternalAction);

    /// Returns to the state of `ago` changes ago, version numbers included.
    fn restore(&mut self, now: Moment, ago: usize);

    /// The number of changes that were sent to all watchers.
    fn changes(&self) -> u64;

    /// The holder, and how long others must wait before they may acquire the election.
    fn holder(&self) -> (Option<&Identity>, Duration);

    /// The content of the store.
    fn view(&self) -> StoreView;
}

/// The parameters of a new process.
#[derive(Debug)]
pub struct NewProcess<'a> {
    /// The number of its candidate.
    pub number: usize,
    /// Its candidate.
    pub candidate: &'a CandidateConfig,
    /// Its identity.
    pub identity: Identity,
    /// Its jitter.
    pub jitter: Jitter,
    /// When it begins to campaign.
    pub from: Instant,
    /// The previous run, if this process may release its record or session.
    pub ended_run: Option<EndedRun>,
}

type Request<S> = <<S as Store>::Election as Election>::Request;
type Event<S> = <<S as Store>::Election as Election>::Event;

/// The metadata of a request that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it arrives.
    pub now: Moment,
    /// The candidate that sent it.
    pub from: usize,
    /// The number of the call.
    pub call: u64,
    /// The number that [`Store::on_send`] returned.
    pub attached: u64,
}

/// An effect that a store has some time after a request, or without one.
#[derive(Clone, Debug)]
pub enum Effect<E: Election> {
    /// A reply to a call.
    Reply {
        /// The candidate that called.
        to: usize,
        /// The number of the call.
        call: u64,
        /// The reply.
        event: E::Event,
    },
    /// A watch event.
    WatchEvent {
        /// The candidate that watches.
        to: usize,
        /// The number of its connection.
        connection: u64,
        /// The event.
        event: E::Event,
    },
    /// A request was applied irrevocably.
    Performed {
        /// The candidate that sent it.
        from: usize,
        /// The request.
        request: E::Request,
        /// The reply, which may never be sent.
        event: E::Event,
    },
    /// The election has another holder.
    HolderChanged {
        /// The new holder.
        holder: Option<Identity>,
        /// Why the previous holder is gone, unless its session expired.
        departure: Option<Departure>,
    },
    /// The holder has begun another session, so it can no longer release this hold.
    SessionForgotten,
    /// Something happened that may affect candidates.
    Disturbed,
}
