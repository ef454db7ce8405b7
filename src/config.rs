//! The checked configuration of `run`.
//!
//! Pure: it reads no file and no environment. Start with [`Config::new`], which collects every
//! error.

mod error;
mod etcd;
mod exec;
mod fitness;
mod last_run;
mod listen;
mod names;
mod patience;
mod routing;
mod timing;
mod unused_flags;
mod zookeeper;

pub use error::{ConfigError, TimingFlags};
pub use etcd::{Endpoint, EndpointError, EtcdConfig, PrefixError, etcd_prefix};
pub use exec::ExecConfig;
pub use fitness::{FitnessConfig, LoopbackUrl};
pub use last_run::LastRunSettings;
pub use listen::{ListenAddress, ParseListenError};
pub use names::{ElectionName, check_namespace, check_service_account};
pub use routing::{RoutingConfig, RoutingError, check_service};
pub use unused_flags::{UnusedFlag, unused_flags};
pub use zookeeper::ZooKeeperConfig;

use crate::cli::{Environment, Settings};
use crate::kubernetes::rbac::Rights;
use crate::process::notify::NotifySettings;
use baton_election::identity::Identity;
use baton_election::record::preference::Preference;
use baton_election::timing::Timing;
use std::path::PathBuf;
use std::time::Duration;

/// The configuration of `run`, valid by construction.
#[derive(Debug, Clone)]
pub struct Config {
    /// The election's name.
    pub election: ElectionName,
    /// The store that holds the election.
    pub store: StoreConfig,
    /// The prefix of the candidate's identity.
    pub identity_prefix: String,
    /// The durations.
    pub timing: Timing,
    /// The reaction to lost leadership.
    pub on_lost: OnLost,
    /// A leader resigns when its application has not polled for this long.
    pub require_polling: Option<Duration>,
    /// How long a free record is left to preferred candidates.
    pub preference: Preference,
    /// How the application is asked whether it is fit; `None` if it always is.
    pub fitness: Option<FitnessConfig>,
    /// How the leader's addresses are published; `None` if they are not.
    pub routing: Option<RoutingConfig>,
    /// Whether changes of leadership are recorded as Events of the Lease.
    pub lease_events: bool,
    /// How long a withdrawal by `baton stopping` lasts if no SIGTERM follows.
    pub stopping_limit: Duration,
    /// The command, under `baton exec`.
    pub exec: Option<ExecConfig>,
    /// The file for the answer.
    pub status_file: Option<PathBuf>,
    /// The directory that records how the last run ended.
    pub state_directory: Option<PathBuf>,
    /// The address for the application.
    pub listen: ListenAddress,
    /// The address for kubelet and Prometheus.
    pub probe_listen: Option<ListenAddress>,
    /// The format of the log; `None` for text on a terminal, else JSON.
    pub log_format: Option<LogFormat>,
    /// The log level.
    pub log_level: tracing::Level,
    /// Whether the log on a terminal has no colors.
    pub plain_logs: bool,
    /// Flags that do nothing, because they belong to another store.
    pub unused_flags: Vec<UnusedFlag>,
    /// How to notify systemd, if it started this process.
    pub notify: Option<NotifySettings>,
}

/// A store and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// A Kubernetes Lease.
    Lease {
        /// The cluster.
        cluster: Cluster,
        /// The Lease's namespace; `None` for the one mounted into the Pod, or the context's.
        namespace: Option<String>,
    },
    /// ZooKeeper.
    ZooKeeper(Box<ZooKeeperConfig>),
    /// etcd.
    Etcd(Box<EtcdConfig>),
    /// Files in a directory.
    File {
        /// The directory.
        directory: PathBuf,
    },
}

impl StoreConfig {
    /// The store's name in flags and JSON.
    pub const fn as_str(&self) -> &'static str {
        self.kind().as_str()
    }

    const fn kind(&self) -> StoreKind {
        match self {
            Self::Lease { .. } => StoreKind::Lease,
            Self::ZooKeeper(_) => StoreKind::ZooKeeper,
            Self::Etcd(_) => StoreKind::Etcd,
            Self::File { .. } => StoreKind::File,
        }
    }
}

/// How to reach the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    /// Through the Pod's environment and service account.
    Pod,
    /// Through a kubeconfig.
    Kubeconfig {
        /// The file; `None` for the one that kubectl uses.
        path: Option<PathBuf>,
        /// The context; `None` for the current one.
        context: Option<String>,
    },
}

/// The reaction to lost leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLost {
    /// Exit with 75.
    Exit,
    /// Stay as a follower.
    Stay,
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human-readable text.
    Text,
    /// Flat JSON objects, one per line.
    Json,
}

/// Collects errors, so that one run reports all of them.
#[derive(Default)]
struct ErrorCollector(Vec<ConfigError>);

impl ErrorCollector {
    /// Returns the value of `result`, or collects its error.
    fn check<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    /// Parses a duration, if there is a value.
    fn duration(&mut self, flag: &'static str, value: Option<&str>) -> Option<Duration> {
        let text = value?;
        let parsed = humantime::parse_duration(text);
        self.check(parsed.map_err(|_| ConfigError::Duration { flag, text: text.to_owned() }))
    }

    /// Parses one of `words`, the first of which is the default. `known` lists them for the error.
    fn word<T: Copy>(
        &mut self,
        flag: &'static str,
        value: Option<&str>,
        words: &[(&str, T)],
        known: &'static str,
    ) -> T {
        let (_, default) = words.first().copied().expect("a flag has at least one word");
        let Some(text) = value else { return default };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        self.check(found.ok_or_else(|| ConfigError::Word { flag, text: text.to_owned(), known }))
            .unwrap_or(default)
    }
}

impl Config {
    /// Checks `settings` in this `environment`, and returns every error.
    pub fn new(settings: &Settings, environment: &Environment) -> Result<Self, Vec<ConfigError>> {
        let mut errors = ErrorCollector::default();
        let election = non_empty(settings.election.as_ref())
            .ok_or(ConfigError::NoElection)
            .and_then(str::parse);
        let election = errors.check(election);
        let timing = timing::timing(settings, &mut errors);
        let store = store(settings, environment, election.as_ref(), timing.as_ref(), &mut errors);
        let prefix =
            non_empty(settings.identity_prefix.as_ref()).or(environment.pod_name.as_deref());
        let prefix = prefix.unwrap_or(&environment.host_name).to_owned();
        // Every UUID has this length, so a prefix that passes here passes at run time.
        let identity = Identity::unique(&prefix, "00000000-0000-0000-0000-000000000000");
        errors.check(
            identity.map_err(|reason| ConfigError::Identity { prefix: prefix.clone(), reason }),
        );
        let on_lost = [("exit", OnLost::Exit), ("stay", OnLost::Stay)];
        let on_lost =
            errors.word("on-lost", non_empty(settings.on_lost.as_ref()), &on_lost, "exit, stay");
        let require_polling = patience::require_polling(settings, timing.as_ref(), &mut errors);
        let preference = patience::preference(settings, environment, timing.as_ref(), &mut errors);
        let stopping_limit = patience::stopping_limit(settings, timing.as_ref(), &mut errors);
        let listen = errors.check(listen(settings.listen.as_ref()));
        let probe_listen = match non_empty(settings.probe_listen.as_ref()).unwrap_or(":4041") {
            "none" => Some(None),
            address => errors.check(ListenAddress::parse_flag("probe-listen", address)).map(Some),
        };
        let listeners = [("listen", listen), ("probe-listen", probe_listen.flatten())];
        let listeners = listeners.map(|(flag, listen)| listen.map(|listen| (flag, listen)));
        let listeners: Vec<_> = listeners.into_iter().flatten().collect();
        let fitness = fitness::fitness(settings, &listeners, &mut errors);
        let routing = routing::routing(settings, environment, store.as_ref(), &mut errors);
        let lease_events = lease_events(settings, &mut errors);
        let log_format = log_format(settings, &mut errors);
        let log_level = errors.word(
            "log-level",
            non_empty(settings.log_level.as_ref()),
            &LEVELS,
            "error, warn, info, debug, trace",
        );
        let unused_flags =
            store.as_ref().map(|store| unused_flags(settings, store.kind())).unwrap_or_default();
        match (election, store, timing, listen, probe_listen) {
            (Some(election), Some(store), Some(timing), Some(listen), Some(probe_listen))
                if errors.0.is_empty() =>
            {
                Ok(Self {
                    election,
                    store,
                    identity_prefix: prefix,
                    timing,
                    on_lost,
                    require_polling,
                    preference,
                    fitness,
                    routing,
                    lease_events,
                    stopping_limit,
                    exec: None,
                    status_file: path(settings.status_file.as_ref()),
                    state_directory: path(settings.state_directory.as_ref()),
                    listen,
                    probe_listen,
                    log_format,
                    log_level,
                    plain_logs: environment.wants_plain_text,
                    unused_flags,
                    notify: environment.notify.clone(),
                })
            }
            _ => Err(errors.0),
        }
    }

    /// The rights that the account needs on Kubernetes.
    pub fn rights(&self) -> Rights {
        let lease = matches!(self.store, StoreConfig::Lease { .. });
        let service = self.routing.as_ref().map(|routing| routing.service.clone());
        Rights { lease, service, events: lease && self.lease_events }
    }

    /// Whether the application is declared to ask the sidecar before it acts, or is a command that
    /// this process stops. Then a leader may release once no promise holds, although the process
    /// stays.
    pub fn asks_by_declaration(&self) -> bool {
        self.on_lost == OnLost::Stay
            || self.require_polling.is_some()
            || self.status_file.is_some()
            || self.exec.is_some()
    }
}

const LEVELS: [(&str, tracing::Level); 5] = [
    ("info", tracing::Level::INFO),
    ("error", tracing::Level::ERROR),
    ("warn", tracing::Level::WARN),
    ("debug", tracing::Level::DEBUG),
    ("trace", tracing::Level::TRACE),
];

/// The value of `--lease-events`.
fn lease_events(settings: &Settings, errors: &mut ErrorCollector) -> bool {
    let words = [("false", false), ("true", true)];
    errors.word("lease-events", non_empty(settings.lease_events.as_ref()), &words, "true, false")
}

/// The value of `--log-format`; it has no default word.
fn log_format(settings: &Settings, errors: &mut ErrorCollector) -> Option<LogFormat> {
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let format = non_empty(settings.log_format.as_ref())?;
    Some(errors.word("log-format", Some(format), &formats, "text, json"))
}

/// The value of `--listen`: the address that `run` listens on and the other subcommands query.
pub fn listen(flag: Option<&String>) -> Result<ListenAddress, ConfigError> {
    ListenAddress::parse_flag("listen", non_empty(flag).unwrap_or("localhost:4040"))
}

/// A flag's value. An empty one counts as unset, because templates render unset values as empty
/// environment variables.
fn non_empty(flag: Option<&String>) -> Option<&str> {
    flag.map(String::as_str).filter(|text| !text.is_empty())
}

fn path(flag: Option<&String>) -> Option<PathBuf> {
    non_empty(flag).map(PathBuf::from)
}

/// The kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// A Kubernetes Lease.
    Lease,
    /// ZooKeeper.
    ZooKeeper,
    /// etcd.
    Etcd,
    /// Files.
    File,
}

impl StoreKind {
    /// The store that `settings` select; in a Pod, a Lease by default.
    pub fn chosen(settings: &Settings, environment: &Environment) -> Result<Self, ConfigError> {
        match non_empty(settings.backend.as_ref()) {
            Some("etcd") => Ok(Self::Etcd),
            Some("file") => Ok(Self::File),
            Some("lease") => Ok(Self::Lease),
            Some("zookeeper") => Ok(Self::ZooKeeper),
            Some(other) => Err(ConfigError::UnknownStore(other.to_owned())),
            None if environment.in_kubernetes => Ok(Self::Lease),
            None => Err(ConfigError::NoStore),
        }
    }

    /// The store's name in flags and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::ZooKeeper => "zookeeper",
            Self::Etcd => "etcd",
            Self::File => "file",
        }
    }
}

fn store(
    settings: &Settings,
    environment: &Environment,
    election: Option<&ElectionName>,
    timing: Option<&Timing>,
    errors: &mut ErrorCollector,
) -> Option<StoreConfig> {
    let store = match errors.check(StoreKind::chosen(settings, environment))? {
        StoreKind::File => {
            let directory = path(settings.directory.as_ref()).ok_or(ConfigError::NoDirectory);
            directory.and_then(|directory| {
                if path(settings.state_directory.as_ref()).as_ref() == Some(&directory) {
                    return Err(ConfigError::SharedDirectory(directory));
                }
                Ok(StoreConfig::File { directory })
            })
        }
        StoreKind::Lease => Ok(lease(settings, environment)),
        StoreKind::ZooKeeper => {
            let config = zookeeper::config(settings, environment, election, timing, errors)?;
            Ok(StoreConfig::ZooKeeper(Box::new(config)))
        }
        StoreKind::Etcd => {
            let config = etcd::config(settings, environment, election, errors)?;
            Ok(StoreConfig::Etcd(Box::new(config)))
        }
    };
    errors.check(store)
}

/// Uses the service account in a Pod, unless the settings name a kubeconfig or context.
fn lease(settings: &Settings, environment: &Environment) -> StoreConfig {
    let path = non_empty(settings.kubeconfig.as_ref()).map(PathBuf::from);
    let context = non_empty(settings.context.as_ref()).map(str::to_owned);
    let cluster = if environment.in_kubernetes && path.is_none() && context.is_none() {
        Cluster::Pod
    } else {
        Cluster::Kubeconfig { path, context }
    };
    let namespace = non_empty(settings.namespace.as_ref()).or(environment.pod_namespace.as_deref());
    StoreConfig::Lease { cluster, namespace: namespace.map(str::to_owned) }
}
