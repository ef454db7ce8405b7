//! Errors of a configuration.
//!
//! Pure. Start with [`ConfigError`]. Every message names the flag and ends with what to pass.

use crate::config::{EndpointError, PrefixError, RoutingError, StoreKind};
use baton_election::duration::Rounded;
use baton_election::identity::IdentityError;
use baton_election::queue::timing::SessionTooShort;
use baton_election::record::preference::PreferenceTooLong;
use baton_election::timing::{Durations, TimingError};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use zookeeper_client::servers::{PathError, ServersError};

/// An error of a configuration. `Display` is complete: no variant has a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no election.
    #[error("--election is missing: pass --election NAME or set BATON_ELECTION=NAME")]
    NoElection,
    /// The election's name is not a DNS-1123 subdomain.
    #[error(
        "election {0:?} is not a DNS-1123 subdomain: use at most 253 lower-case letters, digits, \
         '-', and '.', with a letter or digit at both ends of each part, for example \
         orders-billing"
    )]
    Election(String),
    /// There is no store, and no default outside a Pod.
    #[error(
        "--backend is missing, and only a Pod has a default: pass --backend lease, or --backend \
         zookeeper --zookeeper-servers HOST:PORT, or --backend etcd --etcd-endpoints URL, or \
         --backend file --directory DIR (for candidates on one machine)"
    )]
    NoStore,
    /// There is no such store.
    #[error("--backend {0:?} is unknown: use lease, zookeeper, etcd, or file")]
    UnknownStore(String),
    /// The file store has no directory.
    #[error("--backend file needs a directory: pass --directory DIR or set BATON_DIRECTORY=DIR")]
    NoDirectory,
    /// The record and the state of this process would share one lock.
    #[error(
        "--directory and --state-directory are both {0:?}, so this process would wait for its own \
         lock: choose another --state-directory"
    )]
    SharedDirectory(PathBuf),
    /// The ZooKeeper store has no servers.
    #[error(
        "--backend zookeeper needs servers: pass, for example, --zookeeper-servers \
         zk-0:2181,zk-1:2181,zk-2:2181 or set BATON_ZOOKEEPER_SERVERS"
    )]
    NoZooKeeperServers,
    /// The list of servers is invalid.
    #[error("--zookeeper-servers cannot be used: {0}")]
    ZooKeeperServers(ServersError),
    /// ZooKeeper would refuse the path.
    #[error("--zookeeper-path cannot be used: {0}")]
    ZooKeeperPath(PathError),
    /// The Pod's namespace is unknown.
    #[error(
        "the election's path needs the Pod's namespace: set POD_NAMESPACE (fieldRef \
         metadata.namespace) or pass --zookeeper-path PATH"
    )]
    NoZooKeeperPath,
    /// There is a certificate without its key, or a key without its certificate.
    #[error(
        "a client certificate needs its key: pass both --{store}-cert-file FILE and \
         --{store}-key-file FILE, or neither",
        store = .store.as_str()
    )]
    CertificateWithoutKey {
        /// The store.
        store: StoreKind,
    },
    /// There is a client certificate but no authority to check the servers' certificates.
    #[error(
        "TLS needs the certificate authority of the servers: pass --{store}-ca-file FILE",
        store = .store.as_str()
    )]
    NoCertificateAuthority {
        /// The store.
        store: StoreKind,
    },
    /// The etcd store has no endpoints.
    #[error(
        "--backend etcd needs endpoints: pass, for example, --etcd-endpoints \
         https://etcd-0:2379,https://etcd-1:2379,https://etcd-2:2379 or set BATON_ETCD_ENDPOINTS"
    )]
    NoEtcdEndpoints,
    /// The list of endpoints is invalid.
    #[error("--etcd-endpoints cannot be used: {0}")]
    EtcdEndpoints(EndpointError),
    /// The prefix of the keys is invalid.
    #[error("--etcd-prefix {0:?} cannot be used: {1}")]
    EtcdPrefix(String, PrefixError),
    /// The Pod's namespace is unknown.
    #[error(
        "the prefix of the election's keys needs the Pod's namespace: set POD_NAMESPACE (fieldRef \
         metadata.namespace) or pass --etcd-prefix PREFIX"
    )]
    NoEtcdPrefix,
    /// There are files for TLS but the endpoints do not use it.
    #[error(
        "--etcd-ca-file does nothing with http:// endpoints: write https:// in --etcd-endpoints, or \
         remove the flag"
    )]
    EtcdAuthorityWithoutTls,
    /// No server can have such a short tick.
    #[error(
        "--zookeeper-tick-time is less than 1ms: pass the tickTime of the servers' configuration, \
         for example 2s; a smaller value can let two candidates lead"
    )]
    TickTooShort,
    /// The durations do not fit ZooKeeper's sessions.
    #[error("{0}; these would pass: {1}")]
    Session(Box<SessionTooShort>, TimingFlags),
    /// The value is not a duration.
    #[error("--{flag} {text:?} is not a duration: write 15s, 500ms, or 1m30s, for example")]
    Duration {
        /// The flag.
        flag: &'static str,
        /// The value.
        text: String,
    },
    /// A Lease object cannot hold the duration.
    #[error(
        "--lease-duration {} is too long: a Lease object holds at most {}",
        Rounded::up(*.0),
        Rounded::down(crate::config::timing::MAX_LEASE_DURATION)
    )]
    LeaseTooLong(Duration),
    /// The value is not a percentage.
    #[error(
        "--max-clock-drift {0:?} is not a percentage below 100: write 10% or 0.5%, for example"
    )]
    Drift(String),
    /// The value is not an address.
    #[error(
        "--{flag} {text:?} is not an address to listen on: write localhost:4040, :4041, \
         127.0.0.1:4040, or [::1]:4040, for example"
    )]
    Address {
        /// The flag.
        flag: &'static str,
        /// The value.
        text: String,
    },
    /// The service account's name is not a DNS-1123 subdomain.
    #[error(
        "--service-account {0:?} is not a DNS-1123 subdomain: pass the serviceAccountName of the \
         Pods, for example orders"
    )]
    ServiceAccount(String),
    /// The namespace's name is not a DNS-1123 label.
    #[error(
        "--namespace {0:?} is not a DNS-1123 label: use at most 63 lower-case letters, digits, and \
         '-', for example sales"
    )]
    Namespace(String),
    /// The value is not one of the flag's words.
    #[error("--{flag} {text:?} is unknown: use one of {known}")]
    Word {
        /// The flag.
        flag: &'static str,
        /// The value.
        text: String,
        /// The words of the flag.
        known: &'static str,
    },
    /// The record cannot hold an identity with this prefix.
    #[error("identity prefix {prefix:?} cannot be used: {reason}: pass another --identity-prefix")]
    Identity {
        /// The prefix.
        prefix: String,
        /// The reason.
        reason: IdentityError,
    },
    /// A leader would resign between two requests of its application.
    #[error(
        "--require-polling {} is less than answer validity plus retry period, so a leader would \
         resign between two requests: pass --require-polling={}",
        Rounded::down(*.limit),
        Rounded::up(*.least)
    )]
    Polling {
        /// The value.
        limit: Duration,
        /// The least value that passes.
        least: Duration,
    },
    /// A withdrawal would end before its last promise expires.
    #[error(
        "--stopping-limit {} is less than answer validity plus retry period, so a withdrawal would \
         end before it has an effect: pass --stopping-limit={} or more, or leave it out for 10m",
        Rounded::down(*.limit),
        Rounded::up(*.least)
    )]
    StoppingLimit {
        /// The value.
        limit: Duration,
        /// The least value that passes.
        least: Duration,
    },
    /// There is no command.
    #[error("the command is empty: write it after --, as in baton exec --election NAME -- ./job")]
    NoCommand,
    /// A command that baton runs need not poll.
    #[error(
        "--require-polling does nothing for baton exec, which stops the command itself: remove the \
         flag and BATON_REQUIRE_POLLING"
    )]
    PolledCommand,
    /// The command runs only while its candidate leads, so nothing could answer before that.
    #[error(
        "--fit-url does not work with baton exec, because the command does not run before its \
         candidate leads: remove the flag and BATON_FIT_URL"
    )]
    CommandWithFitness,
    /// SIGTERM would come after SIGKILL.
    #[error(
        "--kill-after {} is too short: SIGKILL comes {} before the claim ends; pass \
         --kill-after={} or more",
        Rounded::nearest(*.kill_after),
        Rounded::up(*.least),
        Rounded::up(*.least)
    )]
    KillAfterTooShort {
        /// The value.
        kill_after: Duration,
        /// The least value that passes.
        least: Duration,
    },
    /// The command would be stopped before its claim could be renewed.
    #[error(
        "--kill-after {} leaves less than two retry periods to renew the claim: pass \
         --kill-after={} or less, or a longer --renew-deadline and --lease-duration",
        Rounded::nearest(*.kill_after),
        Rounded::down(*.most)
    )]
    KillAfterTooLong {
        /// The value.
        kill_after: Duration,
        /// The largest value that passes.
        most: Duration,
    },
    /// The value is not a niceness.
    #[error("--nice {0:?} is not a whole number from 0 to 19: write 5, for example")]
    Nice(String),
    /// A candidate would leave a free record to others for too long.
    #[error(
        "--stand-after {} is longer than the lease duration, so a takeover after a crash would \
         take more than two lease durations: pass --stand-after={} or less",
        Rounded::up(.0.stand_after),
        Rounded::down(.0.lease_duration)
    )]
    Preference(PreferenceTooLong),
    /// A queue has no preferences.
    #[error(
        "--stand-after does not work with --backend zookeeper: the first candidate in the queue \
         would keep all others from leading while it waits: remove --stand-after, or pass 0s"
    )]
    PreferenceInQueue,
    /// The URL is not one of this machine.
    #[error(
        "--fit-url {0:?} is not an http:// URL of this machine: use localhost, 127.0.0.1, or [::1], \
         for example --fit-url=http://localhost:8080/fit"
    )]
    FitUrl(String),
    /// The sidecar would ask itself.
    #[error(
        "--fit-url {url} is the address of --{flag}, so the sidecar would ask itself: pass a URL of \
         the application"
    )]
    FitUrlIsOurs {
        /// The URL.
        url: String,
        /// The flag of the listener.
        flag: &'static str,
    },
    /// Other flags about fitness have no effect without a URL.
    #[error(
        "--fit-period, --fit-timeout, and --fit-failures do nothing without --fit-url: remove them, \
         or pass, for example, --fit-url=http://localhost:8080/fit"
    )]
    NoFitUrl,
    /// The application would be asked too often.
    #[error(
        "--fit-period {} is too short: pass --fit-period={} or more",
        Rounded::down(*.period),
        Rounded::up(*.least)
    )]
    FitPeriod {
        /// The value.
        period: Duration,
        /// The least value that passes.
        least: Duration,
    },
    /// No answer could be complete in time, or two questions would overlap.
    #[error(
        "--fit-timeout {} is zero or longer than --fit-period: pass --fit-timeout={} or less, but \
         not zero",
        Rounded::nearest(*.timeout),
        Rounded::down(*.most)
    )]
    FitTimeout {
        /// The value.
        timeout: Duration,
        /// The largest value that passes.
        most: Duration,
    },
    /// The value is not a count.
    #[error(
        "--fit-failures {0:?} is not a number from 1 to 1000: pass --fit-failures=3, for example"
    )]
    FitFailures(String),
    /// The leader's addresses cannot be published.
    #[error("{0}")]
    Routing(RoutingError),
    /// The durations contradict each other.
    #[error("{0}; these would pass: {1}")]
    Timing(TimingError, TimingFlags),
}

/// Displays durations as flags to paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimingFlags(Box<Durations>);

impl TimingFlags {
    /// The flags for `durations`.
    pub fn new(durations: Durations) -> Self {
        Self(Box::new(durations))
    }
}

/// Rounds the lease duration up, which is always safe, and the others to whole milliseconds.
impl fmt::Display for TimingFlags {
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
