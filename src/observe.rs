//! Follows the leader of an election, without being a candidate: `baton observe`.
//!
//! Touches the store, signals, and standard output. Start with [`observe`]. It runs the state
//! machine of a candidate that is withdrawn from the start. Such a machine only reads and watches:
//! it never acquires the record, and over ZooKeeper it creates no znode.

use crate::cli::OutputFormat;
use crate::cli::commands::{print_stderr, print_stdout};
use crate::config::{Config, ElectionName, StoreConfig};
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::process::signals::Signals;
use crate::store::file::FileStore;
use crate::store::kubernetes::LeaseStore;
use crate::store::zookeeper::ZooKeeperStore;
use crate::store::{Store, StoreError};
use baton_election::identity::Identity;
use baton_election::machine::{Election, Event as _, Transition, Withdrawal};
use baton_election::queue::QueueElection;
use baton_election::record::RecordElection;
use baton_election::timing::Jitter;
use serde::Serialize;
use std::error::Error;
use std::future::pending;
use std::pin::pin;
use tokio::time::timeout;
use uuid::Uuid;

/// Prints one line now and after each change of leader, until a signal arrives.
pub fn observe(config: &Config, output: OutputFormat) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| {
        let ended = runtime.block_on(over_the_store(config, output));
        // Do not wait for blocking calls that hang in the kernel.
        runtime.shutdown_background();
        ended
    });
    ended.unwrap_or_else(|error| {
        print_stderr(&ErrorChain(&*error));
        Exit::Usage
    })
}

async fn over_the_store(config: &Config, output: OutputFormat) -> Result<Exit, Box<dyn Error>> {
    let mut signals = Signals::catch()?;
    let observer = Observer { election: &config.election, output };
    let timing = config.timing;
    let (call, retry) = (timing.call_timeout(), timing.retry_period());
    let identity = Identity::unique("observer", Uuid::new_v4())?;
    let (jitter, now) = (Jitter::new(Uuid::new_v4().as_u64_pair().0), Clock.now());
    let record = |identity, jitter| RecordElection::new(identity, timing, jitter, now);
    Ok(match &config.store {
        StoreConfig::File { directory } => {
            let store = FileStore::open(directory, &config.election, call, retry)?;
            observer.follow(record(identity, jitter), &store, &mut signals).await
        }
        StoreConfig::ZooKeeper(zookeeper) => {
            let store = ZooKeeperStore::open(zookeeper, call).await?;
            let machine = QueueElection::new(identity, zookeeper.timing, jitter, now);
            observer.follow(machine, &store, &mut signals).await
        }
        StoreConfig::Lease { cluster, namespace } => {
            let (namespace, election) = (namespace.as_deref(), &config.election);
            let store = LeaseStore::connect(cluster, namespace, election, call, retry).await?;
            observer.follow(record(identity, jitter), &store, &mut signals).await
        }
    })
}

/// Prints what it learns about one election.
struct Observer<'a> {
    election: &'a ElectionName,
    output: OutputFormat,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    at: String,
    election: &'a str,
    leader: Option<&'a str>,
    leader_name: Option<&'a str>,
}

impl Observer<'_> {
    /// Follows the election that `store` holds with `machine`.
    async fn follow<E: Election>(
        &self,
        mut machine: E,
        store: &impl Store<E>,
        signals: &mut Signals,
    ) -> Exit {
        machine.withdraw(Withdrawal::Renewing);
        let mut call = None;
        let mut store_event = pin!(store.next_event());
        let mut has_answered = false;
        let mut last_failure = None;
        loop {
            let now = Clock.now();
            machine.handle_timeout(now);
            if call.is_none() {
                let limit = machine.call_timeout();
                let request = machine.poll_request(now);
                call = request.map(|request| Box::pin(timeout(limit, store.perform(request))));
            }
            if let Err(exit) = self.print_changes(&mut machine) {
                return exit;
            }
            let due = machine.poll_timeout().map(|(due, _)| due);
            tokio::select! {
                answered = async {
                    match &mut call {
                        Some(call) => call.await,
                        None => pending().await,
                    }
                } => {
                    call = None;
                    let event = match answered {
                        Ok(Ok(event)) => {
                            (has_answered, last_failure) = (true, None);
                            event
                        }
                        Ok(Err(StoreError::Refused(error))) if !has_answered => {
                            print_stderr(&ErrorChain(&*error));
                            return Exit::Refused;
                        }
                        Ok(Err(error)) => {
                            report(&ErrorChain(&error).to_string(), &mut last_failure);
                            E::Event::UNKNOWN
                        }
                        Err(_elapsed) => {
                            let location = store.location();
                            report(&format!("{location} does not answer"), &mut last_failure);
                            E::Event::UNKNOWN
                        }
                    };
                    machine.handle_event(event, Clock.now());
                }
                event = &mut store_event => {
                    store_event.set(store.next_event());
                    machine.handle_event(event, Clock.now());
                }
                () = async {
                    match due {
                        Some(due) => Clock.sleep_until(due).await,
                        None => pending().await,
                    }
                } => {}
                () = signals.next() => return Exit::Clean,
            }
        }
    }

    /// Prints each change of leader. An error if standard output is closed.
    fn print_changes<E: Election>(&self, machine: &mut E) -> Result<(), Exit> {
        while let Some(transition) = machine.poll_transition() {
            if let Transition::Following { leader } = transition {
                let printed = print_stdout(&self.line(leader.as_ref()));
                if printed != Exit::Clean {
                    return Err(printed);
                }
            }
        }
        Ok(())
    }

    fn line(&self, leader: Option<&Identity>) -> String {
        let at = humantime::format_rfc3339_seconds(Clock.wall()).to_string();
        let election = self.election.as_str();
        match self.output {
            OutputFormat::Text => match leader {
                Some(leader) => format!("{at} {election}: {} leads", leader.name()),
                None => format!("{at} {election}: no known leader"),
            },
            OutputFormat::Json => {
                let (name, leader) = (leader.map(Identity::name), leader.map(Identity::as_str));
                let line = Line { at, election, leader, leader_name: name };
                serde_json::to_string(&line).expect("strings serialize")
            }
        }
    }
}

/// Prints a failure, unless it is the same as the last one.
fn report(failure: &str, last: &mut Option<String>) {
    if last.as_deref() != Some(failure) {
        print_stderr(&failure);
        *last = Some(failure.to_owned());
    }
}
