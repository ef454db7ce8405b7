//! The lab: live runs of the election machines that ship, for a page to show and to break.
//!
//! Pure. Start with [`lab::Lab::call`]: a line of text in, JSON out. `wasm/` exports it to a page,
//! and `page/` is that page.
//!
//! ```text
//!  page/*.js ──► wasm/lib.rs ──► Lab ──► LiveRun (baton-sim) ──► machines (baton-election)
//!   a line        bytes           │       run to a moment, records
//!                                 ├─► scenarios, actions, the fenced resource
//!                                 └─► classics (baton-classics): whole runs
//! ```

pub mod action;
mod classics;
mod faults;
pub mod lab;
pub mod resource;
pub mod scenarios;
mod view;
