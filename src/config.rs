//! What the flags mean: a [`Config`] is valid by construction.
//!
//! Pure but for nothing: it reads no file and no environment. Every mistake is collected, and each one says
//! what to write instead.

mod error;
mod foreign;
mod listen;
mod names;
mod zookeeper;

pub use error::{ConfigError, Flags};
pub use foreign::{Foreign, foreign_flags};
pub use listen::{Listen, NoAddress};
pub use names::{ElectionName, check_namespace, check_service_account};
pub use zookeeper::ZooKeeperPlace;

use crate::cli::{Settings, Surroundings};
use baton_election::identity::Identity;
use baton_election::timing::{Drift, Durations, Timing};
use std::path::PathBuf;
use std::time::Duration;

/// Everything that `run` needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The election's name.
    pub election: ElectionName,
    /// Where it is held.
    pub backend: Backend,
    /// What our identity begins with.
    pub identity_prefix: String,
    /// The durations.
    pub timing: Timing,
    /// What to do when leadership is lost.
    pub on_lost: OnLost,
    /// How long a leader may go unasked.
    pub require_polling: Option<Duration>,
    /// Where to keep how the last run ended.
    pub state_directory: Option<PathBuf>,
    /// Where the application asks.
    pub listen: Listen,
    /// Where kubelet and Prometheus ask.
    pub probe_listen: Option<Listen>,
    /// How to log; `None` for text on a terminal, else JSON.
    pub log_format: Option<LogFormat>,
    /// What to log.
    pub log_level: tracing::Level,
    /// Whether lines on a terminal stay without colors.
    pub plain_logs: bool,
}

/// Where a run keeps how it ended, as far as its settings say: they need not be fit to run with.
#[derive(Debug, Clone)]
pub struct Memory {
    /// The directory.
    pub directory: PathBuf,
    /// The election's name.
    pub election: ElectionName,
    /// What to do when leadership is lost.
    pub on_lost: OnLost,
}

impl Memory {
    /// `None` where the settings name none.
    pub fn named_by(settings: &Settings) -> Option<Self> {
        let directory = typed(settings.state_directory.as_ref())?.into();
        let election = typed(settings.election.as_ref())?.parse().ok()?;
        let stays = typed(settings.on_lost.as_ref()) == Some("stay");
        Some(Self { directory, election, on_lost: if stays { OnLost::Stay } else { OnLost::Exit } })
    }
}

/// Where an election is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// In a Kubernetes Lease.
    Lease {
        /// The cluster.
        cluster: Cluster,
        /// The Lease's namespace; `None` for the Pod's mounted one, or the context's.
        namespace: Option<String>,
    },
    /// In ZooKeeper.
    ZooKeeper(Box<ZooKeeperPlace>),
    /// In files of this directory.
    File {
        /// The directory.
        directory: PathBuf,
    },
}

impl Backend {
    /// The backend as flags and JSON spell it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Lease { .. } => Kind::Lease.as_str(),
            Self::ZooKeeper(_) => Kind::ZooKeeper.as_str(),
            Self::File { .. } => Kind::File.as_str(),
        }
    }
}

/// How an API server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    /// From a Pod, by its environment and its service account.
    Pod,
    /// By a kubeconfig.
    Kubeconfig {
        /// The file; `None` for where kubectl looks.
        path: Option<PathBuf>,
        /// The context; `None` for the current one.
        context: Option<String>,
    },
}

/// What to do when leadership is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLost {
    /// End the process with 75.
    Exit,
    /// Become a follower again.
    Stay,
}

/// How to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// Lines for machines.
    Json,
}

/// Collects mistakes, so that all of them are named at once.
#[derive(Default)]
struct Mistakes(Vec<ConfigError>);

impl Mistakes {
    fn keep<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    fn duration(&mut self, flag: &'static str, typed: Option<&str>) -> Option<Duration> {
        let text = typed?;
        let parsed = humantime::parse_duration(text);
        self.keep(parsed.map_err(|_| ConfigError::Duration { flag, text: text.to_owned() }))
    }

    fn word<T: Copy>(
        &mut self,
        flag: &'static str,
        typed: Option<&str>,
        words: &[(&str, T)],
        known: &'static str,
    ) -> T {
        let (_, default) = words.first().copied().expect("a flag knows at least one word");
        let Some(text) = typed else { return default };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        self.keep(found.ok_or_else(|| ConfigError::Word { flag, text: text.to_owned(), known }))
            .unwrap_or(default)
    }
}

impl Config {
    /// What `settings` mean in these `surroundings`, or everything that is wrong with them.
    pub fn new(settings: &Settings, surroundings: &Surroundings) -> Result<Self, Vec<ConfigError>> {
        let mut mistakes = Mistakes::default();
        let election =
            typed(settings.election.as_ref()).ok_or(ConfigError::NoElection).and_then(str::parse);
        let election = mistakes.keep(election);
        let timing = timing(settings, &mut mistakes);
        let backend =
            backend(settings, surroundings, election.as_ref(), timing.as_ref(), &mut mistakes);
        let prefix = typed(settings.identity_prefix.as_ref()).or(surroundings.pod_name.as_deref());
        let prefix = prefix.unwrap_or(&surroundings.host_name).to_owned();
        // As long as the longest that will be written, so that what passes here passes later.
        let identity = Identity::unique(&prefix, "00000000-0000-0000-0000-000000000000");
        mistakes.keep(
            identity.map_err(|source| ConfigError::Identity { prefix: prefix.clone(), source }),
        );
        let on_lost = [("exit", OnLost::Exit), ("stay", OnLost::Stay)];
        let on_lost =
            mistakes.word("on-lost", typed(settings.on_lost.as_ref()), &on_lost, "exit, stay");
        let require_polling =
            mistakes.duration("require-polling", typed(settings.require_polling.as_ref()));
        if let (Some(asked), Some(timing)) = (require_polling, &timing) {
            let least = timing.answer_validity() + timing.retry_period();
            mistakes.keep(if asked < least {
                Err(ConfigError::Polling { asked, least })
            } else {
                Ok(())
            });
        }
        let listen = mistakes.keep(listen(settings.listen.as_ref()));
        let probe_listen = match typed(settings.probe_listen.as_ref()).unwrap_or(":4041") {
            "none" => Some(None),
            address => mistakes.keep(Listen::typed("probe-listen", address)).map(Some),
        };
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let log_format = typed(settings.log_format.as_ref());
        let log_format = log_format
            .map(|typed| mistakes.word("log-format", Some(typed), &formats, "text, json"));
        let log_level = mistakes.word(
            "log-level",
            typed(settings.log_level.as_ref()),
            &LEVELS,
            "error, warn, info, debug, trace",
        );
        match (election, backend, timing, listen, probe_listen) {
            (Some(election), Some(backend), Some(timing), Some(listen), Some(probe_listen))
                if mistakes.0.is_empty() =>
            {
                let state_directory = typed(settings.state_directory.as_ref()).map(PathBuf::from);
                let identity_prefix = prefix;
                Ok(Self {
                    election,
                    backend,
                    identity_prefix,
                    timing,
                    on_lost,
                    require_polling,
                    state_directory,
                    listen,
                    probe_listen,
                    log_format,
                    log_level,
                    plain_logs: surroundings.wants_plain_text,
                })
            }
            _ => Err(mistakes.0),
        }
    }
}

/// What `leaseDurationSeconds` of a Lease can hold, an int32 (`k8s.io/api/coordination/v1`).
const LONGEST_LEASE: Duration = Duration::from_secs(0x7fff_ffff);

const LEVELS: [(&str, tracing::Level); 5] = [
    ("info", tracing::Level::INFO),
    ("error", tracing::Level::ERROR),
    ("warn", tracing::Level::WARN),
    ("debug", tracing::Level::DEBUG),
    ("trace", tracing::Level::TRACE),
];

/// Where the application asks: what `run` listens at, and the other subcommands ask.
pub fn listen(flag: Option<&String>) -> Result<Listen, ConfigError> {
    Listen::typed("listen", typed(flag).unwrap_or("localhost:4040"))
}

/// A flag's text; an empty variable is what a template leaves when it has nothing to say.
fn typed(flag: Option<&String>) -> Option<&str> {
    flag.map(String::as_str).filter(|text| !text.is_empty())
}

/// The store that `settings` name, or the default inside a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A Kubernetes Lease.
    Lease,
    /// ZooKeeper.
    ZooKeeper,
    /// Files.
    File,
}

impl Kind {
    /// The store that is chosen in these `surroundings`, or why there is none.
    pub fn chosen(settings: &Settings, surroundings: &Surroundings) -> Result<Self, ConfigError> {
        match typed(settings.backend.as_ref()) {
            Some("file") => Ok(Self::File),
            Some("lease") => Ok(Self::Lease),
            Some("zookeeper") => Ok(Self::ZooKeeper),
            Some(other) => Err(ConfigError::Backend(other.to_owned())),
            None if surroundings.in_kubernetes => Ok(Self::Lease),
            None => Err(ConfigError::NoBackend),
        }
    }

    /// The store as flags and JSON spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::ZooKeeper => "zookeeper",
            Self::File => "file",
        }
    }
}

fn backend(
    settings: &Settings,
    surroundings: &Surroundings,
    election: Option<&ElectionName>,
    timing: Option<&Timing>,
    mistakes: &mut Mistakes,
) -> Option<Backend> {
    let backend = match mistakes.keep(Kind::chosen(settings, surroundings))? {
        Kind::File => {
            let directory = typed(settings.directory.as_ref()).ok_or(ConfigError::NoDirectory);
            directory.map(|directory| Backend::File { directory: PathBuf::from(directory) })
        }
        Kind::Lease => Ok(lease(settings, surroundings)),
        Kind::ZooKeeper => {
            let place = zookeeper::place(settings, surroundings, election, timing, mistakes)?;
            Ok(Backend::ZooKeeper(Box::new(place)))
        }
    };
    mistakes.keep(backend)
}

/// A Pod uses its service account, unless a kubeconfig is named.
fn lease(settings: &Settings, surroundings: &Surroundings) -> Backend {
    let path = typed(settings.kubeconfig.as_ref()).map(PathBuf::from);
    let context = typed(settings.context.as_ref()).map(str::to_owned);
    let cluster = if surroundings.in_kubernetes && path.is_none() && context.is_none() {
        Cluster::Pod
    } else {
        Cluster::Kubeconfig { path, context }
    };
    let namespace = typed(settings.namespace.as_ref()).or(surroundings.pod_namespace.as_deref());
    Backend::Lease { cluster, namespace: namespace.map(str::to_owned) }
}

fn timing(settings: &Settings, mistakes: &mut Mistakes) -> Option<Timing> {
    let before = mistakes.0.len();
    let mut duration = |flag, typed, default| mistakes.duration(flag, typed).unwrap_or(default);
    let seconds = Duration::from_secs;
    let lease_duration =
        duration("lease-duration", typed(settings.lease_duration.as_ref()), seconds(15));
    let renew_deadline =
        duration("renew-deadline", typed(settings.renew_deadline.as_ref()), seconds(10));
    let retry_period = duration("retry-period", typed(settings.retry_period.as_ref()), seconds(2));
    let answer_validity =
        duration("answer-validity", typed(settings.answer_validity.as_ref()), retry_period);
    let drift =
        typed(settings.max_clock_drift.as_ref()).map_or_else(|| Ok(Drift::default()), drift);
    let drift = mistakes.keep(drift)?;
    if lease_duration > LONGEST_LEASE {
        mistakes.0.push(ConfigError::LeaseTooLong(lease_duration));
    }
    if mistakes.0.len() > before {
        return None;
    }
    let durations = Durations { lease_duration, renew_deadline, retry_period, answer_validity };
    let suggestion = match typed(settings.backend.as_ref()) {
        Some("zookeeper") => zookeeper::suggestion(settings, lease_duration, drift),
        Some(_) | None => Timing::suggestion(lease_duration, drift),
    };
    let wrong = |error| ConfigError::Timing(error, Flags::new(suggestion));
    Timing::new(durations, drift)
        .map_err(|errors| mistakes.0.extend(errors.into_iter().map(wrong)))
        .ok()
}

fn drift(text: &str) -> Result<Drift, ConfigError> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let parts = percent
        .filter(|percent| (0.0..100.0).contains(percent))
        .map(|percent| (percent * 10_000.0).ceil());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 0 to a million"
    )]
    let drift = parts.and_then(|parts| Drift::parts_per_million(parts as u32));
    drift.ok_or_else(|| ConfigError::Drift(text.to_owned()))
}
