//! Random faults against real candidates over a real store, from a seed: `make torture`.
//!
//! ```text
//! seed ─► schedule ─► run: arena (candidates, links, server) ◄── injection
//!                      │      │ answers, ends
//!                      │      ▼
//!                      └──► watch: progress, calm     the rig: exclusion, tokens, silence
//! ```
//!
//! Each run has a server of its own and two elections of three candidates, which restart when they
//! end. Over files, the candidates of one election run a command. With `PEERS=1`, there is one
//! election of Baton and one of each peer of the store, and each fault affects all of them. Start
//! with `cases`.

mod arena;
mod cases;
mod fault;
mod figures;
mod injection;
mod peers;
pub(crate) mod record;
mod run;
mod schedule;
mod shrink;
mod spans;
mod stores;
mod tally;
mod terms;
mod watch;
