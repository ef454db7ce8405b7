//! Checks what a candidate needs, one line per check: `baton doctor`.
//!
//! Touches the environment of the process, files, and the store, and changes none of them. Start
//! with [`doctor`]. Each line that fails names the thing, the cause, and the remedy. No line shows a
//! secret.

mod api_server;
mod report;
mod zookeeper;

use crate::cli::preflight;
use crate::cli::{Environment, Settings, UnknownVariable};
use crate::config::{Config, ElectionName, StoreConfig, StoreKind, unused_flags};
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::routing::Routing;
use crate::store::Store;
use crate::store::etcd::EtcdStore;
use crate::store::file::FileStore;
use crate::store::kubernetes::LeaseStore;
use crate::store::zookeeper::ZooKeeperStore;
use crate::telemetry::build;
use baton_election::record::RecordElection;
use baton_election::record::messages::{RecordEvent, RecordRequest};
use report::{Milliseconds, Report, Verdict};
use rustix::fs::{Access, access};
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

/// How long all checks of the store may take together.
const STORE_TIMEOUT: Duration = Duration::from_secs(9);
/// How long the kubeconfig, its files, and its program may take.
const OPENING_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks the surroundings of `baton run` with these flags, and prints one line per check.
pub fn doctor(settings: &Settings, environment: &Environment, unknown: &[UnknownVariable]) -> Exit {
    let mut report = Report::default();
    report.line(Verdict::Ok, "version", &format_args!("{} {}", build::VERSION, build::REVISION));
    report.variables(unknown);
    let Some(config) = report.settings(settings, environment) else { return report.exit() };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            report.failure("process", Exit::Fault, &error);
            return report.exit();
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
    report.exit()
}

impl Report {
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
                    Err(_elapsed) => self.slow_credentials(),
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
        let opening = Routing::open(routing, config.rights(), &config.timing);
        let problems = match timeout(OPENING_TIMEOUT, opening).await {
            Ok(Ok(routing)) => routing.check(&config.election).await,
            Ok(Err(error)) => return self.failure("routing", Exit::Usage, &error),
            Err(_elapsed) => return self.slow_credentials(),
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
}
