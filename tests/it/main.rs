//! Integration tests: a single crate, so that they are linked once.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests measure the sidecar with their own clocks")]

// Its `#[test]` shadows the prelude's, so that `noise::case` runs every case.
#[macro_use]
extern crate test_attribute;

/// Repeats failed cases when the machine, not the program, was at fault.
#[path = "../support/noise/mod.rs"]
mod noise;

/// Source rules that no compiler checks: ownership, module heads, file sizes.
mod tidy;

/// The fuzzers' corpus, replayed.
mod outside;

/// The harness of the tests below: real processes, a prober, one clock.
mod rig;

/// The sidecar as a process: killed, paused, starved, out of disk, restarted.
mod process;

/// The Kubernetes store, against a real API server.
mod lease;

/// The ZooKeeper store and its client, against real servers.
mod zookeeper;

/// The etcd store, against real members.
mod etcd;

/// Random faults against every store, for as long as you like.
mod torture;

/// The demonstration that `make run` starts.
mod demo;

/// The loops of a guide, run verbatim.
mod snippets;

/// The HTTP endpoints of a running sidecar, on both listeners.
mod http;

/// Flags, environment, errors, exit codes, subcommands.
mod cli;

/// Charts and manifests, rendered without a cluster.
mod charts;

/// The files of a release, installed and started.
mod artifacts;

/// The pages in `docs`.
mod docs;
