//! Owns every task, and decides when and how the process ends.
//!
//! Touches every other module, and none of them touches it. Start with [`run`]. [`stopping`] stops
//! cleanly: it withdraws, waits until the last promise expires, and releases.

mod command;
mod history;
mod new_run;
mod outcome;
mod startup_log;
mod stopping;

use crate::cli::{Environment, Settings};
use crate::config::{Config, LastRunSettings};
use crate::driver::leadership::{Reader, publish};
use crate::driver::{Control, DriverContext, DriverStopped, drive, orders};
use crate::error_chain::ErrorChain;
use crate::fitness::{self, unfit_order};
use crate::health::Health;
use crate::http;
use crate::http::listen::{Listeners, bind};
use crate::http::server;
use crate::http::server::ServerError;
use crate::http::{AppState, Waiting};
use crate::lease_events::{LeaseEvents, LeaseEventsTask, Recorded};
use crate::process::clock::Clock;
use crate::process::ended_run::ReleasableRun;
use crate::process::exit::Exit;
use crate::process::last_run::RunHistory;
use crate::process::notify::Notifier;
use crate::process::signals::{Signals, StopOutcome};
use crate::process::watchdog;
use crate::resignation::require_polling;
use crate::routing::{Cleared, Routing, RoutingTask};
use crate::status_file;
use crate::status_file::{StatusFile, StatusFileError};
use crate::store::Store;
use crate::telemetry::logging;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::reporter::Reporter;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Request as _};
use baton_election::timing::Jitter;
use command::CommandTask;
use new_run::NewRun;
use outcome::{fault_outcome, fitness_outcome, lost_outcome};
use outcome::{outcome_of, server_fault};
use startup_log::log_start;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use stopping::Stopping;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::Level;
use uuid::Uuid;

/// Takes part in the election until the process must end, and returns its exit code.
pub fn run(config: &Config) -> Exit {
    let _log = logging::start(config.log_format, config.log_level, config.plain_logs);
    // One thread suffices, and takes a third of the memory of the multi-threaded runtime.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // Each access to a hung disk blocks a thread, so limit their number.
    let runtime = match builder.max_blocking_threads(4).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(config, &error),
    };
    let (publisher, reader) = publish(config.timing.answer_validity());
    let supervised = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            // First of all, because the kernel drops signals to PID 1 without a handler.
            let mut signals = match Signals::catch() {
                Ok(signals) => signals,
                Err(error) => return refuse(config, &error),
            };
            let identity = match Identity::unique(&config.identity_prefix, Uuid::new_v4()) {
                Ok(identity) => identity,
                Err(error) => return refuse(config, &error),
            };
            match history::open(config, &mut signals).await {
                Ok(Some(opened)) => {
                    let reader = reader.clone();
                    NewRun { config, identity, signals, opened, publisher, reader }.run().await
                }
                Ok(None) => {
                    StopOutcome::NothingToRelease.log(Exit::Clean);
                    Exit::Clean
                }
                Err(error) => refuse(config, &error),
            }
        })
    }));
    // Do not wait for blocking calls that hang in the kernel.
    runtime.shutdown_background();
    supervised.unwrap_or_else(|_panic| {
        if reader.published_claim().is_some() { Exit::Lost } else { Exit::Fault }
    })
}

/// Ends a run with invalid settings, and returns its exit code.
pub fn refuse_settings(settings: &Settings, environment: &Environment) -> Exit {
    let _log = logging::start(None, Level::INFO, environment.wants_plain_text);
    LastRunSettings::new(settings).map_or(Exit::Usage, |last_run| {
        RunHistory::refuse(Some(&last_run.directory), &last_run.election, last_run.on_lost)
    })
}

/// Logs why this run cannot start, and returns its exit code.
fn refuse(config: &Config, error: &dyn Error) -> Exit {
    tracing::error!(event = "cannot_start", "{}", ErrorChain(error));
    let on_lost = config.outlived_by_application();
    RunHistory::refuse(config.state_directory.as_deref(), &config.election, on_lost)
}

/// A candidate that is ready to take part: everything is opened, bound, and read.
struct Candidate<'a, M> {
    config: &'a Config,
    signals: Signals,
    history: RunHistory,
    servers: ServerTasks,
    election: M,
    context: DriverContext,
    reader: Reader,
    control: Control,
    health: Health,
    polled: Arc<Notify>,
    status_file: Option<StatusFile>,
    routing: RoutingTask,
    cleared: Cleared,
    lease_events: LeaseEventsTask,
    recorded: Recorded,
    command: CommandTask,
    metrics: Metrics,
}

/// The result of [`Candidate::prepare`].
enum Prepared<'a, M> {
    Candidate(Box<Candidate<'a, M>>),
    Exit(Exit),
}

/// The listeners' tasks.
type ServerTasks = JoinSet<Result<(), ServerError>>;

impl<'a, M: Election> Candidate<'a, M> {
    fn prepare(
        run: NewRun<'a>,
        location: &str,
        routing: Option<Routing>,
        lease_events: Option<LeaseEvents>,
        new_election: impl FnOnce(Identity, Jitter, Instant) -> M,
    ) -> Result<Prepared<'a, M>, Box<dyn Error>> {
        let NewRun { config, identity, signals, opened, publisher, reader } = run;
        let seed = Uuid::new_v4().as_u64_pair().0;
        let timing = config.timing;
        let listeners = bind(config.listen, "listen")?;
        let probe_listeners =
            config.probe_listen.map(|listen| bind(listen, "probe-listen")).transpose()?;
        log_start(config, &identity, location, &listeners, probe_listeners.as_ref());
        let metrics = Metrics::new(&config.election, M::Request::VERBS);
        watchdog::start(reader.clone())?;

        let (control, orders) = orders();
        let (health, polled) = (Health::default(), Arc::new(Notify::new()));
        let state = Arc::new(AppState {
            election: config.election.clone(),
            identity: identity.clone(),
            store: config.store.as_str(),
            reader: reader.clone(),
            health: health.clone(),
            metrics: metrics.clone(),
            control: control.clone(),
            stopping_limit: config.stopping_limit,
            default_hold_off: timing.lease_duration() * 2,
            // A follower over ZooKeeper learns the leader's name within about two.
            successor_timeout: timing.retry_period() * 3,
            asks_by_declaration: config.asks_by_declaration(),
            polled: Arc::clone(&polled),
            waiting: Waiting::new(config.require_polling),
        });
        let status_file = create_status_file(config, &state)?;
        let lock = opened.history.share_lock()?;
        let routing = routing.map(|routing| routing.task(&config.election, &reader, &metrics));
        let (routing, cleared) = routing.unwrap_or_default();
        let lease_events = lease_events.map(|events| events.task(&identity, &reader));
        let (lease_events, recorded) = lease_events.unwrap_or_default();
        let command = CommandTask::start(config, &state, listeners.address, lock)?;
        // After all that may fail: a run that cannot start has not begun.
        let run = ReleasableRun::new(config, &identity);
        let Some((history, delay)) = history::begin(config, opened, run.as_ref(), &metrics)? else {
            return Ok(Prepared::Exit(Exit::Lost));
        };
        let servers = start_servers(state, listeners, probe_listeners);
        let campaign_from = Clock.now() + delay;
        let election = new_election(identity.clone(), Jitter::new(seed), campaign_from);
        let context = DriverContext {
            publisher,
            orders,
            reporter: Reporter::new(config.election.clone(), identity, metrics.clone()),
            health: health.clone(),
            on_lost: config.on_lost,
            refusal_timeout: timing.lease_duration(),
            campaign_from,
            first_order: config.fitness.as_ref().map(|_| unfit_order(config)),
        };
        let candidate = Self {
            config,
            signals,
            history,
            servers,
            election,
            context,
            reader,
            control,
            health,
            polled,
            status_file,
            routing,
            cleared,
            lease_events,
            recorded,
            command,
            metrics,
        };
        Ok(Prepared::Candidate(Box::new(candidate)))
    }

    /// Takes part until the process must end, and tells systemd.
    async fn take_part(self, store: &impl Store<M>) -> Exit {
        let notifier = Notifier::new(self.config.notify.as_ref());
        let health = self.health.clone();
        notifier.ready();
        tokio::select! {
            exit = self.run(store, &notifier) => exit,
            never = notifier.ping_while_progressing(&health) => match never {},
        }
    }

    /// Takes part until the process must end, and saves how it ended.
    async fn run(self, store: &impl Store<M>, notifier: &Notifier) -> Exit {
        let Self {
            config,
            mut signals,
            history,
            mut servers,
            election,
            context,
            reader,
            control,
            health,
            polled,
            status_file,
            routing,
            mut cleared,
            lease_events,
            mut recorded,
            mut command,
            metrics,
        } = self;
        let mut driving = pin!(drive(election, store, context));
        let mut routing = pin!(routing.run());
        let mut lease_events = pin!(lease_events.run());
        let polling = require_polling(config.require_polling, &reader, &control, &health, &polled);
        let release_timeout = config.timing.call_timeout() * 3;
        let stopping = Stopping { control: &control, reader: &reader, notifier, release_timeout };
        let outcome = {
            let deciding = async {
                tokio::select! {
                    ended = &mut driving => outcome_of(ended),
                    ended = servers.join_next() => server_fault(ended.as_ref(), &reader),
                    DriverStopped = polling => fault_outcome(&reader),
                    ended = fitness::watch(config, &reader, &control, &metrics) => {
                        fitness_outcome(ended, &reader)
                    }
                    ended = command.ended() => if command::exits_lost(ended) {
                        lost_outcome(ended)
                    } else {
                        stopping.stop(driving, &mut signals, &mut command, false).await
                    },
                    () = signals.next() => {
                        stopping.stop(driving, &mut signals, &mut command, true).await
                    }
                }
            };
            // The file is kept current to the end, so it tells of a withdrawal.
            tokio::select! {
                outcome = deciding => outcome,
                never = status_file::keep_current(status_file) => match never {},
                never = &mut routing => match never {},
                never = &mut lease_events => match never {},
            }
        };
        if outcome.stopped.is_some() {
            tokio::select! {
                never = routing => match never {},
                never = lease_events => match never {},
                () = async { tokio::join!(cleared.wait(), recorded.wait()); } => {}
                () = signals.next() => {}
            }
        }
        let outcome = outcome.with_command(command.finish().await);
        outcome.log();
        history::save(history, outcome).await;
        outcome.exit
    }
}

fn create_status_file(
    config: &Config,
    state: &Arc<AppState>,
) -> Result<Option<StatusFile>, StatusFileError> {
    let Some(path) = &config.status_file else { return Ok(None) };
    let answer_validity = config.timing.answer_validity();
    StatusFile::create(path.clone(), answer_validity, Arc::clone(state)).map(Some)
}

/// Starts to serve the application and, if there is a listener for them, the probes.
fn start_servers(
    state: Arc<AppState>,
    application: Listeners,
    probes: Option<Listeners>,
) -> ServerTasks {
    let mut servers = JoinSet::new();
    let router = http::application(Arc::clone(&state));
    servers.spawn(server::serve(application.listeners, http::APPLICATION_LIMITS, router));
    if let Some(probes) = probes {
        let router = http::probes(state);
        servers.spawn(server::serve(probes.listeners, http::PROBE_LIMITS, router));
    }
    servers
}
