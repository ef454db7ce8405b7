//! Owns every task, and decides why the process ends.
//!
//! Touches all modules below it; none of them touches it. Start with [`run`]. The order of a clean stop
//! stands in [`stop`]: withdraw, wait until the last promise has run out, release.

mod startup_log;

use crate::cli::{Settings, Surroundings};
use crate::config::{Backend, Config, Memory};
use crate::driver::leadership::{Publisher, Reader, publish};
use crate::driver::{
    Control, DriverContext, DriverOutcome, DriverStopped, ReleaseOutcome, drive, orders,
};
use crate::error_chain::ErrorChain;
use crate::health::Health;
use crate::http;
use crate::http::listen::bind;
use crate::http::server;
use crate::http::server::ServerError;
use crate::http::{AppState, Parts};
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::process::last_run::Lifecycle;
use crate::process::signals::{Release, Signals};
use crate::process::watchdog;
use crate::resignation::require_polling;
use crate::store::Store;
use crate::store::file::FileStore;
use crate::store::kubernetes::LeaseStore;
use crate::store::zookeeper::ZooKeeperStore;
use crate::telemetry::logging;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::reporter::Reporter;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Reason, Request as _, Withdrawal};
use baton_election::queue::QueueElection;
use baton_election::record::RecordElection;
use baton_election::timing::Jitter;
use startup_log::{log_previous_end, log_start};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet, spawn_blocking};
use tokio::time::timeout;
use tracing::Level;
use uuid::Uuid;

/// How long the end of a process may wait for its state directory.
const TIME_TO_REMEMBER: Duration = Duration::from_millis(200);

/// Takes part in the election until the process is to end.
pub fn run(config: &Config) -> Exit {
    logging::start(config.log_format, config.log_level, config.plain_logs);
    // One thread is enough for what we do, and costs a third of the memory.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // A disk that hangs holds one thread for each try: these are all that it gets.
    let runtime = match builder.max_blocking_threads(4).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(config, &error),
    };
    let (publisher, reader) = publish(config.timing.answer_validity());
    let supervised = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            // First of all: the kernel drops a signal to PID 1 that has no handler.
            let signals = match Signals::catch() {
                Ok(signals) => signals,
                Err(error) => return refuse(config, &error),
            };
            let timing = &config.timing;
            let (call, retry) = (timing.call_timeout(), timing.retry_period());
            let lease = |who, chance, from| RecordElection::new(who, *timing, chance, from);
            match &config.backend {
                Backend::File { directory } => {
                    let opening =
                        async { FileStore::open(directory, &config.election, call, retry) };
                    supervise(config, opening, lease, signals, publisher, reader.clone()).await
                }
                Backend::ZooKeeper(place) => {
                    let opening = ZooKeeperStore::open(place, call);
                    let machine =
                        |who, chance, from| QueueElection::new(who, place.timing, chance, from);
                    supervise(config, opening, machine, signals, publisher, reader.clone()).await
                }
                Backend::Lease { cluster, namespace } => {
                    let opening = LeaseStore::connect(
                        cluster,
                        namespace.as_deref(),
                        &config.election,
                        call,
                        retry,
                    );
                    supervise(config, opening, lease, signals, publisher, reader.clone()).await
                }
            }
        })
    }));
    // A call that hangs in the kernel must not keep the process from ending.
    runtime.shutdown_background();
    supervised.unwrap_or_else(|_panic| {
        if reader.published_claim().is_some() { Exit::Lost } else { Exit::Fault }
    })
}

/// The end of a run whose settings are mistaken.
pub fn cannot_run(settings: &Settings, surroundings: &Surroundings) -> Exit {
    logging::start(None, Level::INFO, surroundings.wants_plain_text);
    Memory::named_by(settings).map_or(Exit::Usage, |memory| {
        Lifecycle::refuse(Some(&memory.directory), &memory.election, memory.on_lost)
    })
}

/// Takes part over the store that `opening` opens, with the machine that `machine` makes: of this candidate, with this
/// chance, campaigning from that moment on. A signal while the store opens ends the process at once.
async fn supervise<M: Election, S: Store<M>, E: Error>(
    config: &Config,
    opening: impl Future<Output = Result<S, E>>,
    machine: impl FnOnce(Identity, Jitter, Instant) -> M,
    mut signals: Signals,
    publisher: Publisher,
    reader: Reader,
) -> Exit {
    let opened = tokio::select! {
        opened = opening => opened,
        () = signals.next() => {
            Release::Needless.tell();
            return Exit::Clean;
        }
    };
    let store = match opened {
        Ok(store) => store,
        Err(error) => return refuse(config, &error),
    };
    match Candidate::prepare(config, &store.location(), machine, signals, publisher, reader) {
        Ok(Prepared::Candidate(candidate)) => candidate.take_part(&store).await,
        Ok(Prepared::Exit(exit)) => exit,
        Err(error) => refuse(config, &*error),
    }
}

/// Surroundings that nothing can be done in: named once, and the end.
fn refuse(config: &Config, error: &dyn Error) -> Exit {
    tracing::error!(event = "cannot_start", "{}", ErrorChain(error));
    Lifecycle::refuse(config.state_directory.as_deref(), &config.election, config.on_lost)
}

/// Everything that was opened, bound and read before the election begins.
struct Candidate<'a, M> {
    config: &'a Config,
    signals: Signals,
    lifecycle: Lifecycle,
    servers: Servers,
    election: M,
    context: DriverContext,
    reader: Reader,
    control: Control,
    health: Health,
    asked: Arc<Notify>,
}

enum Prepared<'a, M> {
    Candidate(Box<Candidate<'a, M>>),
    Exit(Exit),
}

/// The listeners' tasks.
type Servers = JoinSet<Result<(), ServerError>>;

/// How a run ended.
#[derive(Debug, Clone, Copy)]
struct End {
    exit: Exit,
    reason: Reason,
    led: bool,
}

impl<'a, M: Election> Candidate<'a, M> {
    fn prepare(
        config: &'a Config,
        place: &str,
        machine: impl FnOnce(Identity, Jitter, Instant) -> M,
        signals: Signals,
        publisher: Publisher,
        reader: Reader,
    ) -> Result<Prepared<'a, M>, Box<dyn Error>> {
        let (unique, seed) = (Uuid::new_v4(), Uuid::new_v4().as_u64_pair().0);
        let identity = Identity::unique(&config.identity_prefix, unique)?;
        let timing = config.timing;
        let listeners = bind(config.listen, "listen")?;
        let probe_listeners =
            config.probe_listen.map(|listen| bind(listen, "probe-listen")).transpose()?;
        log_start(config, &identity, place, &listeners, probe_listeners.as_ref());
        let (lifecycle, last) =
            Lifecycle::open(config.state_directory.as_deref(), &config.election)?;
        let metrics = Metrics::new(&config.election, M::Request::VERBS);
        let last = last.unwrap_or_else(|forgotten| {
            tracing::warn!(event = "previous_end", "{}", ErrorChain(&forgotten));
            None
        });
        let delay = lifecycle.damping(&timing);
        if let Some(last) = &last {
            metrics.show_last_end(last);
            log_previous_end(config, last, delay);
            if last.left_application_behind(config.on_lost) {
                lifecycle.end_to_move()?;
                return Ok(Prepared::Exit(Exit::Lost));
            }
        }
        lifecycle.begin()?;
        watchdog::start(reader.clone())?;

        let (control, orders) = orders();
        let (health, asked) = (Health::default(), Arc::new(Notify::new()));
        let state = AppState(Arc::new(Parts {
            election: config.election.clone(),
            identity: identity.clone(),
            backend: config.backend.as_str(),
            reader: reader.clone(),
            health: health.clone(),
            metrics: metrics.clone(),
            control: control.clone(),
            asked: Arc::clone(&asked),
        }));
        let mut servers = JoinSet::new();
        let application = http::application(state.clone());
        servers.spawn(server::serve(listeners.listeners, http::APPLICATION_ASKERS, application));
        if let Some(listeners) = probe_listeners {
            servers.spawn(server::serve(
                listeners.listeners,
                http::PROBE_ASKERS,
                http::probes(state),
            ));
        }
        let election = machine(identity.clone(), Jitter::new(seed), Clock.now() + delay);
        let context = DriverContext {
            publisher,
            orders,
            reporter: Reporter::new(config.election.clone(), identity, metrics),
            health: health.clone(),
            on_lost: config.on_lost,
            patience_with_refusals: timing.lease_duration(),
        };
        let candidate = Self {
            config,
            signals,
            lifecycle,
            servers,
            election,
            context,
            reader,
            control,
            health,
            asked,
        };
        Ok(Prepared::Candidate(Box::new(candidate)))
    }

    /// Runs until there is a reason to end, and notes it.
    async fn take_part(self, store: &impl Store<M>) -> Exit {
        let Self {
            config,
            mut signals,
            lifecycle,
            mut servers,
            election,
            context,
            reader,
            control,
            health,
            asked,
        } = self;
        let mut driving = pin!(drive(election, store, context));
        let end = tokio::select! {
            ended = &mut driving => after(ended),
            died = servers.join_next() => server_died(died.as_ref(), &reader),
            DriverStopped = require_polling(
                config.require_polling,
                &reader,
                &control,
                &health,
                &asked,
            ) => fault(&reader),
            () = signals.next() => {
                let patience = config.timing.call_timeout() * 3;
                stop(driving, &control, &mut signals, &reader, patience).await
            }
        };
        remember(lifecycle, end).await;
        end.exit
    }
}

/// Notes how this run ends, unless that takes longer than the end itself may wait.
async fn remember(lifecycle: Lifecycle, end: End) {
    let noted = spawn_blocking(move || lifecycle.end(end.exit, end.reason, end.led));
    match timeout(TIME_TO_REMEMBER, noted).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::warn!("{}", ErrorChain(&error)),
        Ok(Err(_)) | Err(_) => {
            tracing::warn!("the state directory does not answer: how this run ended is not noted");
        }
    }
}

/// Stops cleanly: withdraws, waits until the last promise has run out, and releases. A second signal ends it at
/// once, without another touch of the store.
async fn stop(
    mut driving: Pin<&mut impl Future<Output = DriverOutcome>>,
    control: &Control,
    signals: &mut Signals,
    reader: &Reader,
    patience: Duration,
) -> End {
    let led = reader.published_claim().is_some();
    let clean = End { exit: Exit::Clean, reason: Reason::Shutdown, led };
    let release = async {
        let promised_until = control.withdraw_for_good(Withdrawal::Releasing).await?;
        Clock.sleep_until(promised_until).await;
        match timeout(patience, control.release(Reason::Shutdown)).await {
            Ok(released) => match released? {
                ReleaseOutcome::Confirmed => Ok(Release::Confirmed),
                ReleaseOutcome::Refused => Ok(Release::Refused),
            },
            Err(_elapsed) => Ok::<_, DriverStopped>(Release::Unconfirmed),
        }
    };
    tokio::select! {
        released = release => {
            released.unwrap_or(Release::Unconfirmed).tell();
            clean
        }
        ended = &mut driving => {
            match ended {
                DriverOutcome::Lost(Reason::Deadline) => Release::Expired.tell(),
                DriverOutcome::Lost(reason) => return End { exit: ended.exit(true), reason, led },
                DriverOutcome::Refused => Release::Refused.tell(),
                DriverOutcome::Incompatible => Release::Needless.tell(),
            }
            End { exit: ended.exit(true), ..clean }
        }
        () = signals.next() => {
            tracing::warn!("asked to stop a second time: ending at once, and what is held runs out by itself");
            if reader.published_claim().is_some() {
                End { exit: Exit::Lost, ..clean }
            } else {
                Release::Unconfirmed.tell();
                clean
            }
        }
    }
}

fn after(ended: DriverOutcome) -> End {
    let exit = ended.exit(false);
    match ended {
        DriverOutcome::Lost(reason) => End { exit, reason, led: true },
        DriverOutcome::Refused | DriverOutcome::Incompatible => {
            End { exit, reason: Reason::Fault, led: false }
        }
    }
}

fn server_died(died: Option<&Result<Result<(), ServerError>, JoinError>>, reader: &Reader) -> End {
    tracing::error!(event = "fault", "a listener ended: {died:?}");
    fault(reader)
}

fn fault(reader: &Reader) -> End {
    let led = reader.published_claim().is_some();
    End { exit: if led { Exit::Lost } else { Exit::Fault }, reason: Reason::Fault, led }
}
