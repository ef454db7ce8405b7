//! Follows the leader of an election, without being a candidate: `baton observe`.
//!
//! Touches the store, signals, and standard output. Start with [`observe`]. It runs the state
//! machine of a candidate that is withdrawn from the start. Such a machine only reads and watches:
//! it never acquires the record, and over ZooKeeper it creates no znode.

use crate::cli::OutputFormat;
use crate::cli::commands::print_stderr;
use crate::config::{Config, ElectionName, StoreConfig};
use crate::error_chain::ErrorChain;
use crate::process::blocking::run_blocking;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::process::signals::Signals;
use crate::store::etcd::EtcdStore;
use crate::store::file::FileStore;
use crate::store::kubernetes::LeaseStore;
use crate::store::zookeeper::ZooKeeperStore;
use crate::store::{Store, StoreError};
use baton_election::identity::Identity;
use baton_election::machine::{Election, Event as _, Request as _, Transition, Verb, Withdrawal};
use baton_election::queue::QueueElection;
use baton_election::record::RecordElection;
use baton_election::timing::Jitter;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use serde::Serialize;
use std::error::Error;
use std::future::pending;
use std::io::{self, ErrorKind, Write as _};
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
            let store = FileStore::for_reading(directory, &config.election, call, retry);
            observer.follow(record(identity, jitter), &store, &mut signals).await
        }
        StoreConfig::ZooKeeper(zookeeper) => {
            let opening = ZooKeeperStore::open(zookeeper, call);
            let Some(store) = unless_signaled(opening, &mut signals).await? else {
                return Ok(Exit::Clean);
            };
            let machine = QueueElection::new(identity, zookeeper.timing, jitter, now);
            observer.follow(machine, &store, &mut signals).await
        }
        StoreConfig::Etcd(etcd) => {
            let opening = EtcdStore::open(etcd, &config.election, &config.timing);
            let Some(store) = unless_signaled(opening, &mut signals).await? else {
                return Ok(Exit::Clean);
            };
            observer.follow(record(identity, jitter), &store, &mut signals).await
        }
        StoreConfig::Lease { cluster, namespace } => {
            let (namespace, election) = (namespace.as_deref(), &config.election);
            let opening = LeaseStore::connect(cluster, namespace, election, call, retry);
            let Some(store) = unless_signaled(opening, &mut signals).await? else {
                return Ok(Exit::Clean);
            };
            observer.follow(record(identity, jitter), &store, &mut signals).await
        }
    })
}

/// The result of `opening`. `None` if a signal arrives first.
async fn unless_signaled<T, E>(
    opening: impl Future<Output = Result<T, E>>,
    signals: &mut Signals,
) -> Result<Option<T>, E> {
    tokio::select! {
        opened = opening => opened.map(Some),
        () = signals.next() => Ok(None),
    }
}

/// Waits until the reader of standard output has closed it, as `head` does. A file has no reader.
async fn standard_output_is_closed() {
    let polled = run_blocking("the wait for the end of standard output", || {
        // Without a requested event, only an error or the end wakes the thread.
        retry_on_intr(|| poll(&mut [PollFd::new(&io::stdout(), PollFlags::empty())], None))
    });
    if polled.await.is_err() {
        pending::<()>().await;
    }
}

/// Waits for the result of `future`, if there is one.
async fn result_of<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// The exit after a line could not be written.
fn end_of_output(error: &io::Error) -> Exit {
    if error.kind() == ErrorKind::BrokenPipe {
        // Its reader has seen enough.
        return Exit::Clean;
    }
    print_stderr(&format_args!(
        "cannot write to standard output: {error}: free space there, or redirect it elsewhere"
    ));
    Exit::Usage
}

/// The settings of the store keep the observer from ever reading.
struct CannotRead;

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
        let mut closed = pin!(standard_output_is_closed());
        let mut progress = Progress::default();
        let mut printing = None;
        loop {
            let now = Clock.now();
            machine.handle_timeout(now);
            if call.is_none() {
                let limit = machine.call_timeout();
                let request = machine.poll_request(now);
                call = request.map(|request| {
                    let is_read = matches!(request.verb(), Verb::Read);
                    Box::pin(async move { (is_read, timeout(limit, store.perform(request)).await) })
                });
            }
            if printing.is_none() {
                let next = self.next_line(&mut machine, progress.has_read);
                let Ok(line) = next else { return Exit::Usage };
                printing = line.map(|line| {
                    run_blocking("the output of a line", move || writeln!(io::stdout(), "{line}"))
                });
            }
            let due = machine.poll_timeout().map(|(due, _)| due);
            tokio::select! {
                answered = result_of(&mut call) => {
                    call = None;
                    let (is_read, answered) = answered;
                    let answered = answered.unwrap_or_else(|_elapsed| {
                        let silent = format!("{} does not answer", store.location());
                        Err(StoreError::Unreachable(silent.into()))
                    });
                    let event = match progress.event::<E>(is_read, answered) {
                        Ok(event) => event,
                        Err(exit) => return exit,
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
                printed = result_of(&mut printing) => {
                    printing = None;
                    if let Err(error) = printed {
                        return end_of_output(&error);
                    }
                }
                () = signals.next() => return Exit::Clean,
                // Its reader has seen enough.
                () = &mut closed => return Exit::Clean,
            }
        }
    }

    /// The line for the next change of leader, if there was one. An error if the settings of the
    /// store keep the observer from ever reading.
    fn next_line<E: Election>(
        &self,
        machine: &mut E,
        has_read: bool,
    ) -> Result<Option<String>, CannotRead> {
        while let Some(transition) = machine.poll_transition() {
            let prevents_reading = transition.prevents_leading() && !has_read;
            match transition {
                Transition::Following { leader } => return Ok(Some(self.line(leader.as_ref()))),
                Transition::Diagnosed(found) => print_stderr(&found),
                Transition::Leading { .. }
                | Transition::Lost { .. }
                | Transition::StoreWentBack { .. }
                | Transition::Resigned { .. }
                | Transition::ReleasedForEndedRun { .. } => {}
            }
            if prevents_reading {
                return Err(CannotRead);
            }
        }
        Ok(None)
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

/// The progress of an observer: its answers and failures so far.
#[derive(Default)]
struct Progress {
    /// Whether it has answered a read.
    has_read: bool,
    /// The failure that was printed last, if no read has succeeded since.
    last_failure: Option<String>,
}

impl Progress {
    /// The event for an answer, or the exit if the store refuses the first read.
    fn event<E: Election>(
        &mut self,
        is_read: bool,
        answered: Result<E::Event, StoreError>,
    ) -> Result<E::Event, Exit> {
        match answered {
            Ok(event) => {
                if is_read {
                    (self.has_read, self.last_failure) = (true, None);
                }
                Ok(event)
            }
            Err(StoreError::Refused(error)) => {
                self.report(&ErrorChain(&*error).to_string());
                if self.has_read { Ok(E::Event::REFUSED) } else { Err(Exit::Refused) }
            }
            Err(error @ (StoreError::Unreachable(_) | StoreError::Unusable(_))) => {
                self.report(&ErrorChain(&error).to_string());
                Ok(E::Event::UNKNOWN)
            }
        }
    }

    /// Prints a failure, unless it is the same as the last one.
    fn report(&mut self, failure: &str) {
        if self.last_failure.as_deref() != Some(failure) {
            print_stderr(&failure);
            self.last_failure = Some(failure.to_owned());
        }
    }
}
