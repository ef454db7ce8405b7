//! What can be wrong with a configuration: each error names the thing, the cause, and what to write instead.
//!
//! Pure. A refusal ends in something that can be pasted.

use baton_election::duration::Rounded;
use baton_election::identity::IdentityError;
use baton_election::queue::timing::SessionTooShort;
use baton_election::timing::{Durations, TimingError};
use std::fmt;
use std::time::Duration;
use zookeeper_client::servers::{PathError, ServersError};

/// One thing that is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No election was named.
    #[error("no election is named: pass --election NAME or set BATON_ELECTION")]
    NoElection,
    /// The name cannot be a Lease's.
    #[error(
        "election {0:?} is not a DNS-1123 subdomain: use lower-case letters, digits, '-' and '.', at most 253 of them, \
         beginning and ending each part with a letter or digit, for example orders-billing"
    )]
    Election(String),
    /// No backend was named.
    #[error(
        "no backend is named, and this is no Pod: pass --backend lease, or --backend zookeeper --zookeeper-servers HOST:PORT, or \
         --backend file --directory DIR; file is never chosen silently, since every machine's copy would lead"
    )]
    NoBackend,
    /// No such backend.
    #[error("backend {0:?} is not known: it is one of lease, zookeeper, file")]
    Backend(String),
    /// The file backend without its directory.
    #[error("the file backend needs a directory: pass --directory DIR or set BATON_DIRECTORY")]
    NoDirectory,
    /// The ZooKeeper backend without its servers.
    #[error(
        "the ZooKeeper backend needs its servers: pass --zookeeper-servers zk-0:2181,zk-1:2181,zk-2:2181 or set \
         BATON_ZOOKEEPER_SERVERS"
    )]
    NoZooKeeperServers,
    /// Servers that cannot be understood.
    #[error("--zookeeper-servers cannot be used: {0}")]
    ZooKeeperServers(ServersError),
    /// A path that ZooKeeper would not take.
    #[error("--zookeeper-path cannot be used: {0}")]
    ZooKeeperPath(PathError),
    /// A Pod that does not know its namespace.
    #[error(
        "the path of the election needs the Pod's namespace: hand it in as POD_NAMESPACE (fieldRef metadata.namespace), or \
         pass --zookeeper-path"
    )]
    NoZooKeeperPath,
    /// A certificate without its key, or the reverse.
    #[error(
        "a certificate goes with its key: pass both --zookeeper-cert-file and --zookeeper-key-file, or neither"
    )]
    HalfACertificate,
    /// A certificate of ours, and nothing to judge the servers' by.
    #[error(
        "TLS needs an authority that the servers' certificates come from: pass --zookeeper-ca-file FILE"
    )]
    NoAuthority,
    /// A tick that no server can have.
    #[error(
        "--zookeeper-tick-time is shorter than a server's can be, 1ms: say the tickTime that stands in the servers' \
         configuration, for example 2s, because exclusion rests on it"
    )]
    NoTick,
    /// The durations do not go together with ZooKeeper's sessions.
    #[error("{0}; these would pass: {1}")]
    Session(Box<SessionTooShort>, Flags),
    /// Not a duration.
    #[error("--{flag} {text:?} is not a duration: write it like 15s, 500ms or 1m30s")]
    Duration {
        /// The flag.
        flag: &'static str,
        /// The value.
        text: String,
    },
    /// More seconds than a record can hold.
    #[error(
        "--lease-duration {} is too long: a Lease object holds at most {}",
        Rounded::up(*.0),
        Rounded::down(crate::config::LONGEST_LEASE)
    )]
    LeaseTooLong(Duration),
    /// Not a percentage.
    #[error("--max-clock-drift {0:?} is not a percentage below 100: write it like 10% or 0.5%")]
    Drift(String),
    /// Not an address to listen at.
    #[error(
        "--{flag} {text:?} is not an address to listen at: write it like localhost:4040, :4041, 127.0.0.1:4040 or \
         [::1]:4040"
    )]
    Address {
        /// The flag.
        flag: &'static str,
        /// What was typed.
        text: String,
    },
    /// A text that no service account can have as its name.
    #[error(
        "--service-account {0:?} is not a DNS-1123 subdomain: pass the name as the Pods' serviceAccountName has it, \
         for example orders"
    )]
    ServiceAccount(String),
    /// A text that no namespace can have as its name.
    #[error(
        "--namespace {0:?} is not a DNS-1123 label: use at most 63 lower-case letters, digits and '-', for example sales"
    )]
    Namespace(String),
    /// Not one of the words that a flag knows.
    #[error("--{flag} {text:?} is not known: it is one of {known}")]
    Word {
        /// The flag.
        flag: &'static str,
        /// What was typed.
        text: String,
        /// What could have been.
        known: &'static str,
    },
    /// The identity's prefix would spoil the record.
    #[error("identity prefix {prefix:?} cannot be used: choose another by --identity-prefix")]
    Identity {
        /// The prefix.
        prefix: String,
        /// What is wrong with it.
        source: IdentityError,
    },
    /// An application could not ask often enough.
    #[error(
        "--require-polling {} is too short: it must be at least the answer validity and the retry period together, {}, \
         or a leader gives up between two questions",
        Rounded::down(*.asked),
        Rounded::up(*.least)
    )]
    Polling {
        /// What was asked for.
        asked: Duration,
        /// What would pass.
        least: Duration,
    },
    /// The durations do not go together.
    #[error("{0}; these would pass: {1}")]
    Timing(TimingError, Flags),
}

/// Durations that pass, written as flags to be pasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flags(Box<Durations>);

impl Flags {
    /// These durations, to be pasted.
    pub fn new(durations: Durations) -> Self {
        Self(Box::new(durations))
    }
}

/// More of a lease duration is always safer; the others are suggested in whole milliseconds.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "--lease-duration={} --renew-deadline={} --retry-period={} --answer-validity={}",
            Rounded::up(self.0.lease_duration),
            Rounded::down(self.0.renew_deadline),
            Rounded::nearest(self.0.retry_period),
            Rounded::down(self.0.answer_validity)
        )
    }
}
