//! Runs a candidate with the flags of an older sidecar: `baton compat`.
//!
//! Touches standard error, and reads the older sidecars' locks on the API server. Start with
//! [`compat`]. A candidate of an older sidecar does not see the Lease, so Baton does not start while
//! one of them changes its own lock.

use crate::cli::commands::{print_config_errors, print_stderr, print_usage};
use crate::cli::{Environment, OlderSidecar, Settings, Translation};
use crate::config::{Cluster, Config, StoreConfig};
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::process::signals::Signals;
use crate::store::StoreError;
use crate::store::kubernetes::{ApiServerError, LeaseStore, LockKind, OlderLock};
use crate::supervisor;
use baton_election::text::one_line;
use std::io;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long loading the credentials may take.
const OPENING_TIMEOUT: Duration = Duration::from_secs(30);

/// Why no candidate starts.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(
        "an older sidecar is running: {lock} has changed, and names {holder}. It does not see \
         Baton's Lease, so both would lead: scale the older sidecars to zero, then start Baton"
    )]
    Alive { lock: OlderLock, holder: String },
    #[error(
        "cannot read {resource} of this election's name, so an older sidecar may hold its lock \
         there: remove the cause, or grant get on {resource} as the older sidecar's Role did; if \
         none runs any more, use the baton run above instead of baton compat"
    )]
    Unknown { resource: &'static str, source: StoreError },
    #[error("cannot use the API server of the kubeconfig or of the Pod's service account")]
    ApiServer(#[from] ApiServerError),
    #[error(
        "cannot load the credentials within {OPENING_TIMEOUT:?}: check the kubeconfig, its files, \
         and its program"
    )]
    CredentialsTimedOut,
    #[error("cannot start the runtime: check the limits on processes and open files")]
    Runtime(#[from] io::Error),
}

impl Refusal {
    const fn exit(&self) -> Exit {
        match self {
            Self::Alive { .. } | Self::ApiServer(_) => Exit::Usage,
            Self::Unknown { .. } => Exit::Refused,
            Self::CredentialsTimedOut => Exit::NoAnswer,
            Self::Runtime(_) => Exit::Fault,
        }
    }
}

/// Says what the flags mean, and runs the candidate unless an older sidecar holds its own lock.
pub fn compat(sidecar: &OlderSidecar, environment: &Environment) -> Exit {
    let OlderSidecar::LeaderElector(flags) = sidecar;
    let Translation { flags: run, notes } = match flags.translate() {
        Ok(translation) => translation,
        Err(error) => {
            print_stderr(&error);
            return Exit::Usage;
        }
    };
    print_stderr(&format_args!("these flags mean: baton run {}", run.join(" ")));
    for note in &notes {
        print_stderr(note);
    }
    let settings = match Settings::read_from(&run) {
        Ok(settings) => settings,
        Err(error) => return print_usage(&error),
    };
    let config = match Config::new(&settings, environment) {
        Ok(config) => config,
        Err(errors) => {
            print_config_errors(&errors);
            return supervisor::refuse_settings(&settings, environment);
        }
    };
    match check_older_locks(&config) {
        Ok(Check::Passed) => supervisor::run(&config),
        Ok(Check::Stopped) => Exit::Clean,
        Err(refusal) => {
            print_stderr(&ErrorChain(&refusal));
            refusal.exit()
        }
    }
}

/// The outcome of the check of older locks.
enum Check {
    /// No older sidecar showed a sign of life.
    Passed,
    /// A signal asked this process to stop.
    Stopped,
}

fn check_older_locks(config: &Config) -> Result<Check, Refusal> {
    let StoreConfig::Lease { cluster, namespace } = &config.store else {
        unreachable!("the flags choose a Lease")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let checked = runtime.block_on(async {
        let mut signals = Signals::catch()?;
        tokio::select! {
            checked = check_both(config, cluster, namespace.as_deref()) => {
                checked.map(|()| Check::Passed)
            }
            () = signals.next() => Ok(Check::Stopped),
        }
    });
    // Do not wait for blocking calls that hang in the kernel.
    runtime.shutdown_background();
    checked
}

async fn check_both(
    config: &Config,
    cluster: &Cluster,
    namespace: Option<&str>,
) -> Result<(), Refusal> {
    let timing = &config.timing;
    let (call, retry) = (timing.call_timeout(), timing.retry_period());
    let opening = LeaseStore::connect(cluster, namespace, &config.election, call, retry);
    let opened = timeout(OPENING_TIMEOUT, opening).await;
    let store = opened.map_err(|_elapsed| Refusal::CredentialsTimedOut)??;
    let locks = OlderLocks { store: &store, call, retry, lease_duration: timing.lease_duration() };
    let [endpoints, config_map] = LockKind::ALL;
    tokio::try_join!(locks.watch(endpoints), locks.watch(config_map))?;
    Ok(())
}

/// The locks of one election.
struct OlderLocks<'a> {
    store: &'a LeaseStore,
    call: Duration,
    retry: Duration,
    lease_duration: Duration,
}

impl OlderLocks<'_> {
    /// Fails if the lock changes within the time in which an older candidate changes it.
    ///
    /// A candidate of leader-elector pauses for up to 0.55 lease durations between two reads. After
    /// the last renewal of a dead leader, it sees that renewal within one pause, waits for a lease
    /// duration, and acquires within another pause. The times in the lock are of another clock, so
    /// they prove nothing.
    async fn watch(&self, kind: LockKind) -> Result<(), Refusal> {
        let Some(first) = self.read(kind).await? else { return Ok(()) };
        let span = first.lease_duration.unwrap_or_default().max(self.lease_duration) * 5 / 2;
        let holder = one_line(&first.holder);
        print_stderr(&format_args!(
            "{first} names {holder}: waiting {span:?} to see whether an older sidecar changes it; \
             delete it if none runs any more"
        ));
        let seen = Clock.now();
        while Clock.now().since(seen) < span {
            sleep(self.retry).await;
            match self.read(kind).await? {
                None => return Ok(()),
                Some(now) if now != first => {
                    return Err(Refusal::Alive { holder: one_line(&now.holder), lock: now });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Reads a lock, and retries while the API server is unreachable.
    async fn read(&self, kind: LockKind) -> Result<Option<OlderLock>, Refusal> {
        let mut is_reported = false;
        loop {
            let failed = match timeout(self.call, self.store.older_lock(kind)).await {
                Ok(Ok(lock)) => return Ok(lock),
                Ok(Err(StoreError::Unreachable(error))) => ErrorChain(&*error).to_string(),
                Ok(Err(source @ (StoreError::Refused(_) | StoreError::Unusable(_)))) => {
                    return Err(Refusal::Unknown { resource: kind.resource(), source });
                }
                Err(_elapsed) => format!("the API server did not answer within {:?}", self.call),
            };
            if !is_reported {
                print_stderr(&format_args!("cannot read {} yet: {failed}", kind.resource()));
                is_reported = true;
            }
            sleep(self.retry).await;
        }
    }
}
