//! Baton in a real cluster of three nodes: what an application team types, and what then happens.
//!
//! `make e2e` makes the cluster and runs these tests (`run.sh` says how). Each is one case in a namespace of its own; it
//! prints its whole timeline, be it passed or failed. `pods` leaves the nodes alone, so these cases run beside each
//! other; `nodes` takes nodes and the API server away, one case after another. `figures` measures, when it is asked for.
#![expect(clippy::disallowed_methods, reason = "a test measures the sidecar by clocks of its own")]

// Its `#[test]` takes the place of the prelude's: every case runs beneath `noise::case`.
#[macro_use]
extern crate test_attribute;

/// Tells a machine that stood still from a program that is broken.
#[path = "../support/noise/mod.rs"]
mod noise;

/// The harness of everything below: the cluster, a witness on each node, one clock.
mod rig;

/// The sidecar's image, as it is shipped.
mod image;

/// What is done to Pods and containers.
mod pods;

/// What is done to nodes, and to the API server.
mod nodes;

/// How long things take, and how much a sidecar uses.
mod figures;
