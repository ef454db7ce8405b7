//! FaultKind a world is made of: its candidates, its network, its store, and what befalls them.
//!
//! Pure data. `storm.rs` draws a scenario from a seed; a person or a shrinker may write one by hand.

use crate::clock::{Moment, Rate};
use baton_election::timing::Timing;
use std::time::Duration;

/// A world before it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// FaultKind rng unfolds from: latencies, and who wins where the scenario leaves it open.
    pub seed: u64,
    /// The candidates.
    pub candidates: Vec<Candidate>,
    /// The store.
    pub store: StoreConfig,
    /// Whether news of a change reach leaders too; a file's leader does without.
    pub leaders_watch: bool,
    /// The least and the most that a message takes while nothing is wrong.
    pub latency: (Duration, Duration),
    /// FaultKind happens, by when it begins.
    pub faults: Vec<Fault>,
    /// When the world ends.
    pub end: Moment,
}

/// One candidate, and the machine that it runs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its durations.
    pub timing: Timing,
    /// FaultKind its clock clock_start at the beginning.
    pub clock_start: Duration,
    /// How fast that runs.
    pub clock_rate: Rate,
    /// When it is started first.
    pub starts_at: Moment,
    /// Whether it becomes a follower again when leadership is lost, instead of ending.
    pub stays_on_loss: bool,
    /// How often its application asks.
    pub poll_interval: Duration,
}

/// Where the election is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreConfig {
    /// In a record: a Lease, or a file.
    Record(RecordConfig),
    /// In `ZooKeeper`.
    Ensemble(EnsembleConfig),
}

/// FaultKind is particular to an ensemble.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnsembleConfig {
    /// FaultKind its servers' clocks show at the beginning, and how fast each runs: one server for each.
    pub clock_start: Duration,
    /// How fast each server's clock runs.
    pub clock_rates: Vec<Rate>,
    /// How fast they tick.
    pub tick: Duration,
    /// How fast candidates were told that they tick. Beyond what exclusion assumes where it is less than that.
    pub configured_tick: Duration,
    /// How many ticks a server waits for another.
    pub sync_limit: u32,
    /// The least and the most that a message between servers takes.
    pub latency: (Duration, Duration),
}

/// FaultKind is particular to a store of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordConfig {
    /// It knows durations in whole seconds only, rounded up, as a Lease does.
    pub whole_seconds: bool,
    /// It replaces the record over the version that a write names, and no other. A store that does not is beyond
    /// what exclusion assumes.
    pub checks_version: bool,
}

/// Something that happens, from `at` on and for as long as it `duration`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    /// When it begins.
    pub at: Moment,
    /// How long it duration; nothing for what happens at once.
    pub duration: Duration,
    /// FaultKind it is.
    pub kind: FaultKind,
}

/// FaultKind happens, and to whom.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FaultKind {
    /// To a candidate, its machine or its link to the store.
    Candidate(CandidateTarget, CandidateFault),
    /// To the store.
    Store(StoreFault),
    /// To a server of the ensemble.
    Server(ServerTarget, ServerFault),
    /// To the record, by somebody who is no candidate.
    External(ExternalAction),
}

/// CandidateTarget a fault is meant for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CandidateTarget {
    /// The candidate of this number.
    Candidate(usize),
    /// Whoever leads when it begins; the first candidate if nobody does.
    Leader,
}

/// FaultKind can happen to a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CandidateFault {
    /// The process stands still (SIGSTOP, a frozen cgroup, a suspended machine). Its clock goes on.
    Pause,
    /// The same, with a clock that does not count it: a virtual machine that was stopped. Beyond what exclusion assumes.
    Freeze,
    /// The process stands still again and again, up to so long between reading its clock and acting on it.
    Stall(Duration),
    /// SIGKILL; the process comes back after the fault, if it has a length.
    Crash,
    /// SIGTERM: a clean stop; the process comes back after the fault, if it has a length.
    Stop,
    /// The preStop hook, and SIGTERM after the fault; the process comes back a moment later.
    PreStop,
    /// Nobody asks any more: gives leadership up, and campaigns again after the fault.
    Unasked,
    /// Messages between it and the store suffer.
    Link(LinkFault),
    /// News do not reach it.
    WatchLoss,
    /// News reach it up to so much late, and past what replies have told it.
    WatchDelay(Duration),
    /// Its clock runs at another rate; it stays_on_loss so.
    ClockRate(Rate),
}

/// FaultKind becomes of messages, in cases of a thousand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LinkFault {
    /// A request never arrives.
    pub requests_lost: u16,
    /// A reply never arrives.
    pub replies_lost: u16,
    /// A message arrives late, up to `max_delay`: a connection that was dropped may still deliver what it holds.
    pub late: u16,
    /// The connection breaks, which the caller hears of before its time-out; the request may arrive all the same.
    pub broken: u16,
    /// Somebody between sends the request duplicated, and passes on the second reply.
    pub duplicated: u16,
    /// How late is late.
    pub max_delay: Duration,
}

/// FaultKind can happen to the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoreFault {
    /// It refuses every request at once.
    Refuse,
    /// It does not answer; what arrives is done when the fault is over.
    Hang,
    /// It does what it is asked, or does not, and answers nothing: it dies again and again.
    CrashLoop,
    /// It takes up to so much longer for each request.
    Slow(Duration),
    /// Reads come from the past, and now and then the watch of whoever is shown that.
    StaleReads,
    /// Writes are answered with the record as it was, and not done.
    IgnoreWrites,
    /// Something in front of the store, such as a mutating webhook, shortens the lease of each
    /// write that acquires the record.
    ShortenLeases,
    /// It comes back from a backup that is so many changes old. Beyond what exclusion assumes.
    Restore(usize),
}

/// ServerTarget server of an ensemble.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerTarget {
    /// The one of this number.
    Server(usize),
    /// Whoever leads the ensemble.
    QuorumLeader,
    /// The one that the leading candidate is connected to.
    OfElectionLeader,
    /// All from this number on: also where the first few are spared, no majority may be left.
    From(usize),
}

/// FaultKind can happen to a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerFault {
    /// It is cut off from the other servers, and not from candidates.
    Partition,
    /// It stands still.
    Pause,
    /// It dies, and comes back after the fault.
    Crash,
    /// Pings between it and the ensemble's leader, and their answers, take this long. Within what
    /// exclusion assumes up to a quarter of a tick.
    SlowPings(Duration),
}

/// FaultKind a stranger can do to the record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExternalAction {
    /// Edits a label: another version of the same record.
    EditLabel,
    /// Makes watches say that the record may be gone, though it is not.
    FalseDeletionEvent,
    /// Leaves a znode in the line of an ensemble that no session owns, with a number or without.
    CreateStrayNode {
        /// Whether its name ends with the first number of all.
        is_numbered: bool,
    },
    /// Deletes it. Beyond what exclusion assumes, as are the next three.
    Delete,
    /// Deletes it, and makes it anew from a copy: another record with the same holder.
    Recreate,
    /// Removes the holder.
    ClearHolder,
    /// Puts himself in for so long.
    SetHolder(Duration),
}

impl Fault {
    /// When it is over.
    pub fn end(&self) -> Moment {
        self.at + self.duration
    }

    /// Whether there is somebody whom it hits among so many candidates.
    pub const fn hits_one_of(&self, candidates: usize) -> bool {
        match self.kind {
            FaultKind::Candidate(CandidateTarget::Candidate(candidate), _) => {
                candidate < candidates
            }
            FaultKind::Candidate(CandidateTarget::Leader, _)
            | FaultKind::Store(_)
            | FaultKind::Server(..)
            | FaultKind::External(_) => candidates > 0,
        }
    }
}

impl LinkFault {
    /// Nothing comes through.
    pub const PARTITION: Self = Self {
        requests_lost: 1_000,
        replies_lost: 1_000,
        late: 0,
        broken: 0,
        duplicated: 0,
        max_delay: Duration::ZERO,
    };
}
