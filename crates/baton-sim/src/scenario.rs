//! What a world is made of: its candidates, its network, its store, and what befalls them.
//!
//! Pure data. `storm.rs` draws a setup from a seed; a person or a shrinker may write one by hand.

use crate::clock::{Moment, Rate};
use baton_election::timing::Timing;
use std::time::Duration;

/// A world before it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// What chance unfolds from: latencies, and who wins where the setup leaves it open.
    pub seed: u64,
    /// The candidates.
    pub candidates: Vec<Candidate>,
    /// The store.
    pub store: StoreKind,
    /// Whether news of a change reach leaders too; a file's leader does without.
    pub tells_leaders: bool,
    /// The least and the most that a message takes while nothing is wrong.
    pub latency: (Duration, Duration),
    /// What happens, by when it begins.
    pub faults: Vec<Fault>,
    /// When the world ends.
    pub end: Moment,
}

/// One candidate, and the machine that it runs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its durations.
    pub timing: Timing,
    /// What its clock shows at the beginning.
    pub clock_shows: Duration,
    /// How fast that runs.
    pub clock_rate: Rate,
    /// When it is started first.
    pub starts: Moment,
    /// Whether it becomes a follower again when leadership is lost, instead of ending.
    pub stays: bool,
    /// How often its application asks.
    pub asks_every: Duration,
}

/// Where the election is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// In a record: a Lease, or a file.
    Record(RecordKind),
    /// In `ZooKeeper`.
    Ensemble(EnsembleKind),
}

/// What is particular to an ensemble.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnsembleKind {
    /// What its servers' clocks show at the beginning, and how fast each runs: one server for each.
    pub shows: Duration,
    /// How fast each server's clock runs.
    pub rates: Vec<Rate>,
    /// How fast they tick.
    pub tick: Duration,
    /// How fast candidates were told that they tick. Beyond what exclusion assumes where it is less than that.
    pub told_tick: Duration,
    /// How many ticks a server waits for another.
    pub sync_limit: u32,
    /// The least and the most that a message between servers takes.
    pub latency: (Duration, Duration),
}

/// What is particular to a store of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordKind {
    /// It knows durations in whole seconds only, rounded up, as a Lease does.
    pub whole_seconds: bool,
    /// It replaces the record over the version that a write names, and no other. A store that does not is beyond
    /// what exclusion assumes.
    pub compares: bool,
}

/// Something that happens, from `at` on and for as long as it `lasts`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    /// When it begins.
    pub at: Moment,
    /// How long it lasts; nothing for what happens at once.
    pub lasts: Duration,
    /// What it is.
    pub what: What,
}

/// What happens, and to whom.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum What {
    /// To a candidate, its machine or its link to the store.
    Candidate(Whom, Harm),
    /// To the store.
    Store(Outage),
    /// To a server of the ensemble.
    Server(Which, Mishap),
    /// To the record, by somebody who is no candidate.
    Stranger(Deed),
}

/// Whom a fault is meant for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Whom {
    /// The candidate of this number.
    Candidate(usize),
    /// Whoever leads when it begins; the first candidate if nobody does.
    Leader,
}

/// What can happen to a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Harm {
    /// The process stands still (SIGSTOP, a frozen cgroup, a suspended machine). Its clock goes on.
    Pause,
    /// The same, with a clock that does not count it: a virtual machine that was stopped. Beyond what exclusion assumes.
    Freeze,
    /// The process stands still again and again, up to so long between reading its clock and acting on it.
    Starve(Duration),
    /// SIGKILL; the process comes back after the fault, if it has a length.
    Kill,
    /// SIGTERM: a clean stop; the process comes back after the fault, if it has a length.
    Stop,
    /// The preStop hook, and SIGTERM after the fault; the process comes back a moment later.
    Leave,
    /// Nobody asks any more: gives leadership up, and campaigns again after the fault.
    Unasked,
    /// Messages between it and the store suffer.
    Link(Trouble),
    /// News do not reach it.
    Deaf,
    /// News reach it up to so much late, and past what replies have told it.
    Lag(Duration),
    /// Its clock runs at another rate; it stays so.
    Bend(Rate),
}

/// What becomes of messages, in cases of a thousand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Trouble {
    /// A request never arrives.
    pub requests_lost: u16,
    /// A reply never arrives.
    pub replies_lost: u16,
    /// A message arrives late, up to `longest`: a connection that was dropped may still deliver what it holds.
    pub late: u16,
    /// The connection breaks, which the caller hears of before its time-out; the request may arrive all the same.
    pub broken: u16,
    /// Somebody between sends the request twice, and passes on the second reply.
    pub twice: u16,
    /// How late is late.
    pub longest: Duration,
}

/// What can happen to the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outage {
    /// It refuses every request at once.
    Refuses,
    /// It does not answer; what arrives is done when the fault is over.
    Hangs,
    /// It does what it is asked, or does not, and answers nothing: it dies again and again.
    Dies,
    /// It takes up to so much longer for each request.
    Slow(Duration),
    /// Reads come from the past, and now and then the watch of whoever is shown that.
    Stale,
    /// Writes are answered with the record as it was, and not done.
    Idle,
    /// Something in front of the store, such as a mutating webhook, shortens the lease of each
    /// write that acquires the record.
    Shortens,
    /// It comes back from a backup that is so many changes old. Beyond what exclusion assumes.
    Restored(usize),
}

/// Which server of an ensemble.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Which {
    /// The one of this number.
    Server(usize),
    /// Whoever leads the ensemble.
    Leading,
    /// The one that the leading candidate is connected to.
    OfLeader,
    /// All from this number on: also where the first few are spared, no majority may be left.
    From(usize),
}

/// What can happen to a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mishap {
    /// It is cut off from the other servers, and not from candidates.
    Cut,
    /// It stands still.
    Still,
    /// It dies, and comes back after the fault.
    Down,
    /// Pings between it and the ensemble's leader, and their answers, take this long. Within what
    /// exclusion assumes up to a quarter of a tick.
    SlowPings(Duration),
}

/// What a stranger can do to the record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Deed {
    /// Edits a label: another version of the same record.
    Label,
    /// Makes watches say that the record may be gone, though it is not.
    Rumour,
    /// Leaves a znode in the line of an ensemble that no session owns, with a number or without.
    Litter {
        /// Whether its name ends with the first number of all.
        is_numbered: bool,
    },
    /// Deletes it. Beyond what exclusion assumes, as are the next three.
    Delete,
    /// Deletes it, and makes it anew from a copy: another record with the same holder.
    Remake,
    /// Removes the holder.
    Wipe,
    /// Puts himself in for so long.
    Seize(Duration),
}

impl Fault {
    /// When it is over.
    pub fn end(&self) -> Moment {
        self.at + self.lasts
    }

    /// Whether there is somebody whom it hits among so many candidates.
    pub const fn hits_one_of(&self, candidates: usize) -> bool {
        match self.what {
            What::Candidate(Whom::Candidate(candidate), _) => candidate < candidates,
            What::Candidate(Whom::Leader, _)
            | What::Store(_)
            | What::Server(..)
            | What::Stranger(_) => candidates > 0,
        }
    }
}

impl Trouble {
    /// Nothing comes through.
    pub const CUT: Self = Self {
        requests_lost: 1_000,
        replies_lost: 1_000,
        late: 0,
        broken: 0,
        twice: 0,
        longest: Duration::ZERO,
    };
}
