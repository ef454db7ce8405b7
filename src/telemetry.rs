//! What the process tells people and machines about itself: metrics, log lines, its build.
//!
//! Touches `prometheus` and `tracing`. Start with [`reporter`], where what happened becomes both.

pub mod build;
pub mod logging;
pub mod metrics;
pub mod reporter;
