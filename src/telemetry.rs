//! Logs, metrics, and build information.
//!
//! Touches `prometheus` and `tracing`. Start with [`reporter`].

pub mod build;
pub mod command_reporter;
pub(crate) mod event_reporter;
pub mod logging;
pub mod metrics;
pub mod reporter;
pub(crate) mod routing_reporter;
