//! What was typed: flags, their environment variables, and what the surroundings say.
//!
//! Touches arguments and environment, and nothing else does. It does not judge: `config.rs` says what the words
//! mean, so that every mistake is named at once and not only the first.

pub mod commands;
pub mod inject;
pub mod preflight;
pub mod query;
pub mod reply;
mod spelling;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use std::collections::BTreeSet;

/// Leader election beside your program: one of several copies acts, and the handoff stays clean.
#[derive(Debug, Parser)]
#[command(name = "baton", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Settings,
}

impl Cli {
    /// What is to be done; `baton` alone is `baton run`.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Run(self.run))
    }

    /// Parses the arguments into a command, or says what is wrong with them.
    pub fn read() -> Result<Command, clap::Error> {
        Self::try_parse().map(Self::into_command).map_err(without_far_suggestions)
    }
}

/// Removes clap's suggestion if the typed subcommand resembles none: clap suggests `version` for
/// `resign`.
fn without_far_suggestions(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let commands = Cli::command();
    let near = spelling::nearest(typed, commands.get_subcommands().map(clap::Command::get_name));
    match near.map(str::to_owned) {
        Some(near) => {
            drop(error.insert(ContextKind::SuggestedSubcommand, ContextValue::String(near)));
        }
        None => drop(error.remove(ContextKind::SuggestedSubcommand)),
    }
    error
}

const INJECT_EXAMPLES: &str = "Examples:
  kustomize build . | baton inject --strict | kubectl apply --filename -
  baton inject --restart-application never < deployment.yaml

A Pod template gets the sidecar if it has the label baton/inject: enabled and the annotation
baton/election: NAME. A summary goes to standard error.";

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take part in the election, and tell the application whether it leads (the default)
    Run(Settings),
    /// Name every error of the configuration, or draw its timing
    CheckConfig(Settings),
    /// Ask the sidecar whether it leads: 0 leading, 1 not, 69 no answer or not Baton
    Status(Sidecar),
    /// Ask the sidecar one of its probes, for images without a shell: 0 yes, 1 no, 69 no answer or
    /// not Baton
    Probe {
        /// What to ask
        what: Probe,
        /// Whom to ask
        #[command(flatten)]
        sidecar: Sidecar,
    },
    /// Stop promising leadership and wait until the last promise expires (for preStop)
    ///
    /// The sidecar then holds the election until it receives SIGTERM, and no candidate leads.
    Stopping(Sidecar),
    /// Print the Role and its binding for an election on Kubernetes
    Rbac(Rbac),
    /// Add the sidecar to every labelled Pod template read from standard input
    #[command(after_help = INJECT_EXAMPLES)]
    Inject(Inject),
    /// Print version, revision and compiler as JSON
    Version,
}

/// What `baton probe` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Probe {
    /// Is the process well?
    Healthz,
    /// Has it heard from the store?
    Readyz,
    /// Does it lead?
    Leader,
}

/// Where the sidecar listens.
#[derive(Debug, Args)]
pub struct Sidecar {
    /// The address at which the sidecar listens for its application [default: localhost:4040]
    #[arg(long, env = "BATON_LISTEN", value_name = "ADDR")]
    pub listen: Option<String>,
}

/// What `baton rbac` prints for.
#[derive(Debug, Clone, Args)]
pub struct Rbac {
    /// The election's name
    #[arg(long, env = "BATON_ELECTION", value_name = "NAME")]
    pub election: String,
    /// The service account that the Pods run under
    #[arg(long, value_name = "NAME")]
    pub service_account: String,
    /// The namespace of Lease, Role and service account [default: none written]
    #[arg(long, env = "BATON_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,
}

/// What `baton inject` gives to Pods.
#[derive(Debug, Clone, Args)]
pub struct Inject {
    /// The sidecar's image
    #[arg(long, value_name = "IMAGE", default_value = concat!("localhost/baton:", env!("CARGO_PKG_VERSION")))]
    pub image: String,
    /// Whether to restart all containers of a Pod that lost leadership, from Kubernetes 1.36 on
    #[arg(long, value_enum, default_value_t = RestartApplication::Always)]
    pub restart_application: RestartApplication,
    /// Prefix of the label and annotations: PREFIX/inject, PREFIX/election, PREFIX/config.FLAG
    #[arg(long, default_value = "baton")]
    pub prefix: String,
    /// Print nothing and exit with 2 if a template looks as if it was meant to get a sidecar and
    /// gets none
    #[arg(long)]
    pub strict: bool,
}

/// What moves an application that lost leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RestartApplication {
    /// Restart all containers of the Pod
    Always,
    /// Restart nothing: the application stops because it asks
    Never,
}

/// Every flag of `run`, as typed.
#[derive(Debug, Default, Clone, Args)]
pub struct Settings {
    /// The election's name, a DNS-1123 subdomain
    #[arg(long, env = "BATON_ELECTION", value_name = "NAME", help_heading = "Election")]
    pub election: Option<String>,
    /// Where the election is held: lease, zookeeper, file [default: lease in a Pod, else it must be said]
    #[arg(long, env = "BATON_BACKEND", value_name = "BACKEND", help_heading = "Election")]
    pub backend: Option<String>,
    /// The directory of the file backend, on a local file system
    #[arg(long, env = "BATON_DIRECTORY", value_name = "DIR", help_heading = "Election")]
    pub directory: Option<String>,
    /// The namespace of the Lease, or in the path in ZooKeeper [default: the Pod's own, else the
    /// context's]
    #[arg(long, env = "BATON_NAMESPACE", value_name = "NAME", help_heading = "Election")]
    pub namespace: Option<String>,
    /// How to reach the API server [default: in a Pod its service account, else as kubectl]
    #[arg(long, env = "BATON_KUBECONFIG", value_name = "FILE", help_heading = "Election")]
    pub kubeconfig: Option<String>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, env = "BATON_CONTEXT", value_name = "NAME", help_heading = "Election")]
    pub context: Option<String>,
    /// Prefix of the identity [default: the Pod's name, else the host's]
    #[arg(long, env = "BATON_IDENTITY_PREFIX", value_name = "PREFIX", help_heading = "Election")]
    pub identity_prefix: Option<String>,
    /// Exit with 75 when leadership is lost, or stay and follow: exit, stay [default: exit]
    #[arg(long, env = "BATON_ON_LOST", value_name = "WHAT", help_heading = "Election")]
    pub on_lost: Option<String>,
    /// Give leadership up when the application has not asked for so long [default: never]
    #[arg(long, env = "BATON_REQUIRE_POLLING", value_name = "DURATION", help_heading = "Election")]
    pub require_polling: Option<String>,
    /// Where to keep how the last run ended [default: nowhere]
    #[arg(long, env = "BATON_STATE_DIRECTORY", value_name = "DIR", help_heading = "Election")]
    pub state_directory: Option<String>,

    /// The servers, as ZooKeeper writes them: host:port,host:port/chroot
    #[arg(
        long,
        env = "BATON_ZOOKEEPER_SERVERS",
        value_name = "SERVERS",
        help_heading = "ZooKeeper"
    )]
    pub zookeeper_servers: Option<String>,
    /// The path of the election [default: /baton/NAMESPACE/ELECTION, outside a Pod /baton/ELECTION]
    #[arg(long, env = "BATON_ZOOKEEPER_PATH", value_name = "PATH", help_heading = "ZooKeeper")]
    pub zookeeper_path: Option<String>,
    /// The servers' tickTime, no smaller than theirs [default: 2s]
    #[arg(
        long,
        env = "BATON_ZOOKEEPER_TICK_TIME",
        value_name = "DURATION",
        help_heading = "ZooKeeper"
    )]
    pub zookeeper_tick_time: Option<String>,
    /// Credentials, one scheme:credentials a line; sasl:user:password for SASL DIGEST-MD5
    #[arg(
        long,
        env = "BATON_ZOOKEEPER_AUTH_FILE",
        value_name = "FILE",
        help_heading = "ZooKeeper"
    )]
    pub zookeeper_auth_file: Option<String>,
    /// The authorities of the servers' certificates, in PEM: turns TLS on
    #[arg(long, env = "BATON_ZOOKEEPER_CA_FILE", value_name = "FILE", help_heading = "ZooKeeper")]
    pub zookeeper_ca_file: Option<String>,
    /// Our own certificate, in PEM
    #[arg(
        long,
        env = "BATON_ZOOKEEPER_CERT_FILE",
        value_name = "FILE",
        help_heading = "ZooKeeper"
    )]
    pub zookeeper_cert_file: Option<String>,
    /// The key of our certificate, in PEM
    #[arg(long, env = "BATON_ZOOKEEPER_KEY_FILE", value_name = "FILE", help_heading = "ZooKeeper")]
    pub zookeeper_key_file: Option<String>,

    /// How long the others wait after they last saw our record change [default: 15s]
    #[arg(long, env = "BATON_LEASE_DURATION", value_name = "DURATION", help_heading = "Timing")]
    pub lease_duration: Option<String>,
    /// How long we lead without an acknowledged renewal [default: 10s]
    #[arg(long, env = "BATON_RENEW_DEADLINE", value_name = "DURATION", help_heading = "Timing")]
    pub renew_deadline: Option<String>,
    /// The time between two renewals [default: 2s]
    #[arg(long, env = "BATON_RETRY_PERIOD", value_name = "DURATION", help_heading = "Timing")]
    pub retry_period: Option<String>,
    /// By how much the rates of two nodes' clocks may differ [default: 10%]
    #[arg(long, env = "BATON_MAX_CLOCK_DRIFT", value_name = "PERCENT", help_heading = "Timing")]
    pub max_clock_drift: Option<String>,
    /// For how long an answer "leading" is good [default: the retry period]
    #[arg(long, env = "BATON_ANSWER_VALIDITY", value_name = "DURATION", help_heading = "Timing")]
    pub answer_validity: Option<String>,

    /// Where the application asks [default: localhost:4040]
    #[arg(long, env = "BATON_LISTEN", value_name = "ADDR", help_heading = "HTTP")]
    pub listen: Option<String>,
    /// Where kubelet and Prometheus ask, or none [default: :4041]
    #[arg(long, env = "BATON_PROBE_LISTEN", value_name = "ADDR", help_heading = "HTTP")]
    pub probe_listen: Option<String>,

    /// How to log to standard error: text, json [default: text on a terminal, else json]
    #[arg(long, env = "BATON_LOG_FORMAT", value_name = "FORMAT", help_heading = "Logging")]
    pub log_format: Option<String>,
    /// What to log: error, warn, info, debug, trace [default: info]
    #[arg(long, env = "BATON_LOG_LEVEL", value_name = "LEVEL", help_heading = "Logging")]
    pub log_level: Option<String>,
}

/// What the process finds around it without being told.
#[derive(Debug, Default, Clone)]
pub struct Surroundings {
    /// Whether this is a Pod: `KUBERNETES_SERVICE_HOST` is set.
    pub in_kubernetes: bool,
    /// The Pod's name, where the manifest hands it in.
    pub pod_name: Option<String>,
    /// The Pod's namespace, where the manifest hands it in.
    pub pod_namespace: Option<String>,
    /// The machine's name.
    pub host_name: String,
    /// Whether colors are unwanted: `NO_COLOR` is set (no-color.org), or the terminal is a dumb
    /// one.
    pub wants_plain_text: bool,
}

/// A variable `BATON_…` that sets no flag.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The variable that may have been meant.
    pub nearest: Option<String>,
}

impl Surroundings {
    /// Reads them.
    #[expect(clippy::disallowed_methods, reason = "configuration enters here")]
    pub fn read() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            in_kubernetes: variable("KUBERNETES_SERVICE_HOST").is_some(),
            pod_name: variable("POD_NAME"),
            pod_namespace: variable("POD_NAMESPACE"),
            host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            wants_plain_text: variable("NO_COLOR").is_some()
                || variable("TERM").as_deref() == Some("dumb"),
        }
    }
}

/// The prefix of the variables that set flags.
const PREFIX: &str = "BATON_";

/// The variables `BATON_…` of this process that set no flag of any subcommand.
pub fn unknown_variables() -> Vec<UnknownVariable> {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = variables.filter(|(name, _)| name.starts_with(PREFIX));
    unknown_among(ours.map(|(name, value)| (name, value.to_string_lossy().into_owned())))
}

fn unknown_among(variables: impl Iterator<Item = (String, String)>) -> Vec<UnknownVariable> {
    let mut root = Cli::command();
    root.build();
    let all = std::iter::once(&root).chain(root.get_subcommands());
    let variables_of_flags =
        all.flat_map(clap::Command::get_arguments).filter_map(|flag| flag.get_env()?.to_str());
    let known: BTreeSet<&str> = variables_of_flags.collect();
    let unknown = variables
        .filter(|(name, value)| !known.contains(name.as_str()) && !is_of_a_service(name, value));
    let named = unknown.map(|(name, _)| {
        let words = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
        let nearest = spelling::nearest(name.strip_prefix(PREFIX).unwrap_or_default(), words);
        UnknownVariable { nearest: nearest.map(|word| format!("{PREFIX}{word}")), name }
    });
    let mut named: Vec<_> = named.collect();
    named.sort_by(|one, other| one.name.cmp(&other.name));
    named
}

/// Whether kubelet set this variable, because a Service is named `baton` or `baton-…`.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let is_port = name
        .split_once("_PORT_")
        .is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || is_port
        || name.ends_with("_PORT") && value.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_named_with_the_nearest_flag() {
        let variables = [
            ("BATON_ELECTON", "orders"),
            ("BATON_ELECTION", "orders"),
            ("BATON_SERVICE_HOST", "10.0.0.1"),
            ("BATON_METRICS_SERVICE_PORT_HTTP", "4041"),
            ("BATON_PORT", "tcp://10.0.0.1:80"),
            ("BATON_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("BATON_COLOR", "red"),
        ];
        let unknown = unknown_among(
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let told: Vec<_> =
            unknown.iter().map(|one| (one.name.as_str(), one.nearest.as_deref())).collect();
        assert_eq!(told, [("BATON_COLOR", None), ("BATON_ELECTON", Some("BATON_ELECTION"))]);
    }
}
