//! Publishes the leader's addresses in EndpointSlices, so that a Service leads to the leader only.
//!
//! Touches the API server, on connections of its own, and the election only through [`Reader`]. Start
//! with [`Routing::task`]. [`plan`] decides each write, and is pure. Nothing here delays a
//! renewal, a promise, or a release, and routing does not exclude anyone: a client may still have a
//! connection to a former leader.

mod known;
mod phase;
mod plan;
mod slice_api;

use crate::config::{ElectionName, RoutingConfig};
use crate::driver::leadership::Reader;
use crate::kubernetes::api_server::{ApiServer, ApiServerError};
use crate::kubernetes::endpoint_slice::{Content, Family, Foreign, InvalidSlice, SliceRef};
use crate::kubernetes::rbac::Rights;
use crate::process::clock::Clock;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::routing_reporter::RoutingReporter;
use baton_election::instant::Instant;
use baton_election::machine::Outcome;
use baton_election::timing::Timing;
use plan::{Call, Finding, Pace, Reply, SlicePlan, Step};
use slice_api::{SliceApi, SliceError};
use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::rc::Rc;
use tokio::sync::watch;

/// The slices of the leader, one for each family of addresses.
pub struct Routing {
    api_server: Rc<ApiServer>,
    namespace: String,
    config: RoutingConfig,
    rights: Rights,
    pace: Pace,
}

/// Tells when no slice has addresses of this process that are left to clear.
#[derive(Debug, Clone, Default)]
pub struct Cleared(Vec<watch::Receiver<bool>>);

impl Cleared {
    /// Waits until nothing is left to clear, but no longer than the time limit of one call after a
    /// withdrawal. A process that keeps running retries a clearing that failed.
    pub async fn wait(&mut self) {
        for is_clear in &mut self.0 {
            // Without its task, nothing will be cleared.
            is_clear.wait_for(|is_clear| *is_clear).await.ok();
        }
    }
}

/// The tasks of the slices, if there are any.
#[derive(Debug, Default)]
pub struct RoutingTask(Option<[SliceTask; 2]>);

/// Why a leader could not write a slice as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SliceProblem {
    #[error("{0} is not this election's: {1}")]
    Foreign(SliceRef, Foreign),
    #[error("{0} changed during the check, probably by a leader: run the check again")]
    Changed(SliceRef),
    #[error("cannot write {0}")]
    Failed(SliceRef, #[source] SliceError),
}

/// Keeps one slice up to date.
struct SliceTask {
    api: SliceApi,
    plan: SlicePlan,
    reader: Reader,
    reporter: RoutingReporter,
    is_clear: watch::Sender<bool>,
}

impl Routing {
    /// Finds the API server. It is not called before this candidate leads.
    pub async fn open(
        config: &RoutingConfig,
        rights: Rights,
        timing: &Timing,
    ) -> Result<Self, ApiServerError> {
        let api_server = Rc::new(ApiServer::open(&config.cluster).await?);
        let namespace = config.namespace.clone().unwrap_or_else(|| api_server.namespace());
        let pace = Pace {
            call_timeout: timing.call_timeout(),
            retry_period: timing.retry_period(),
            check_period: timing.lease_duration(),
        };
        Ok(Self { api_server, namespace, config: config.clone(), rights, pace })
    }

    /// The task that publishes the addresses while the candidate of `reader` leads.
    pub fn task(
        self,
        election: &ElectionName,
        reader: &Reader,
        metrics: &Metrics,
    ) -> (RoutingTask, Cleared) {
        let mut cleared = Cleared::default();
        let tasks = Family::ALL.map(|family| {
            let RoutingConfig { addresses, ports, .. } = &self.config;
            let api = self.slice_api(election, family, false);
            let slice = api.slice.clone();
            let (is_clear, receiver) = watch::channel(true);
            cleared.0.push(receiver);
            SliceTask {
                plan: SlicePlan::new(slice.clone(), addresses, ports, self.pace),
                reader: reader.clone(),
                reporter: RoutingReporter::new(election.clone(), slice, metrics.clone()),
                api,
                is_clear,
            }
        });
        (RoutingTask(Some(tasks)), cleared)
    }

    /// Checks in a dry run whether a leader could write its slices.
    pub(crate) async fn check(&self, election: &ElectionName) -> Vec<SliceProblem> {
        let mut problems = Vec::new();
        for family in Family::ALL {
            let api = self.slice_api(election, family, true);
            let has_address = self.config.addresses.iter().any(|ip| family.contains(ip));
            let check = check_slice(&api, has_address);
            let checked = tokio::time::timeout(self.pace.call_timeout, check).await;
            let timed_out = |_| Err(SliceProblem::Failed(api.slice.clone(), SliceError::TimedOut));
            problems.extend(checked.unwrap_or_else(timed_out).err());
        }
        problems
    }

    fn slice_api(&self, election: &ElectionName, family: Family, is_rehearsal: bool) -> SliceApi {
        SliceApi {
            server: Rc::clone(&self.api_server),
            namespace: self.namespace.clone(),
            slice: SliceRef { service: self.config.service.clone(), family },
            election: election.as_str().to_owned(),
            rights: self.rights.clone(),
            is_rehearsal,
        }
    }
}

/// Reads a slice, and writes it back unchanged in a dry run, or creates it. A leader without an
/// address of that family needs no slice.
async fn check_slice(api: &SliceApi, has_address: bool) -> Result<(), SliceProblem> {
    let slice = || api.slice.clone();
    let failed = |error| SliceProblem::Failed(slice(), error);
    let write = match api.perform(&Call::Read).await.map_err(failed)? {
        Reply::Found(found) | Reply::Applied(found) => {
            if let Some(foreign) = found.foreign(&api.slice) {
                return Err(SliceProblem::Foreign(slice(), foreign));
            }
            let content = found.content.clone();
            Call::Replace(found, content)
        }
        Reply::Absent if has_address => {
            Call::Create(Content { token: None, addresses: Vec::new(), ports: Vec::new() })
        }
        Reply::Absent | Reply::Conflict | Reply::Refused | Reply::Unknown => return Ok(()),
    };
    match api.perform(&write).await {
        // A slice that was only created in a dry run has no version.
        Ok(Reply::Applied(_) | Reply::Found(_))
        | Err(SliceError::Invalid(InvalidSlice::NoVersion)) => Ok(()),
        Ok(Reply::Absent | Reply::Conflict | Reply::Refused | Reply::Unknown) => {
            Err(SliceProblem::Changed(slice()))
        }
        Err(error) => Err(failed(error)),
    }
}

impl RoutingTask {
    /// Publishes, and clears after a withdrawal or a loss. Without slices, it only waits.
    pub async fn run(self) -> Infallible {
        match self.0 {
            Some([one, other]) => tokio::select! {
                never = one.run() => never,
                never = other.run() => never,
            },
            None => std::future::pending().await,
        }
    }
}

impl SliceTask {
    async fn run(mut self) -> Infallible {
        loop {
            let reader = self.reader.clone();
            let mut change = pin!(reader.next_claim_change());
            // Listens before it looks, so that no change is missed.
            change.as_mut().enable();
            let now = Clock.now();
            let step = self.plan.next(reader.promising_claim(now), now);
            self.reporter.published(self.plan.published());
            self.is_clear.send_replace(self.plan.is_clear());
            match step {
                Step::Call(call, until) => self.perform(&call, until).await,
                Step::Wait(Some(due)) => tokio::select! {
                    () = change => {}
                    () = Clock.sleep_until(due) => {}
                },
                Step::Wait(None) => change.await,
            }
        }
    }

    async fn perform(&mut self, call: &Call, until: Instant) {
        let result = tokio::select! {
            result = self.api.perform(call) => result,
            () = Clock.sleep_until(until) => Err(SliceError::TimedOut),
            // The clearing is next, and does not wait behind this call.
            () = withdrawal(&self.reader), if !self.plan.is_clearing() => Ok(Reply::Unknown),
        };
        let reply = match result {
            Ok(reply) => reply,
            Err(error) => {
                self.reporter.failed(&error, self.plan.is_clearing());
                if error.is_refusal() { Reply::Refused } else { Reply::Unknown }
            }
        };
        let outcome = match &reply {
            Reply::Applied(_) => Some(Outcome::Applied),
            Reply::Conflict => Some(Outcome::Conflict),
            Reply::Refused | Reply::Unknown => Some(Outcome::Unknown),
            Reply::Absent | Reply::Found(_) => None,
        };
        match (call, outcome) {
            (Call::Create(_) | Call::Replace(..), Some(outcome)) => {
                self.reporter.written(outcome);
            }
            (Call::Read | Call::Create(_) | Call::Replace(..), _) => {}
        }
        match self.plan.handle_reply(reply, Clock.now()) {
            Some(Finding::Published(token)) => self.reporter.publishes(token),
            Some(Finding::Cleared(token)) => self.reporter.cleared(token),
            Some(Finding::LargerToken { found, ours }) => self.reporter.larger_token(found, ours),
            Some(Finding::Foreign(foreign)) => self.reporter.foreign(&foreign),
            Some(Finding::Altered) => self.reporter.altered(),
            None => {}
        }
    }
}

/// Waits until the candidate no longer leads, or has withdrawn.
async fn withdrawal(reader: &Reader) {
    loop {
        let mut change = pin!(reader.next_claim_change());
        change.as_mut().enable();
        if reader.promising_claim(Clock.now()).is_none() {
            return;
        }
        change.await;
    }
}

impl fmt::Debug for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routing").field("config", &self.config).finish_non_exhaustive()
    }
}

impl fmt::Debug for SliceTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SliceTask").field("plan", &self.plan).finish_non_exhaustive()
    }
}
