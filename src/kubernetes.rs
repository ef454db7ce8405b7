//! Kubernetes apart from the election: access to the API server, and the sidecar's manifests.
//!
//! Each module says what it touches. Start with [`api_server`]; [`container`] and [`rbac`] build
//! the sidecar's objects.

pub(crate) mod answer;
pub mod api_server;
mod api_server_error;
mod client;
pub mod container;
mod credentials;
pub mod endpoint_slice;
mod exec_plugin;
pub(crate) mod lease_event;
pub mod rbac;
mod tls;
