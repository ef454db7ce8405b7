//! The inputs of a process: timers, messages of the store and the guard, polls, and orders.
//!
//! Pure. Start with [`Input`].

use crate::runner::FromGuard;
use crate::trace::Worker;
use baton_election::machine::Election;
use baton_election::withdrawals::Order;

/// An input of a process.
#[derive(Clone, Debug)]
pub(crate) enum Input<E: Election> {
    /// A timer expired.
    Wake,
    /// The reply to a call, or `None` if the call ended without one.
    Reply { call: u64, event: Option<E::Event> },
    /// A watch event.
    WatchEvent(E::Event),
    /// A worker of the application polls: it asks whether its candidate leads.
    Query(Worker),
    /// This worker acts no more: its promises are void.
    Done(Worker),
    /// A signal, a hook, or an operator's order.
    Order(Order),
    /// The application polls again.
    AskedAgain,
    /// The application is fit again.
    FitAgain,
    /// The guard of its command sends a message.
    FromGuard(FromGuard),
}
