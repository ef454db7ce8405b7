//! The election machines that ship, in a simulated world.
//!
//! Pure but for [`hunt`], which runs worlds on threads and measures how long they take. Start with [`world`]: it runs
//! a [`scenario`] that [`faults`] drew from a seed, and tells an observer what happens on true time. [`checkers`] hold
//! every property that must be true.
#![forbid(unsafe_code)]

mod checkers;
pub mod clock;
mod edge;
pub mod ensemble;
mod event_queue;
pub mod faults;
pub mod hunt;
mod isolation;
mod link;
mod process;
pub mod rng;
pub mod scenario;
mod shrink;
pub mod store;
pub mod trace;
mod trace_hash;
mod trace_printer;
pub mod world;
