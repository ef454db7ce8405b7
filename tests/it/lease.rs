//! The Kubernetes store, tested against a real API server with a real etcd.
//!
//! It repeats the scenarios of `process` where the store makes a difference, and adds those that
//! need an API server. The rig checks every history as it does there.

mod altered;
mod compat;
mod conflicts;
mod contender;
mod credentials;
mod disk;
mod doctor;
mod etcdctl;
mod events;
mod faults;
mod gateways;
mod handoff;
mod inventory;
mod kubeconfig;
mod meter;
mod names;
mod outages;
mod peers;
mod poison;
mod reconnects;
mod requests;
mod rights;
mod routing;
mod strangers;
mod watches;
mod wires;
