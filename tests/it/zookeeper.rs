//! The ZooKeeper backend, and the client that it stands on, against real servers and real ensembles.

mod candidates;
mod client;
mod contender;
mod faults;
mod local_sessions;
mod peers;
mod servers;
mod store;
