//! Records changes of leadership as Events of the Lease, as client-go's leader election does.
//!
//! Touches the API server, on a connection of its own, and the election only through [`Reader`]. Start
//! with [`LeaseEvents::task`]. [`plan`] decides what to record, and is pure. Each Event is sent once,
//! within one call's time. Nothing here delays a renewal, a promise, a release, or an exit with an
//! error, and a failure only costs the Event.

mod event_api;
mod plan;

use crate::config::{Config, StoreConfig};
use crate::driver::leadership::Reader;
use crate::kubernetes::api_server::{ApiServer, ApiServerError};
use crate::kubernetes::lease_event::LeaseChange;
use crate::process::clock::Clock;
use crate::telemetry::event_reporter::EventReporter;
use baton_election::identity::Identity;
use event_api::{EventApi, EventError};
use plan::EventPlan;
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;

/// How long a process that stopped cleanly waits for its last Event.
const LAST_EVENT_PATIENCE: Duration = Duration::from_secs(1);

/// The API server that Events are sent to.
pub struct LeaseEvents {
    api: EventApi,
    call_timeout: Duration,
}

/// The task that sends Events, if they are wanted.
#[derive(Debug, Default)]
pub struct LeaseEventsTask(Option<EventSender>);

/// Tells when no Event is left to send.
#[derive(Debug, Clone, Default)]
pub struct Recorded(Option<watch::Receiver<bool>>);

impl Recorded {
    /// Waits until the end of a term is recorded, but not for long.
    pub async fn wait(&mut self) {
        let Some(is_recorded) = &mut self.0 else { return };
        tokio::select! {
            // Without its task, nothing will be recorded.
            _ = is_recorded.wait_for(|is_recorded| *is_recorded) => {}
            () = Clock.sleep_until(Clock.now() + LAST_EVENT_PATIENCE) => {}
        }
    }
}

/// Sends one Event after the other.
struct EventSender {
    api: EventApi,
    plan: EventPlan,
    call_timeout: Duration,
    identity: Identity,
    reader: Reader,
    reporter: EventReporter,
    is_recorded: watch::Sender<bool>,
}

impl LeaseEvents {
    /// Finds the API server, if Events are wanted. It is not called before this candidate leads.
    pub async fn open(config: &Config) -> Result<Option<Self>, ApiServerError> {
        let (cluster, namespace) = match &config.store {
            StoreConfig::Lease { cluster, namespace } if config.lease_events => {
                (cluster, namespace)
            }
            StoreConfig::Lease { .. }
            | StoreConfig::ZooKeeper(_)
            | StoreConfig::Etcd(_)
            | StoreConfig::File { .. } => return Ok(None),
        };
        let server = ApiServer::open(cluster).await?;
        let namespace = namespace.clone().unwrap_or_else(|| server.namespace());
        let api = EventApi::new(server, namespace, config.election.clone(), config.rights());
        Ok(Some(Self { api, call_timeout: config.timing.call_timeout() }))
    }

    /// The task that records the terms of the candidate of `reader`.
    pub fn task(self, identity: &Identity, reader: &Reader) -> (LeaseEventsTask, Recorded) {
        let (is_recorded, receiver) = watch::channel(true);
        let sender = EventSender {
            reporter: EventReporter::new(self.api.election.clone()),
            api: self.api,
            plan: EventPlan::default(),
            call_timeout: self.call_timeout,
            identity: identity.clone(),
            reader: reader.clone(),
            is_recorded,
        };
        (LeaseEventsTask(Some(sender)), Recorded(Some(receiver)))
    }
}

impl LeaseEventsTask {
    /// Sends an Event at the beginning and at the end of each term. Without Events, it only waits.
    pub async fn run(self) -> Infallible {
        match self.0 {
            Some(sender) => sender.run().await,
            None => pending().await,
        }
    }
}

impl EventSender {
    async fn run(mut self) -> Infallible {
        loop {
            let reader = self.reader.clone();
            let mut change = pin!(reader.next_claim_change());
            // Listens before it looks, so that no change is missed.
            change.as_mut().enable();
            let claim = reader.promising_claim(Clock.now());
            let next = self.plan.next(claim.map(|claim| claim.token()));
            self.is_recorded.send_replace(next.is_none() && claim.is_none());
            match next {
                Some(change) => self.send(change).await,
                None => change.await,
            }
        }
    }

    async fn send(&mut self, change: LeaseChange) {
        let until = Clock.now() + self.call_timeout;
        let sent = tokio::select! {
            sent = self.api.record(change, &self.identity, Clock.wall()) => sent,
            () = Clock.sleep_until(until) => Err(EventError::TimedOut),
        };
        match sent {
            Ok(()) => self.reporter.recorded(),
            Err(error) => self.reporter.failed(&error),
        }
    }
}

impl fmt::Debug for LeaseEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseEvents").finish_non_exhaustive()
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSender").field("plan", &self.plan).finish_non_exhaustive()
    }
}
