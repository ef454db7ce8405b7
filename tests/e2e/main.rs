//! Cluster tests: Baton on a kind cluster of three nodes, installed with the commands that users
//! type.
//!
//! `make e2e` creates the cluster and runs these tests with `run.sh`. Each test is one case with
//! its own namespace, and prints its timeline whether it passes or fails. Start with [`rig::Case`].
#![expect(clippy::disallowed_methods, reason = "a test measures the sidecar by clocks of its own")]

// Its `#[test]` replaces the prelude's: every case runs under `noise::case`.
#[macro_use]
extern crate test_attribute;

/// Distinguishes failures of a stalled machine from failures of the program.
#[path = "../support/noise/mod.rs"]
mod noise;

/// The harness: the cluster, a witness on each node, and one clock.
mod rig;

/// The sidecar's image.
mod image;

/// Faults of Pods and containers. These cases leave the nodes alone and run in parallel.
mod pods;

/// Faults of nodes and of the API server. These cases run one after another.
mod nodes;

/// Measurements. They run only by name.
mod figures;
