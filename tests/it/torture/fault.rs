//! The kinds of faults, and the stores and victims that each applies to.
//!
//! Pure. Start with [`Fault`].

use std::fmt;
use std::str::FromStr;

/// A store of the torture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Lease,
    ZooKeeper,
    Etcd,
    File,
}

/// The part of the arena that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// One candidate, its process or its link to the store.
    Candidate,
    /// The candidate that leads.
    Leader,
    /// One candidate that has a state directory.
    Remembering,
    /// The record of one election.
    Record,
    /// All candidates of all elections.
    Store,
}

/// Declares the faults, each with its name in a schedule.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $name:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Fault {
            $($(#[$doc])* $fault,)*
        }

        impl Fault {
            pub(super) const ALL: &[Self] = &[$(Self::$fault,)*];

            /// Its name in a schedule.
            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(Self::$fault => $name,)*
                }
            }
        }
    };
}

faults! {
    /// SIGKILL. The next run has another state directory.
    Kill = "kill",
    /// SIGKILL. The next run has the same state directory, and releases the record.
    Restart = "restart",
    /// SIGSTOP, then SIGCONT.
    Pause = "pause",
    /// The process is frozen in a cgroup, as `docker pause` does.
    Freeze = "freeze",
    /// A hundredth of a processor.
    Starve = "starve",
    /// SIGTERM.
    Terminate = "terminate",
    /// SIGINT.
    Interrupt = "interrupt",
    /// SIGHUP.
    HangUp = "hang-up",
    /// SIGTERM, and another one while it stops.
    TerminateTwice = "terminate-twice",
    /// `baton resign`.
    Resign = "resign",
    /// `baton stopping`, then SIGTERM.
    Stopping = "stopping",
    /// No descriptor can be opened.
    Descriptors = "descriptors",
    /// Neither requests nor replies arrive until the fault ends.
    Partition = "partition",
    /// Requests arrive when the fault ends: late writes.
    HoldRequests = "hold-requests",
    /// Replies arrive when the fault ends.
    HoldReplies = "hold-replies",
    /// Replies to applied requests are lost.
    LoseReplies = "lose-replies",
    /// Bytes arrive late in both directions.
    Delay = "delay",
    /// Each reply is cut in the middle, and its connection is closed.
    Truncate = "truncate",
    /// Each connection is closed at once.
    Refuse = "refuse",
    /// Open connections are closed once.
    Cut = "cut",
    /// Open connections are reset once.
    Reset = "reset",
    /// Open connections swallow everything, even their end.
    Blackhole = "blackhole",
    /// The store hangs.
    StorePaused = "store-paused",
    /// The store is killed, and starts again when the fault ends.
    StoreKilled = "store-killed",
    /// The store's disk is slow.
    SlowDisk = "slow-disk",
    /// The store's disk is full.
    FullDisk = "full-disk",
    /// The candidate's writes to the disk fail.
    DiskErrors = "disk-errors",
    /// The candidates' rights are revoked.
    Rights = "rights",
    /// A stranger labels the record, over and over.
    Label = "label",
    /// A stranger writes itself into the record as the holder.
    Usurp = "usurp",
    /// A stranger deletes the record.
    Delete = "delete",
}

impl Fault {
    /// The kinds that apply to a store.
    pub(super) fn of(backend: Backend) -> Vec<Self> {
        Self::ALL.iter().copied().filter(|fault| fault.applies_to(backend)).collect()
    }

    /// Whether a store can have it.
    pub(super) const fn applies_to(self, backend: Backend) -> bool {
        match self {
            Self::Kill
            | Self::Restart
            | Self::Pause
            | Self::Freeze
            | Self::Starve
            | Self::Terminate
            | Self::Interrupt
            | Self::HangUp
            | Self::Resign
            | Self::Stopping
            | Self::Descriptors
            | Self::StorePaused
            | Self::StoreKilled => true,
            // Files have no link; and their promises end before a second signal counts.
            Self::TerminateTwice
            | Self::Partition
            | Self::HoldRequests
            | Self::HoldReplies
            | Self::LoseReplies
            | Self::Delay
            | Self::Truncate
            | Self::Refuse
            | Self::Cut
            | Self::Reset
            | Self::Blackhole => match backend {
                Backend::Lease | Backend::ZooKeeper | Backend::Etcd => true,
                Backend::File => false,
            },
            Self::FullDisk | Self::DiskErrors => match backend {
                Backend::File => true,
                Backend::Lease | Backend::ZooKeeper | Backend::Etcd => false,
            },
            Self::Rights | Self::Label => match backend {
                Backend::Lease => true,
                Backend::ZooKeeper | Backend::Etcd | Backend::File => false,
            },
            // The deletion of a leader's znode hands over at once: docs/concepts/guarantees.md.
            Self::Delete => match backend {
                Backend::Lease | Backend::Etcd | Backend::File => true,
                Backend::ZooKeeper => false,
            },
            Self::Usurp => match backend {
                Backend::Lease | Backend::File => true,
                Backend::ZooKeeper | Backend::Etcd => false,
            },
            // strace slows the many threads of ZooKeeper's server by itself.
            Self::SlowDisk => match backend {
                Backend::Lease | Backend::Etcd | Backend::File => true,
                Backend::ZooKeeper => false,
            },
        }
    }

    /// Whether the fault can affect every program, so that a run can compare them. Peers have no
    /// endpoints and no state directory, their records differ, and the meaning of SIGHUP depends on
    /// the application.
    pub(super) const fn applies_to_any_program(self) -> bool {
        match self {
            Self::Kill
            | Self::Pause
            | Self::Freeze
            | Self::Starve
            | Self::Terminate
            | Self::Partition
            | Self::HoldRequests
            | Self::HoldReplies
            | Self::LoseReplies
            | Self::Delay
            | Self::Truncate
            | Self::Refuse
            | Self::Cut
            | Self::Reset
            | Self::Blackhole
            | Self::StorePaused
            | Self::StoreKilled
            | Self::SlowDisk => true,
            Self::Restart
            | Self::Interrupt
            | Self::HangUp
            | Self::TerminateTwice
            | Self::Resign
            | Self::Stopping
            | Self::Descriptors
            | Self::FullDisk
            | Self::DiskErrors
            | Self::Rights
            | Self::Label
            | Self::Usurp
            | Self::Delete => false,
        }
    }

    /// The part of the arena that it affects.
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::Kill
            | Self::Pause
            | Self::Freeze
            | Self::Starve
            | Self::Terminate
            | Self::Interrupt
            | Self::HangUp
            | Self::Stopping
            | Self::Descriptors
            | Self::Partition
            | Self::HoldRequests
            | Self::HoldReplies
            | Self::LoseReplies
            | Self::Delay
            | Self::Truncate
            | Self::Refuse
            | Self::Cut
            | Self::Reset
            | Self::Blackhole
            | Self::DiskErrors => Scope::Candidate,
            Self::TerminateTwice | Self::Resign => Scope::Leader,
            Self::Restart => Scope::Remembering,
            Self::Label | Self::Usurp | Self::Delete => Scope::Record,
            Self::StorePaused
            | Self::StoreKilled
            | Self::SlowDisk
            | Self::FullDisk
            | Self::Rights => Scope::Store,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|fault| fault.name() == text);
        found.copied().ok_or_else(|| format!("unknown fault: {text}"))
    }
}

mod tests {
    use super::{Backend, Fault};

    #[test]
    fn names_are_read_back() {
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(*fault));
        }
        assert_eq!("rain".parse::<Fault>(), Err("unknown fault: rain".to_owned()));
    }

    #[test]
    fn stores_over_a_network_have_24_kinds() {
        for backend in [Backend::Lease, Backend::ZooKeeper, Backend::Etcd] {
            assert!(Fault::of(backend).len() >= 24, "{backend:?}: {}", Fault::of(backend).len());
        }
    }
}
