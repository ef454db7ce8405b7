//! The input of a simulation: candidates, network, store, and faults.
//!
//! Pure data. Start with [`Scenario`]. [`crate::faults`] draws scenarios from seeds, and the
//! shrinker simplifies them.

use crate::clock::{Moment, Rate};
use baton_election::record::preference::Preference;
use baton_election::timing::Timing;
use std::time::Duration;

/// Everything that determines a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// Seeds all random choices during the run, such as latencies.
    pub seed: u64,
    /// The candidates; their index identifies them.
    pub candidates: Vec<CandidateConfig>,
    /// The store that holds the election.
    pub store: StoreConfig,
    /// Whether leaders receive watch events too. With the file store they do not.
    pub leaders_watch: bool,
    /// The shortest and longest delivery time of a message without faults.
    pub latency: (Duration, Duration),
    /// The faults, ordered by start.
    pub faults: Vec<Fault>,
    /// When the run ends.
    pub end: Moment,
}

/// One candidate and the machine that it runs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CandidateConfig {
    /// Its durations.
    pub timing: Timing,
    /// The reading of its clock at the start of the run.
    pub clock_start: Duration,
    /// How fast its clock runs.
    pub clock_rate: Rate,
    /// When its process first starts.
    pub starts_at: Moment,
    /// Whether the process follows again after a loss of leadership instead of exiting.
    pub stays_on_loss: bool,
    /// Whether its application is declared to ask, so that an unfit leader releases the record.
    /// Always true if `stays_on_loss`.
    pub asks: bool,
    /// Whether it has a state directory, which proves to each run that the previous one has ended.
    pub keeps_state: bool,
    /// How often its application polls.
    pub poll_interval: Duration,
    /// How its application hears of changes without a poll.
    pub push: Push,
    /// How long it leaves a free record to others. Ignored over an ensemble.
    pub preference: Preference,
    /// The command that it runs while it leads, if any.
    pub command: Option<CommandConfig>,
}

/// The ways in which an application hears of a change without a poll.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Push {
    /// A request of the application always waits for the next change (`/leader?wait=`).
    pub has_waiter: bool,
    /// The process writes a status file (`--status-file`). Its application is declared to ask.
    pub has_file: bool,
}

/// The limits of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandConfig {
    /// The time between SIGTERM and the end of the claim (`--kill-after`).
    pub grace: Duration,
    /// How long it may take to stop on request (`--stop-timeout`).
    pub stop_timeout: Duration,
}

/// The store that holds the election.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreConfig {
    /// One record: a Lease or a file.
    Record(RecordConfig),
    /// A queue in ZooKeeper.
    Ensemble(EnsembleConfig),
}

/// The configuration of a ZooKeeper ensemble.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnsembleConfig {
    /// The reading of every server's clock at the start of the run.
    pub clock_start: Duration,
    /// How fast each server's clock runs; one server per entry.
    pub clock_rates: Vec<Rate>,
    /// The servers' real tick.
    pub tick: Duration,
    /// The tick that candidates are configured with. A value below `tick` breaks an assumption of
    /// exclusion.
    pub configured_tick: Duration,
    /// How many ticks a server tolerates the silence of another one (`syncLimit`).
    pub sync_limit: u32,
    /// The shortest and longest delivery time of a message between servers.
    pub latency: (Duration, Duration),
}

/// The configuration of a store of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordConfig {
    /// Whether the store rounds durations up to whole seconds, as a Lease does.
    pub whole_seconds: bool,
    /// Whether a write replaces only the version that it names. A store without this check breaks
    /// an assumption of exclusion.
    pub checks_version: bool,
    /// How versions are numbered.
    pub numbering: Numbering,
}

/// How a store of one record numbers its versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbering {
    /// Each change takes a number that never recurs, not even after a restore.
    Unique,
    /// Each change takes a revision, as in etcd: other keys take revisions too, and a restored store
    /// hands out the same ones again. Writes also compare the value, since a version may recur.
    Revisions {
        /// Seeds how many revisions other keys take.
        seed: u64,
    },
}

/// A fault and when it is active.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    /// When it starts.
    pub at: Moment,
    /// How long it lasts; zero for a single action.
    pub duration: Duration,
    /// The affected part, and the effect.
    pub kind: FaultKind,
}

/// The effect of a fault, by the part that it affects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FaultKind {
    /// Affects a candidate, its machine, or its link to the store.
    Candidate(CandidateTarget, CandidateFault),
    /// Affects the store.
    Store(StoreFault),
    /// Affects servers of the ensemble.
    Server(ServerTarget, ServerFault),
    /// Changes the record from outside the election.
    External(ExternalAction),
}

/// The candidate that a fault affects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CandidateTarget {
    /// The candidate with this index.
    Candidate(usize),
    /// The leader at the start of the fault, or the first candidate if there is none.
    Leader,
}

/// A fault of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CandidateFault {
    /// The process is suspended (SIGSTOP, a frozen cgroup, a suspended machine). Its clock keeps
    /// running.
    Pause,
    /// The process and its clock are suspended, as in a stopped virtual machine. Breaks an
    /// assumption of exclusion.
    Freeze,
    /// The process is suspended repeatedly, for up to this long, between reading its clock and
    /// acting on it.
    Stall(Duration),
    /// SIGKILL. The process restarts after the fault, unless its duration is zero.
    Crash,
    /// SIGTERM, a clean stop. The process restarts after the fault, unless its duration is zero.
    Stop,
    /// The preStop hook, then SIGTERM at the end of the fault. The process restarts soon after.
    PreStop,
    /// The application stops polling: the candidate resigns, and campaigns again after the fault.
    Unasked,
    /// The application is unfit. A process that exits after a loss keeps the record and exits; one
    /// that stays releases, and campaigns again after the fault.
    Unfit,
    /// An operator orders the leader to resign. The duration is the hold-off.
    Resign,
    /// `baton stopping` without a SIGTERM. The duration is its limit.
    Stopping,
    /// A worker of the application is done and voids its promises. A duplicate of its request
    /// arrives at the end of the fault.
    Done,
    /// Impairs messages between the candidate and the store.
    Link(LinkFault),
    /// No watch events arrive.
    WatchLoss,
    /// Watch events arrive up to this late, possibly after newer replies.
    WatchDelay(Duration),
    /// The clock runs at this rate from now on.
    ClockRate(Rate),
}

/// How often each impairment of a message occurs, in permille.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LinkFault {
    /// The request is lost.
    pub requests_lost: u16,
    /// The reply is lost.
    pub replies_lost: u16,
    /// The message is late by up to `max_delay`. It may arrive even after its connection is
    /// dropped.
    pub late: u16,
    /// The connection breaks, and the caller learns of that before its timeout. The request may
    /// still arrive.
    pub broken: u16,
    /// A proxy sends the request twice and forwards the second reply.
    pub duplicated: u16,
    /// The longest delay of a late message.
    pub max_delay: Duration,
}

/// A fault of the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoreFault {
    /// Rejects every request at once.
    Refuse,
    /// Does not answer. Requests that arrive are processed after the fault.
    Hang,
    /// Crashes repeatedly: each request may or may not be applied, and none is answered.
    CrashLoop,
    /// Delays each request by up to this long.
    Slow(Duration),
    /// Serves reads, and sometimes watch events, from an earlier state.
    StaleReads,
    /// Answers writes with the current record and does not apply them.
    IgnoreWrites,
    /// Shortens the lease of each write that acquires the record, as a mutating webhook may.
    ShortenLeases,
    /// Restores a backup that is this many changes old. Breaks an assumption of exclusion.
    Restore(usize),
}

/// The servers that a fault affects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerTarget {
    /// The server with this index.
    Server(usize),
    /// The leader of the ensemble.
    QuorumLeader,
    /// The server that the election's leader is connected to.
    OfElectionLeader,
    /// All servers from this index on. The majority may be lost even if the first few are spared.
    From(usize),
}

/// A fault of a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerFault {
    /// Partitioned from the other servers, but not from candidates.
    Partition,
    /// The server is suspended.
    Pause,
    /// The server crashes and restarts after the fault.
    Crash,
    /// Pings between this server and the ensemble's leader, and their answers, take this long.
    /// Exclusion assumes at most a quarter of a tick.
    SlowPings(Duration),
}

/// An action of another client on the record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExternalAction {
    /// Edits a label, which creates another version of the same record.
    EditLabel,
    /// Sends watch events that falsely report a deletion.
    FalseDeletionEvent,
    /// Creates a znode in the queue that no session owns.
    CreateStrayNode {
        /// Whether its name ends with the lowest sequence number.
        is_numbered: bool,
    },
    /// Deletes the record. Breaks an assumption of exclusion, as do the next three.
    Delete,
    /// Deletes the record and creates it again from a copy: another record with the same holder.
    Recreate,
    /// Removes the holder.
    ClearHolder,
    /// Writes a foreign holder into the record, with a lease of this duration.
    SetHolder(Duration),
    /// Closes the session of the candidate with this index, as any client with its id and password
    /// can. Breaks an assumption of exclusion if that candidate leads.
    CloseSession(usize),
}

impl Fault {
    /// When it ends.
    pub fn end(&self) -> Moment {
        self.at + self.duration
    }

    /// Whether it affects any of this many candidates.
    pub const fn affects_any_of(&self, candidates: usize) -> bool {
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
    /// Every message is lost.
    pub const PARTITION: Self = Self {
        requests_lost: 1_000,
        replies_lost: 1_000,
        late: 0,
        broken: 0,
        duplicated: 0,
        max_delay: Duration::ZERO,
    };
}
