//! The files of a release, as the scripts in `release` make them from the built program.
//!
//! Touches temporary folders and processes. Nothing is installed on this machine.

mod bill;
mod package;
mod pushing;
mod registry;
mod root;
mod signing;
