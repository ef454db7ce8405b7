//! The ZooKeeper election: candidates stand in line by ephemeral sequential znodes, and the first of them leads.
//!
//! Pure. The words between machine and store stand in [`words`], with what a store owes the machine.

pub mod words;
