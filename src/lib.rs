//! The sidecar: everything of Baton that touches the world.
//!
//! `main` parses the command line and calls [`supervisor`], which owns every task. The [`driver`] runs one machine of
//! [`baton_election`] over a [`store`] and publishes where it stands; [`http`] answers from that.
//!
//! ```text
//!  main ─► supervisor ─► driver ─► baton_election: record or queue ─► claim
//!               │           │  performs requests
//!               │           └──► store: kubernetes, zookeeper, file
//!               ├─► http ──────┐
//!               ├─► telemetry ─┼──► driver::leadership: promise(now), the only way to an answer
//!               └─► watchdog ──┘
//! ```
//!
//! `ARCHITECTURE.md` says what may touch what, and where a new store, endpoint, or command goes.

pub mod cli;
pub mod config;
pub mod driver;
pub mod error_chain;
pub mod health;
pub mod http;
pub mod kubernetes;
pub mod process;
pub mod resignation;
pub mod store;
pub mod supervisor;
pub mod telemetry;
