//! The sidecar: everything in Baton that does I/O, except the ZooKeeper client.
//!
//! `main` parses the command line and calls [`supervisor`], which owns every task. The [`driver`]
//! runs one state machine of [`baton_election`] over a [`store`] and publishes its state, from
//! which [`http`] answers.
//!
//! ```text
//!  main ─► supervisor ─► driver ─► baton_election: record or queue ─► claim
//!               │           │  performs requests
//!               │           └──► store: kubernetes, zookeeper, etcd, file
//!               ├─► http ──────┐
//!               ├─► telemetry ─┼──► driver::leadership: promise(now)
//!               └─► watchdog ──┘
//! ```
//!
//! `ARCHITECTURE.md` says what each module may touch and where a new store, endpoint, or command
//! goes.

pub mod cli;
pub mod compat;
pub mod config;
pub mod doctor;
pub mod driver;
pub mod error_chain;
pub mod exec;
pub mod fitness;
pub mod health;
pub mod http;
pub mod kubernetes;
pub mod lease_events;
pub mod observe;
pub mod process;
pub mod resignation;
pub mod routing;
pub mod status_file;
pub mod store;
pub mod supervisor;
pub mod telemetry;
