//! Deterministic simulation of the election machines that ship.
//!
//! Pure except for [`hunt`], which runs simulations on threads and measures how long they take.
//! Start with [`world`], which runs a [`scenario`] and reports every event at true time to an
//! observer. [`faults`] draws scenarios from seeds, and the checkers evaluate every property at
//! each event.
#![forbid(unsafe_code)]

mod asker_names;
mod checkers;
pub mod clock;
mod edge;
pub mod ensemble;
mod event_queue;
pub mod faults;
pub mod hunt;
mod isolation;
pub mod json;
mod link;
pub mod live;
mod process;
pub mod record_store;
pub mod recording;
pub mod rng;
pub mod run;
mod runner;
pub mod scenario;
mod shrink;
pub mod store;
pub mod trace;
mod trace_hash;
mod trace_printer;
pub mod world;
