//! The ZooKeeper backend, and the client that it stands on, against real servers and real ensembles.

mod candidates;
mod client;
mod local_sessions;
mod servers;
mod store;
