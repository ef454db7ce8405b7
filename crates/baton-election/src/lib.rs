//! Leader election as pure state machines.
#![forbid(unsafe_code)]

mod candidacy;
pub mod claim;
pub mod duration;
pub mod identity;
pub mod instant;
pub mod leadership;
pub mod machine;
pub mod queue;
pub mod record;
pub mod text;
pub mod timing;
pub mod transcript;
