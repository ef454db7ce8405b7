//! Baton: leader election beside your program.
//!
//! A backend turns a store that already agrees into a stream of [`claim`]s. A claim is the right to lead, with
//! a fencing token, until a deadline on our own clock; nothing here can lead without holding one, and every
//! claim ends by itself.
//!
//! ```text
//!  main ─► supervisor ─► backend::drive ─► election::{lease,zookeeper} ─► claim ─► clock::Instant
//!                  │           │  performs requests
//!                  │           └──► backend::{lease,zookeeper,file} ─► kube / zookeeper / files
//!                  ├─► http ─────┐
//!                  ├─► metrics ──┼──► claim: standing and promise(now), the only way to an answer
//!                  └─► watchdog ─┘
//! ```
//!
//! Start with [`claim`] (what leadership is), then [`election::lease`] (how it is won and lost). Those two, [`identity`] and
//! [`clock::Instant`] are pure and build alone with `--no-default-features`; the rest, behind the feature `sidecar`, does
//! the input and output. `ARCHITECTURE.md` says what may touch what, and which test holds it to that.

pub mod claim;
pub mod clock;
pub mod duration;
pub mod election;
pub mod identity;
#[cfg(feature = "sim")]
pub mod sim;
pub mod text;

#[cfg(feature = "sidecar")]
pub mod backend;
#[cfg(feature = "sidecar")]
mod blocking;
#[cfg(feature = "sidecar")]
pub mod build;
#[cfg(feature = "sidecar")]
pub mod cli;
#[cfg(feature = "sidecar")]
pub mod client;
#[cfg(feature = "sidecar")]
pub mod commands;
#[cfg(feature = "sidecar")]
pub mod config;
#[cfg(feature = "sidecar")]
pub mod exit;
#[cfg(feature = "sidecar")]
pub mod http;
#[cfg(feature = "sidecar")]
pub mod inject;
#[cfg(feature = "sidecar")]
pub mod lifecycle;
#[cfg(feature = "sidecar")]
pub mod listen;
#[cfg(feature = "sidecar")]
pub mod logging;
#[cfg(feature = "sidecar")]
pub mod metrics;
#[cfg(feature = "sidecar")]
pub mod preflight;
#[cfg(feature = "sidecar")]
pub mod private_folder;
#[cfg(feature = "sidecar")]
pub mod rbac;
#[cfg(feature = "sidecar")]
pub mod reply;
#[cfg(feature = "sidecar")]
pub mod report;
#[cfg(feature = "sidecar")]
pub mod resolver;
#[cfg(feature = "sidecar")]
pub mod server;
#[cfg(feature = "sidecar")]
pub mod shutdown;
#[cfg(feature = "sidecar")]
pub mod sidecar;
#[cfg(feature = "sidecar")]
pub mod supervisor;
#[cfg(feature = "sidecar")]
pub mod watchdog;
#[cfg(feature = "sidecar")]
pub mod zookeeper;
