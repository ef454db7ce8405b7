//! What is done to Pods and containers. These cases leave the nodes alone, and run beside each other.

mod handoff;
mod killed;
