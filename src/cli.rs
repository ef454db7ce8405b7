//! The command line: subcommands, flags, and their environment variables.
//!
//! Touches the arguments and the environment, which no other module reads. [`crate::config`] checks
//! the values, so that one run reports every error. Start with [`Cli`].

pub mod commands;
mod compat;
mod documents;
mod environment;
mod etcd;
mod examples;
mod exec;
mod formats;
pub mod inject;
pub mod preflight;
pub mod query;
mod rbac;
pub mod reply;
mod routing;
mod spelling;
mod standing;
mod timeline;

pub use compat::{CompatError, LeaderElector, OlderSidecar, Translation};
pub use documents::{completions, man};
pub use environment::{Environment, UnknownVariable, unknown_variables};
pub use etcd::EtcdFlags;
pub use exec::{Exec, Guard, Trampoline};
pub use formats::{Observe, OutputFormat, Shell};
pub use inject::{Inject, RestartApplication};
pub use rbac::Rbac;
pub use routing::RoutingFlags;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use std::iter;
use std::path::PathBuf;

/// Leader election as a sidecar: at most one replica of your program acts at a time.
#[derive(Debug, Parser)]
#[command(
    name = "baton",
    version,
    args_conflicts_with_subcommands = true,
    after_help = examples::RUN
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Settings,
}

impl Cli {
    /// The subcommand; `baton` without one is `baton run`.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Run(self.run))
    }

    /// Parses the arguments of this process.
    pub fn read() -> Result<Command, clap::Error> {
        Self::try_parse().map(Self::into_command).map_err(with_better_suggestion)
    }
}

/// Suggests the nearest subcommand for a mistyped one, or none if none is similar: clap suggests
/// `version` for `resign`.
fn with_better_suggestion(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let commands = Cli::command();
    let nearest = spelling::nearest(typed, commands.get_subcommands().map(clap::Command::get_name));
    match nearest.map(str::to_owned) {
        Some(nearest) => {
            drop(error.insert(ContextKind::SuggestedSubcommand, ContextValue::String(nearest)));
        }
        None => drop(error.remove(ContextKind::SuggestedSubcommand)),
    }
    error
}

/// A subcommand with its flags.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take part in the election and tell the application whether it leads (the default)
    #[command(after_help = examples::RUN)]
    Run(Settings),
    /// Run a command only while this candidate leads
    ///
    /// The command starts with each term and has ended before the claim does: SIGTERM, then SIGKILL
    /// to every process that it started. Its exit code is that of baton, except after lost
    /// leadership, which gives 75.
    #[command(after_help = examples::EXEC)]
    Exec(Box<Exec>),
    /// Guard the command of one term (started by baton exec)
    #[command(hide = true)]
    Guard(Guard),
    /// Become the command of one term (started by the guard)
    #[command(hide = true)]
    Trampoline(Trampoline),
    /// Check the configuration: list every error, or draw the timing
    #[command(after_help = examples::CHECK_CONFIG)]
    CheckConfig(Settings),
    /// Check what a candidate needs: one line per check, with the remedy
    ///
    /// Checks the flags, the variables, the files, and the store. Changes nothing, and shows no
    /// secret.
    #[command(after_help = examples::DOCTOR)]
    Doctor(Box<Settings>),
    /// Ask the sidecar whether it leads
    #[command(after_help = examples::STATUS)]
    Status {
        /// A table for people, or the answer of /leader [default: text on a terminal, else json]
        #[arg(long, value_name = "FORMAT")]
        output: Option<OutputFormat>,
        /// The sidecar to query.
        #[command(flatten)]
        sidecar: Sidecar,
    },
    /// Follow the leader of an election, without being a candidate
    ///
    /// Prints a line now and after each change. Reads the store itself, and needs the rights to read
    /// and watch only.
    #[command(after_help = examples::OBSERVE, mut_args(formats::for_observer))]
    Observe(Box<Observe>),
    /// Query a probe of the sidecar, for images without a shell
    #[command(after_help = examples::PROBE)]
    Probe {
        /// Probe to query
        #[arg(value_name = "PROBE")]
        probe: Probe,
        /// The sidecar to query.
        #[command(flatten)]
        sidecar: Sidecar,
    },
    /// Stop promising leadership and wait until the last promise expires (for preStop)
    ///
    /// The sidecar then holds the election until it receives SIGTERM, and no candidate leads. Without
    /// SIGTERM, it leads again after --stopping-limit.
    #[command(after_help = examples::STOPPING)]
    Stopping(Sidecar),
    /// Hand the election over to another candidate
    ///
    /// The sidecar stops promising leadership, waits until the last promise expires, and releases
    /// the election. It campaigns again after the hold-off.
    #[command(after_help = examples::RESIGN)]
    Resign {
        /// How long not to campaign afterwards [default: twice the lease duration]
        #[arg(long, value_name = "DURATION")]
        hold_off: Option<String>,
        /// The sidecar to query.
        #[command(flatten)]
        sidecar: Sidecar,
    },
    /// Print the rights for an election: a Role and its binding, or commands for etcd
    #[command(after_help = examples::RBAC)]
    Rbac(Rbac),
    /// Add the sidecar to every labeled Pod template read from stdin
    #[command(after_help = examples::INJECT)]
    Inject(Inject),
    /// Copy this program to DIR/baton, for an init container of an image without it
    #[command(after_help = examples::INSTALL)]
    Install {
        /// Directory, for example a volume that the application's container mounts
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Run with the flags and variables of an older sidecar
    #[command(after_help = examples::COMPAT)]
    Compat {
        /// The older sidecar.
        #[command(subcommand)]
        sidecar: OlderSidecar,
    },
    /// Print a completion script for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// Shell to complete for
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Print a manual page in roff: of baton, or of one subcommand
    #[command(after_help = examples::MAN)]
    Man {
        /// Subcommand [default: the page of baton itself]
        #[arg(value_name = "SUBCOMMAND")]
        subcommand: Option<String>,
    },
    /// Print the version, revision, and compiler as JSON
    Version,
}

/// A probe of the sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Probe {
    /// The sidecar is healthy
    Healthz,
    /// The store has accepted the candidate
    Readyz,
    /// The candidate leads
    Leader,
}

impl Settings {
    /// Parses the flags of `baton run`, and the environment of this process.
    pub fn read_from(flags: &[String]) -> Result<Self, clap::Error> {
        let program = "baton".to_owned();
        Cli::try_parse_from(iter::once(&program).chain(flags)).map(|cli| cli.run)
    }
}

/// How to reach the sidecar.
#[derive(Debug, Args)]
pub struct Sidecar {
    /// Address of the sidecar [default: localhost:4040]
    #[arg(long, env = "BATON_LISTEN", value_name = "ADDR")]
    pub listen: Option<String>,
}

/// The flags of `run` and `check-config`, as typed.
#[derive(Debug, Default, Clone, Args)]
pub struct Settings {
    /// Name of the election, a DNS-1123 subdomain (required)
    #[arg(long, env = "BATON_ELECTION", value_name = "NAME", help_heading = "Election")]
    pub election: Option<String>,
    /// Store that holds the election: lease, zookeeper, etcd, file [default: lease in a Pod, else
    /// required]
    #[arg(long, env = "BATON_BACKEND", value_name = "BACKEND", help_heading = "Election")]
    pub backend: Option<String>,
    /// Directory of the file store, on a local file system
    #[arg(long, env = "BATON_DIRECTORY", value_name = "DIR", help_heading = "Election")]
    pub directory: Option<String>,
    /// Namespace of the Lease, and part of the path in ZooKeeper and of the prefix in etcd
    /// [default: the Pod's, else the context's]
    #[arg(long, env = "BATON_NAMESPACE", value_name = "NAME", help_heading = "Kubernetes")]
    pub namespace: Option<String>,
    /// Kubeconfig for the API server [default: the Pod's service account, else the file that
    /// kubectl uses]
    #[arg(long, env = "BATON_KUBECONFIG", value_name = "FILE", help_heading = "Kubernetes")]
    pub kubeconfig: Option<String>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, env = "BATON_CONTEXT", value_name = "NAME", help_heading = "Kubernetes")]
    pub context: Option<String>,
    /// Prefix of the candidate's identity [default: the Pod's name, else the host's]
    #[arg(long, env = "BATON_IDENTITY_PREFIX", value_name = "PREFIX", help_heading = "Election")]
    pub identity_prefix: Option<String>,
    /// Action on lost leadership: exit (with 75), stay (as a follower) [default: exit]
    #[arg(long, env = "BATON_ON_LOST", value_name = "ACTION", help_heading = "Election")]
    pub on_lost: Option<String>,
    /// Resign when the application has not polled for this long [default: never]
    #[arg(long, env = "BATON_REQUIRE_POLLING", value_name = "DURATION", help_heading = "Election")]
    pub require_polling: Option<String>,
    /// How long to leave a free record to preferred candidates, at most the lease duration; not
    /// with ZooKeeper [default: 0s]
    #[arg(long, env = "BATON_STAND_AFTER", value_name = "DURATION", help_heading = "Election")]
    pub stand_after: Option<String>,
    /// Lead only while this http:// URL of this machine answers 2xx [default: none]
    #[arg(long, env = "BATON_FIT_URL", value_name = "URL", help_heading = "Fitness")]
    pub fit_url: Option<String>,
    /// Time between two requests to the URL [default: 2s]
    #[arg(long, env = "BATON_FIT_PERIOD", value_name = "DURATION", help_heading = "Fitness")]
    pub fit_period: Option<String>,
    /// How long a complete answer of the URL may take [default: 1s, or the period if that is shorter]
    #[arg(long, env = "BATON_FIT_TIMEOUT", value_name = "DURATION", help_heading = "Fitness")]
    pub fit_timeout: Option<String>,
    /// Failures in a row that make a leader withdraw [default: 3]
    #[arg(long, env = "BATON_FIT_FAILURES", value_name = "COUNT", help_heading = "Fitness")]
    pub fit_failures: Option<String>,
    /// Longest withdrawal by baton stopping without a SIGTERM [default: 10m]
    #[arg(long, env = "BATON_STOPPING_LIMIT", value_name = "DURATION", help_heading = "Election")]
    pub stopping_limit: Option<String>,
    /// File for the answer, which expires by itself [default: none]
    #[arg(long, env = "BATON_STATUS_FILE", value_name = "FILE", help_heading = "Election")]
    pub status_file: Option<String>,
    /// Directory that saves the last run, so that the next one can release its record [default: none]
    #[arg(long, env = "BATON_STATE_DIRECTORY", value_name = "DIR", help_heading = "Election")]
    pub state_directory: Option<String>,

    /// Servers, in ZooKeeper's format: host:port,host:port/chroot
    #[arg(
        long,
        env = "BATON_ZOOKEEPER_SERVERS",
        value_name = "SERVERS",
        help_heading = "ZooKeeper"
    )]
    pub zookeeper_servers: Option<String>,
    /// Path of the election [default: /baton/NAMESPACE/ELECTION, outside a Pod /baton/ELECTION]
    #[arg(long, env = "BATON_ZOOKEEPER_PATH", value_name = "PATH", help_heading = "ZooKeeper")]
    pub zookeeper_path: Option<String>,
    /// Largest tickTime of the servers [default: 2s]
    #[arg(
        long,
        env = "BATON_ZOOKEEPER_TICK_TIME",
        value_name = "DURATION",
        help_heading = "ZooKeeper"
    )]
    pub zookeeper_tick_time: Option<String>,
    /// Credentials, one scheme:credentials per line (sasl:user:password for SASL DIGEST-MD5)
    #[arg(
        long,
        env = "BATON_ZOOKEEPER_AUTH_FILE",
        value_name = "FILE",
        help_heading = "ZooKeeper"
    )]
    pub zookeeper_auth_file: Option<String>,
    /// CA certificates of the servers, in PEM; turns on TLS
    #[arg(long, env = "BATON_ZOOKEEPER_CA_FILE", value_name = "FILE", help_heading = "ZooKeeper")]
    pub zookeeper_ca_file: Option<String>,
    /// Client certificate, in PEM
    #[arg(
        long,
        env = "BATON_ZOOKEEPER_CERT_FILE",
        value_name = "FILE",
        help_heading = "ZooKeeper"
    )]
    pub zookeeper_cert_file: Option<String>,
    /// Key of the client certificate, in PEM
    #[arg(long, env = "BATON_ZOOKEEPER_KEY_FILE", value_name = "FILE", help_heading = "ZooKeeper")]
    pub zookeeper_key_file: Option<String>,

    /// Record "became leader" and "stopped leading" as Events of the Lease: true, false [default:
    /// false]
    #[arg(long, env = "BATON_LEASE_EVENTS", value_name = "BOOL", help_heading = "Kubernetes")]
    pub lease_events: Option<String>,

    /// The flags for etcd.
    #[command(flatten)]
    pub etcd: EtcdFlags,

    /// The flags for routing.
    #[command(flatten)]
    pub routing: RoutingFlags,

    /// How long the record must stay unchanged before others acquire it; the session timeout in
    /// ZooKeeper [default: 15s]
    #[arg(long, env = "BATON_LEASE_DURATION", value_name = "DURATION", help_heading = "Timing")]
    pub lease_duration: Option<String>,
    /// How long a leader leads without an acknowledged renewal [default: 10s]
    #[arg(long, env = "BATON_RENEW_DEADLINE", value_name = "DURATION", help_heading = "Timing")]
    pub renew_deadline: Option<String>,
    /// Time between two renewals [default: 2s]
    #[arg(long, env = "BATON_RETRY_PERIOD", value_name = "DURATION", help_heading = "Timing")]
    pub retry_period: Option<String>,
    /// How much the rates of two nodes' clocks may differ [default: 10%]
    #[arg(long, env = "BATON_MAX_CLOCK_DRIFT", value_name = "PERCENT", help_heading = "Timing")]
    pub max_clock_drift: Option<String>,
    /// How long an answer "leading" is good for [default: the retry period]
    #[arg(long, env = "BATON_ANSWER_VALIDITY", value_name = "DURATION", help_heading = "Timing")]
    pub answer_validity: Option<String>,

    /// Address for the application [default: localhost:4040]
    #[arg(long, env = "BATON_LISTEN", value_name = "ADDR", help_heading = "HTTP")]
    pub listen: Option<String>,
    /// Address for kubelet and Prometheus, or none [default: :4041]
    #[arg(long, env = "BATON_PROBE_LISTEN", value_name = "ADDR", help_heading = "HTTP")]
    pub probe_listen: Option<String>,

    /// Format of the log on standard error: text, json [default: text on a terminal, else json]
    #[arg(long, env = "BATON_LOG_FORMAT", value_name = "FORMAT", help_heading = "Logging")]
    pub log_format: Option<String>,
    /// Log level: error, warn, info, debug, trace [default: info]
    #[arg(long, env = "BATON_LOG_LEVEL", value_name = "LEVEL", help_heading = "Logging")]
    pub log_level: Option<String>,
}
