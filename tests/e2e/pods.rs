//! What is done to Pods and containers. These cases leave the nodes alone, and run beside each other.

mod endings;
mod frozen;
mod handoff;
mod injected;
mod install;
mod killed;
mod rights;
mod two;
mod watched;
mod zookeeper;
