//! Runs a candidate with the flags of an older sidecar: `baton compat`.
//!
//! Touches standard error, and reads the older sidecars' locks on the API server. Start with
//! [`compat`]. A candidate of an older sidecar does not see the Lease, so Baton does not start while
//! one holds its own lock.

use crate::cli::commands::{print_config_errors, print_stderr, print_usage};
use crate::cli::{Environment, OlderSidecar, Settings, Translation};
use crate::config::{Cluster, Config, StoreConfig};
use crate::error_chain::ErrorChain;
use crate::process::exit::Exit;
use crate::process::signals::Signals;
use crate::store::StoreError;
use crate::store::kubernetes::{ApiServerError, LeaseStore, LockKind, OlderLock};
use crate::supervisor;
use baton_election::text::one_line;
use std::io;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long the load of the credentials may take.
const OPENING_TIMEOUT: Duration = Duration::from_secs(30);

/// Why no candidate starts.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(
        "{holder} of an older sidecar holds {lock} and does not see Baton's Lease, so both would \
         lead: scale the older sidecars to zero, then start Baton"
    )]
    Held { lock: OlderLock, holder: String },
    #[error(
        "cannot tell whether an older sidecar holds {resource} of this election's name: grant get \
         on {resource}, as the older sidecar's Role did; if none runs any more, use the baton run \
         above instead of baton compat"
    )]
    Unknown { resource: &'static str, source: StoreError },
    #[error("cannot use the API server")]
    ApiServer(#[from] ApiServerError),
    #[error("the kubeconfig, its files, or its program took longer than {OPENING_TIMEOUT:?}")]
    CredentialsTimedOut,
    #[error("cannot start the runtime")]
    Runtime(#[from] io::Error),
}

impl Refusal {
    const fn exit(&self) -> Exit {
        match self {
            Self::Held { .. } | Self::ApiServer(_) => Exit::Usage,
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
    match wait_for_older_locks(&config) {
        Ok(Waited::ForLocks) => supervisor::run(&config),
        Ok(Waited::UntilSignal) => Exit::Clean,
        Err(refusal) => {
            print_stderr(&ErrorChain(&refusal));
            refusal.exit()
        }
    }
}

/// The end of the wait.
enum Waited {
    /// No older sidecar holds a lock of this election.
    ForLocks,
    /// A signal asked this process to stop.
    UntilSignal,
}

fn wait_for_older_locks(config: &Config) -> Result<Waited, Refusal> {
    let StoreConfig::Lease { cluster, namespace } = &config.store else {
        unreachable!("the arguments choose a Lease")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let checked = runtime.block_on(async {
        let mut signals = Signals::catch()?;
        tokio::select! {
            checked = check_older_locks(config, cluster, namespace.as_deref()) => {
                checked.map(|()| Waited::ForLocks)
            }
            () = signals.next() => Ok(Waited::UntilSignal),
        }
    });
    // Do not wait for blocking calls that hang in the kernel.
    runtime.shutdown_background();
    checked
}

async fn check_older_locks(
    config: &Config,
    cluster: &Cluster,
    namespace: Option<&str>,
) -> Result<(), Refusal> {
    let (call, retry) = (config.timing.call_timeout(), config.timing.retry_period());
    let opening = LeaseStore::connect(cluster, namespace, &config.election, call, retry);
    let opened = timeout(OPENING_TIMEOUT, opening).await;
    let store = opened.map_err(|_elapsed| Refusal::CredentialsTimedOut)??;
    let locks = OlderLocks { store: &store, call, retry };
    for kind in LockKind::ALL {
        if let Some(lock) = locks.read(kind).await? {
            locks.wait_out(lock, config.timing.lease_duration()).await?;
        }
    }
    Ok(())
}

/// The locks of one election.
struct OlderLocks<'a> {
    store: &'a LeaseStore,
    call: Duration,
    retry: Duration,
}

impl OlderLocks<'_> {
    /// Waits until `lock` has not changed for its lease duration, as another candidate would. A
    /// change shows that its holder is alive. The times in the lock are of another clock, so they
    /// prove nothing.
    async fn wait_out(&self, lock: OlderLock, lease_duration: Duration) -> Result<(), Refusal> {
        let lease_duration = lock.lease_duration.unwrap_or_default().max(lease_duration);
        let holder = one_line(&lock.holder);
        print_stderr(&format_args!(
            "{lock} names {holder}: waiting {lease_duration:?} to see whether it is renewed; \
             delete it if no older sidecar runs any more"
        ));
        sleep(lease_duration).await;
        match self.read(lock.kind).await? {
            Some(now) if now != lock => {
                let holder = one_line(&now.holder);
                Err(Refusal::Held { holder, lock: now })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reads a lock, as often as it takes until the API server answers.
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
