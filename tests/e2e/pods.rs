//! Faults of Pods and containers. These cases leave the nodes alone and run in parallel.

mod alerts;
mod exec;
mod frozen;
mod handoff;
mod injected;
mod install;
mod killed;
mod rights;
mod termination;
mod two_elections;
mod zookeeper;
