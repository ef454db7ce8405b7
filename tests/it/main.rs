//! The only test crate: one link step, and this list says what belongs where.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the failure that it has to show")]
#![expect(clippy::disallowed_methods, reason = "a test measures the sidecar by clocks of its own")]

// Its `#[test]` takes the place of the prelude's: every case runs beneath `noise::case`.
#[macro_use]
extern crate test_attribute;

/// Tells a machine that stood still from a program that is broken.
#[path = "../support/noise/mod.rs"]
mod noise;

/// What no compiler holds: purity, owners, sizes, README's lists.
mod tidy;

/// Whatever is read from outside, as strange as it can be: the fuzzer's corpus.
mod outside;

/// The harness of everything below: real processes, a prober, one clock.
mod rig;

/// The built sidecar as a process, killed, paused, starved, filled up, restarted.
mod process;

/// The Lease backend, against a real API server.
mod lease;

/// The ZooKeeper backend, and its client, against real servers.
mod zookeeper;

/// What `make run` shows.
mod demo;

/// README's loops, run word for word.
mod snippets;

/// The endpoints of a running sidecar, on both listeners.
mod http;

/// Flags, environment, errors, exit codes, subcommands.
mod cli;

/// Charts and manifests, without a cluster.
mod charts;

/// The guides in `docs`.
mod docs;
