//! The Lease backend, against a real API server with a real etcd.
//!
//! The stories of `process` again where the store makes a difference, and those that only an API server can tell. The
//! prober of the rig judges exclusion, tokens and silence as it does there.

mod altered;
mod conflicts;
mod contender;
mod credentials;
mod disk;
mod faults;
mod gateways;
mod handoff;
mod kubeconfig;
mod meter;
mod names;
mod outages;
mod peers;
mod poison;
mod reconnects;
mod requests;
mod rights;
mod strangers;
mod watches;
mod wires;
