//! Reports the driver's events to the log and the metrics.
//!
//! Touches `tracing` and the metrics. Start with [`Reporter`]. Both come from the same
//! [`Transition`], so they cannot disagree.

use crate::config::{ElectionName, TimingFlags};
use crate::error_chain::ErrorChain;
use crate::process::exit::Exit;
use crate::store::{RequestSummary, StoreError};
use crate::telemetry::metrics::Metrics;
use baton_election::claim::FencingToken;
use baton_election::duration::Rounded;
use baton_election::identity::Identity;
use baton_election::machine::{Diagnostic, Outcome, Reason, Transition};
use baton_election::withdrawals::Order;
use std::fmt;
use std::time::Duration;

/// Logs and counts the driver's events.
#[derive(Debug)]
pub struct Reporter {
    election: ElectionName,
    identity: Identity,
    metrics: Metrics,
    failure: Option<RepeatedFailure>,
}

/// The consequence of a loss of leadership, and its possible cause.
#[derive(Debug, Default, Clone, Copy)]
pub struct Loss {
    /// The exit of the process; `None` if it stays as a follower.
    pub exit: Option<Exit>,
    /// How long the process was paused at least, if long enough to matter.
    pub pause: Option<Duration>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exit {
            Some(exit) => write!(f, "lost leadership: exiting with {}", exit.code())?,
            None => f.write_str("lost leadership: staying as a follower")?,
        }
        match self.pause.map(Rounded::down) {
            Some(pause) => write!(f, " (the process was paused for at least {pause})"),
            None => Ok(()),
        }
    }
}

/// The last failure of the store, and how often it occurred in a row.
#[derive(Debug)]
struct RepeatedFailure {
    message: String,
    times: u64,
}

impl Reporter {
    /// Creates the reporter of a candidate.
    pub const fn new(election: ElectionName, identity: Identity, metrics: Metrics) -> Self {
        Self { election, identity, metrics, failure: None }
    }

    /// Reports a transition. `loss` applies only to [`Transition::Lost`].
    pub fn transition<D: Diagnostic>(&mut self, transition: &Transition<D>, loss: Loss) {
        self.metrics.count_transition(transition);
        let (election, identity) = (self.election.as_str(), self.identity.as_str());
        match transition {
            Transition::Following { leader: Some(leader) } => {
                tracing::info!(
                    event = "following",
                    election,
                    identity,
                    leader = leader.as_str(),
                    "following {}",
                    leader.name()
                );
            }
            Transition::Following { leader: None } => {
                tracing::info!(
                    event = "following",
                    election,
                    identity,
                    "following, and there is no leader"
                );
            }
            Transition::Leading { token } => {
                let token = token.to_string();
                tracing::info!(event = "leading", election, identity, token, "leading");
            }
            Transition::Lost { token, reason } => self.lost(*token, *reason, loss),
            Transition::StoreWentBack { token, version } => {
                let (token, version) = (token.to_string(), version.to_string());
                tracing::error!(
                    event = "store_went_back",
                    election,
                    identity,
                    token,
                    version,
                    "the store was restored to an earlier state: new fencing tokens may be smaller \
                     than used ones; reset the tokens that your resources have seen"
                );
            }
            Transition::Diagnosed(found) => self.diagnosed(found),
            Transition::Resigned { token, reason } => {
                let (token, reason) = (token.to_string(), reason.as_str());
                tracing::info!(event = "resigned", election, identity, token, reason, "resigned");
            }
            Transition::ReleasedForEndedRun { identity: ended } => {
                let ended = ended.as_str();
                tracing::info!(
                    event = "released_for_ended_run",
                    election,
                    identity,
                    ended,
                    "released the record or session of the previous run, whose process has ended"
                );
            }
        }
    }

    fn lost(&self, token: FencingToken, reason: Reason, loss: Loss) {
        let (election, identity) = (self.election.as_str(), self.identity.as_str());
        let (token, reason) = (token.to_string(), reason.as_str());
        let (code, paused_ms) = (loss.exit.map(Exit::code), loss.pause.map(milliseconds));
        tracing::warn!(
            event = "lost",
            election,
            identity,
            token,
            reason,
            code,
            paused_ms,
            "{loss}"
        );
    }

    fn diagnosed(&self, found: &impl Diagnostic) {
        let (election, identity) = (self.election.as_str(), self.identity.as_str());
        let event = found.event();
        let remedy = found
            .remedy()
            .map(|durations| format!("; these would pass: {}", TimingFlags::new(durations)));
        let remedy = remedy.unwrap_or_default();
        if found.is_error() {
            tracing::error!(event, election, identity, "{found}{remedy}");
        } else {
            tracing::warn!(event, election, identity, "{found}{remedy}");
        }
    }

    /// Reports that a leader stopped promising leadership, and what happens next.
    pub fn withdrawn(&self, token: FencingToken, order: Order) {
        let (election, identity, token) =
            (self.election.as_str(), self.identity.as_str(), token.to_string());
        let next = match order {
            Order::Stopping { limit } => format!(
                "it holds the election until it receives SIGTERM, and no candidate leads; without \
                 SIGTERM, it leads again in {}",
                Rounded::nearest(limit)
            ),
            Order::Resign { hold_off } => format!(
                "the release follows when the last promise expires, and it does not campaign for \
                 {} after that",
                Rounded::nearest(hold_off)
            ),
            Order::Unfit { releases: false } => {
                "the process ends when the last promise expires, and the lease expires by itself"
                    .to_owned()
            }
            Order::Shutdown | Order::Unasked | Order::Unfit { releases: true } => {
                "the release follows when the last promise expires".to_owned()
            }
        };
        tracing::info!(
            event = "withdrawn",
            election,
            identity,
            token,
            "stopped promising leadership: {next}"
        );
    }

    /// Reports that no SIGTERM followed an order to prepare for one, so that the withdrawal ended.
    pub fn stopping_expired(&self) {
        self.metrics.count_stopping_expired();
        let (election, identity) = (self.election.as_str(), self.identity.as_str());
        tracing::warn!(
            event = "stopping_expired",
            election,
            identity,
            "no SIGTERM followed baton stopping within --stopping-limit: that withdrawal has ended"
        );
    }

    /// Reports a request and its outcome.
    pub fn request(&self, request: RequestSummary, outcome: Outcome, took: Duration) {
        self.metrics.count_request(request, outcome, took);
        let (verb, outcome) = (request.verb.as_str(), outcome.as_str());
        tracing::debug!(
            event = "request",
            verb,
            outcome,
            took_ms = milliseconds(took),
            "the request to the store ended"
        );
    }

    /// Reports a failed request. Repetitions of the same failure are only counted.
    pub fn store_failed(&mut self, error: &StoreError) {
        let message = ErrorChain(error).to_string();
        if let Some(failure) = self.failure.as_mut().filter(|last| last.message == message) {
            failure.times += 1;
            return;
        }
        let (election, identity) = (self.election.as_str(), self.identity.as_str());
        match error {
            StoreError::Unreachable(_) => {
                tracing::warn!(event = "store_unreachable", election, identity, "{message}");
            }
            StoreError::Refused(_) | StoreError::Unusable(_) => {
                tracing::error!(event = "store_refuses", election, identity, "{message}");
            }
        }
        self.failure = Some(RepeatedFailure { message, times: 1 });
    }

    /// Reports that the store answers again, if its last request failed.
    pub fn store_recovered(&mut self) {
        if let Some(RepeatedFailure { message, times }) = self.failure.take() {
            let (election, identity) = (self.election.as_str(), self.identity.as_str());
            tracing::info!(
                event = "store_back",
                election,
                identity,
                times,
                "the store answers again, after: {message}"
            );
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
