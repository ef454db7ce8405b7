//! Checks what a candidate needs, one line per check: `baton doctor`.
//!
//! Touches the environment of the process, files, and the store, and changes none of them. Start
//! with [`doctor`]. Each line that fails names the thing, the cause, and the remedy. No line shows a
//! secret.

use crate::cli::commands::print_stdout;
use crate::cli::preflight;
use crate::cli::{Environment, Settings, UnknownVariable};
use crate::config::{Config, ElectionName, StoreConfig, StoreKind, ZooKeeperConfig, unused_flags};
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::routing::Routing;
use crate::store::etcd::EtcdStore;
use crate::store::file::FileStore;
use crate::store::kubernetes::{AccessReport, LeaseStore};
use crate::store::zookeeper::ZooKeeperStore;
use crate::store::{Store, StoreError};
use crate::telemetry::build;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest};
use baton_election::record::RecordElection;
use baton_election::record::messages::{RecordEvent, RecordRequest};
use baton_election::text::one_line;
use rustix::fs::{Access, access};
use std::error::Error;
use std::fmt::{self, Display};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// How long all checks of the store may take together.
const STORE_TIMEOUT: Duration = Duration::from_secs(9);
/// How long the kubeconfig, its files, and its program may take.
const OPENING_TIMEOUT: Duration = Duration::from_secs(5);

/// The smallest difference between wall clocks that is reported. `Date` has whole seconds, and an
/// answer takes a while.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);

/// The result of one check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warning,
    /// A candidate would fail, and the exit code of the command.
    Failure(Exit),
}

/// The longest excerpt of a text from the store, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

/// Prints the lines, and keeps the exit code.
struct Report {
    /// The exit code of the first failure.
    exit: Exit,
}

/// Checks the surroundings of `baton run` with these flags, and prints one line per check.
pub fn doctor(settings: &Settings, environment: &Environment, unknown: &[UnknownVariable]) -> Exit {
    let mut report = Report { exit: Exit::Clean };
    report.line(Verdict::Ok, "version", &format_args!("{} {}", build::VERSION, build::REVISION));
    report.variables(unknown);
    let Some(config) = report.settings(settings, environment) else { return report.exit };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            report.failure("process", Exit::Fault, &error);
            return report.exit;
        }
    };
    runtime.block_on(async {
        let checks = async {
            report.store(&config).await;
            report.routing(&config).await;
        };
        let checked = timeout(STORE_TIMEOUT, checks).await;
        if checked.is_err() {
            report.no_answer(STORE_TIMEOUT);
        }
    });
    // Do not wait for blocking calls that hang in the kernel.
    runtime.shutdown_background();
    report.exit
}

impl Report {
    fn line(&mut self, verdict: Verdict, check: &str, text: &impl Display) {
        let word = match verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failure(exit) => {
                if self.exit == Exit::Clean {
                    self.exit = exit;
                }
                "failure"
            }
        };
        // A closed standard output ends the checks with code 70.
        if print_stdout(&format_args!("{word:<8} {check:<11} {text}")) != Exit::Clean {
            self.exit = Exit::Fault;
        }
    }

    fn failure(&mut self, check: &str, exit: Exit, error: &dyn Error) {
        self.error(Verdict::Failure(exit), check, error);
    }

    /// Prints only the first line of the cause, because a manifest may follow it.
    fn error(&mut self, verdict: Verdict, check: &str, error: &dyn Error) {
        let text = ErrorChain(error).to_string();
        let first = text.lines().next().unwrap_or_default();
        self.line(verdict, check, &first);
    }

    fn no_answer(&mut self, within: Duration) {
        let text = format!(
            "no answer within {within:?}: check the address, the network, and whether the store is \
             up"
        );
        self.line(Verdict::Failure(Exit::NoAnswer), "store", &text);
    }

    fn variables(&mut self, unknown: &[UnknownVariable]) {
        for UnknownVariable { name, nearest } in unknown {
            let nearest = nearest.as_ref().map(|nearest| format!(": did you mean {nearest}?"));
            let text = format!("{name} sets no flag{}", nearest.unwrap_or_default());
            self.line(Verdict::Warning, "variables", &text);
        }
        if unknown.is_empty() {
            self.line(Verdict::Ok, "variables", &"each BATON_ variable sets a flag");
        }
    }

    /// Checks the flags and the files that they name. `None` if the store cannot be asked.
    fn settings(&mut self, settings: &Settings, environment: &Environment) -> Option<Config> {
        let config = Config::new(settings, environment);
        if let Err(errors) = &config {
            for error in errors {
                self.failure("settings", Exit::Usage, error);
            }
        }
        let store = StoreKind::chosen(settings, environment).ok();
        for flag in store.map(|store| unused_flags(settings, store)).unwrap_or_default() {
            self.line(Verdict::Warning, "settings", &flag);
        }
        let unusable = store.map(|store| preflight::unusable_files(settings, store));
        let unusable = unusable.unwrap_or_default();
        for file in &unusable {
            self.failure("files", Exit::Usage, file);
        }
        let config = config.ok()?;
        let timing = &config.timing;
        let durations = [timing.lease_duration(), timing.renew_deadline(), timing.retry_period()];
        let text = format!("election {}, {durations:?}", config.election);
        self.line(Verdict::Ok, "settings", &text);
        unusable.is_empty().then_some(config)
    }

    async fn store(&mut self, config: &Config) {
        let timing = &config.timing;
        let (call, retry) = (timing.call_timeout(), timing.retry_period());
        match &config.store {
            StoreConfig::File { directory } => {
                self.access(directory, &config.election);
                let store = FileStore::for_reading(directory, &config.election, call, retry);
                self.record(&store, call).await;
            }
            StoreConfig::Lease { cluster, namespace } => {
                let (namespace, election) = (namespace.as_deref(), &config.election);
                let opening = LeaseStore::connect(cluster, namespace, election, call, retry);
                match timeout(OPENING_TIMEOUT, opening).await {
                    Ok(Ok(store)) => {
                        self.rights(&store).await;
                        self.record(&store, call).await;
                    }
                    Ok(Err(error)) => self.failure("store", Exit::Usage, &error),
                    Err(_elapsed) => {
                        let text = "the kubeconfig, its files, or its program took too long";
                        self.line(Verdict::Failure(Exit::NoAnswer), "credentials", &text);
                    }
                }
            }
            StoreConfig::Etcd(etcd) => {
                match EtcdStore::open(etcd, &config.election, timing).await {
                    Ok(store) => {
                        self.record(&store, call).await;
                        self.history(&store).await;
                    }
                    Err(error) => self.failure("store", Exit::Usage, &error),
                }
            }
            StoreConfig::ZooKeeper(zookeeper) => {
                match ZooKeeperStore::open(zookeeper, call).await {
                    Ok(store) => self.session(&store, zookeeper, call).await,
                    Err(error) => self.failure("store", Exit::Usage, &error),
                }
            }
        }
    }

    /// Checks the EndpointSlices. A candidate leads without them, too.
    async fn routing(&mut self, config: &Config) {
        let Some(routing) = &config.routing else { return };
        let problems = match Routing::open(routing, config.rights(), &config.timing).await {
            Ok(routing) => routing.check(&config.election).await,
            Err(error) => return self.failure("routing", Exit::Usage, &error),
        };
        if problems.is_empty() {
            self.line(Verdict::Ok, "routing", &"a leader can write its EndpointSlices");
        }
        for problem in problems {
            self.error(Verdict::Warning, "routing", &problem);
        }
    }

    /// Checks that this user may write where a candidate does.
    fn access(&mut self, directory: &Path, election: &ElectionName) {
        let folder = directory.join(election.as_str());
        let written = if folder.exists() { folder.as_path() } else { directory };
        if let Err(error) = access(written, Access::WRITE_OK | Access::EXEC_OK) {
            let text = format!(
                "this user may not write to {}: {error}; run doctor as the user of the candidates, \
                 or let that user write",
                written.display()
            );
            self.line(Verdict::Failure(Exit::Usage), "files", &text);
        }
    }

    /// Reads the record.
    async fn record(&mut self, store: &impl Store<RecordElection>, call: Duration) {
        let began = Clock.now();
        let event = match timeout(call, store.perform(RecordRequest::Read)).await {
            Ok(Ok(event)) => event,
            Ok(Err(error)) => return self.refused(&error),
            Err(_elapsed) => return self.no_answer(call),
        };
        let took = Milliseconds(Clock.now().since(began));
        let location = store.location();
        self.line(Verdict::Ok, "store", &format_args!("{location} answers in {took}"));
        let record = match event {
            RecordEvent::Read(Some(snapshot)) => snapshot.record,
            RecordEvent::Read(None) => {
                return self.line(
                    Verdict::Ok,
                    "record",
                    &"there is none yet: no candidate has led",
                );
            }
            RecordEvent::Applied(_)
            | RecordEvent::Conflict
            | RecordEvent::Unknown
            | RecordEvent::WatchEvent(_) => return self.no_answer(call),
        };
        match (&record.holder, record.duration) {
            (Some(holder), Some(duration)) => {
                let text = format!("names {}, lease duration {duration:?}", holder.name());
                self.line(Verdict::Ok, "record", &text);
            }
            (None, _) => self.line(Verdict::Ok, "record", &"released: no candidate leads"),
            (Some(holder), None) => {
                let text = format!(
                    "names {} without a lease duration: it was edited by hand, and candidates wait \
                     for their own lease duration",
                    holder.name()
                );
                self.line(Verdict::Warning, "record", &text);
            }
        }
    }

    /// Warns if etcd keeps a long history of the record.
    async fn history(&mut self, store: &EtcdStore) {
        if let Some(found) = store.uncompacted_history().await {
            self.line(Verdict::Warning, "history", &found);
        }
    }

    /// Asks the API server for the rights on the Lease, and for the time.
    async fn rights(&mut self, store: &LeaseStore) {
        match store.rights().await {
            Ok(AccessReport { missing, server_time }) => {
                self.missing(missing.as_deref());
                if let Some(server_time) = server_time {
                    self.clock(server_time, Clock.wall());
                }
            }
            // Reading the Lease may report the same cause.
            Err(error) => {
                let text = format!("not checked: {}", ErrorChain(&error));
                let first = text.lines().next().unwrap_or_default();
                self.line(Verdict::Warning, "rights", &first);
            }
        }
    }

    fn missing(&mut self, missing: Option<&[&str]>) {
        match missing {
            Some([]) => self.line(Verdict::Ok, "rights", &"get, watch, create, and update"),
            Some(missing) => {
                let text = format!(
                    "the account lacks {}: grant what baton rbac prints",
                    missing.join(", ")
                );
                self.line(Verdict::Failure(Exit::Refused), "rights", &text);
            }
            None => {
                let text = "the API server does not say which rights the account has";
                self.line(Verdict::Warning, "rights", &text);
            }
        }
    }

    /// Compares the wall clocks. Certificates and tokens depend on them; the election does not.
    fn clock(&mut self, server: SystemTime, own: SystemTime) {
        let (difference, direction) = match own.duration_since(server) {
            Ok(ahead) => (ahead, "ahead of"),
            Err(behind) => (behind.duration(), "behind"),
        };
        if difference < MAX_CLOCK_DIFFERENCE {
            let text = format!(
                "the wall clock agrees with the API server's within {MAX_CLOCK_DIFFERENCE:?}"
            );
            return self.line(Verdict::Ok, "clock", &text);
        }
        let text = format!(
            "this machine's wall clock is {} {direction} the API server's, so tokens and \
             certificates may be refused: synchronize both by NTP",
            humantime::format_duration(Duration::from_secs(difference.as_secs()))
        );
        self.line(Verdict::Warning, "clock", &text);
    }

    /// Opens a session, reads the announcement of the leader, and closes the session.
    async fn session(&mut self, store: &ZooKeeperStore, config: &ZooKeeperConfig, call: Duration) {
        let perform = async |request| {
            let performing = <ZooKeeperStore as Store<QueueElection>>::perform(store, request);
            timeout(call, performing).await
        };
        let requested = config.timing.requested().lease_duration();
        let began = Clock.now();
        let granted = match perform(QueueRequest::Begin { timeout: requested }).await {
            Ok(Ok(QueueEvent::Connected { timeout, .. })) => timeout,
            Ok(Ok(_)) => return self.line(Verdict::Warning, "store", &"the session was refused"),
            Ok(Err(error)) => return self.refused(&error),
            Err(_elapsed) => return self.no_answer(call),
        };
        let took = Milliseconds(Clock.now().since(began));
        let location = store.location();
        self.line(Verdict::Ok, "store", &format_args!("{location} connects in {took}"));
        match config.timing.grant(granted) {
            Ok(_) => {
                let text = format!("granted {granted:?} (requested: {requested:?})");
                self.line(Verdict::Ok, "session", &text);
            }
            Err(errors) => {
                for error in errors {
                    self.failure("session", Exit::Usage, &error);
                }
            }
        }
        match perform(QueueRequest::ReadLeader).await {
            Ok(Ok(QueueEvent::Leader(Some(leader)))) => {
                // Any client may have written it.
                let text: String = one_line(&leader.text).chars().take(MAX_EXCERPT_CHARS).collect();
                self.line(Verdict::Ok, "leader", &format_args!("announced: {text}"));
            }
            Ok(Ok(_)) => self.line(Verdict::Ok, "leader", &"none is announced"),
            Ok(Err(error)) => self.refused(&error),
            Err(_elapsed) => self.no_answer(call),
        }
        // The session expires by itself if this fails.
        perform(QueueRequest::Close).await.ok();
    }

    fn refused(&mut self, error: &StoreError) {
        let exit = match error {
            StoreError::Unreachable(_) => Exit::NoAnswer,
            StoreError::Refused(_) => Exit::Refused,
            StoreError::Unusable(_) => Exit::Usage,
        };
        self.failure("store", exit, error);
    }
}

/// A duration in whole milliseconds.
struct Milliseconds(Duration);

impl Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0.as_millis())
    }
}
