//! Kubernetes outside the election: how the API server is reached, and what manifests need.
//!
//! Start with [`connection`]. [`container`] and [`rbac`] are the sidecar and its rights as objects.

mod client;
mod connect_error;
pub mod connection;
pub mod container;
mod credentials;
pub mod rbac;
