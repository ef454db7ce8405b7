//! The one place where what happened becomes log lines and counters.
//!
//! Touches `tracing` and `metrics`. Both are made from the same [`Transition`], so that they cannot tell different
//! stories. The same trouble again is counted, not repeated.

use crate::config::{ElectionName, Flags};
use crate::error_chain::ErrorChain;
use crate::process::exit::Exit;
use crate::store::{RequestSummary, StoreError};
use crate::telemetry::metrics::Metrics;
use baton_election::claim::FencingToken;
use baton_election::duration::Rounded;
use baton_election::identity::Identity;
use baton_election::machine::{Diagnostic, Outcome, Reason, Transition, Withdrawal};
use std::fmt;
use std::time::Duration;

/// Tells logs and metrics what the driver did.
#[derive(Debug)]
pub struct Reporter {
    election: ElectionName,
    identity: Identity,
    metrics: Metrics,
    trouble: Option<Trouble>,
}

/// The outcome of a loss of leadership, and its possible cause.
#[derive(Debug, Default, Clone, Copy)]
pub struct Loss {
    /// How the process ends; `None` where it stays and follows.
    pub exit: Option<Exit>,
    /// How long the process stood still at least, if that was long.
    pub stood_still: Option<Duration>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exit {
            Some(exit) => write!(f, "lost leadership: exiting with {}", exit.code())?,
            None => f.write_str("lost leadership: the process stays and follows")?,
        }
        match self.stood_still.map(Rounded::down) {
            Some(pause) => write!(f, ", after the process stood still for at least {pause}"),
            None => Ok(()),
        }
    }
}

/// A trouble that has been told, and how often it has come since.
#[derive(Debug)]
struct Trouble {
    told: String,
    times: u64,
}

impl Reporter {
    /// A reporter of this candidate.
    pub const fn new(election: ElectionName, identity: Identity, metrics: Metrics) -> Self {
        Self { election, identity, metrics, trouble: None }
    }

    /// Reports a change of standing. `loss` matters only to the end of a term.
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
                    "following, and nobody leads"
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
                    "the store was set back: fencing tokens from now on may be smaller than ones already used; \
                     tell the resources that check them to forget what they have seen"
                );
            }
            Transition::Diagnosed(found) => self.diagnosed(found),
            Transition::Resigned { token, reason } => {
                let (token, reason) = (token.to_string(), reason.as_str());
                tracing::info!(
                    event = "resigned",
                    election,
                    identity,
                    token,
                    reason,
                    "leadership is given back"
                );
            }
        }
    }

    fn lost(&self, token: FencingToken, reason: Reason, loss: Loss) {
        let (election, identity) = (self.election.as_str(), self.identity.as_str());
        let (token, reason) = (token.to_string(), reason.as_str());
        let (code, paused_ms) = (loss.exit.map(Exit::code), loss.stood_still.map(milliseconds));
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
            .map(|durations| format!("; these would pass: {}", Flags::new(durations)));
        let remedy = remedy.unwrap_or_default();
        if found.is_error() {
            tracing::error!(event, election, identity, "{found}{remedy}");
        } else {
            tracing::warn!(event, election, identity, "{found}{remedy}");
        }
    }

    /// Reports that a leader stopped promising leadership, and how that ends.
    pub fn withdrawn(&self, token: FencingToken, how: Withdrawal) {
        let (election, identity, token) =
            (self.election.as_str(), self.identity.as_str(), token.to_string());
        let next = match how {
            Withdrawal::Renewing => {
                "it holds the election until it receives SIGTERM, and no candidate leads"
            }
            Withdrawal::Releasing => "the release follows when the last promise expires",
        };
        tracing::info!(
            event = "withdrawn",
            election,
            identity,
            token,
            "stopped promising leadership: {next}"
        );
    }

    /// Tells of a request and how it went.
    pub fn request(&self, request: RequestSummary, outcome: Outcome, took: Duration) {
        self.metrics.count_request(request, outcome, took);
        let (verb, outcome) = (request.verb.as_str(), outcome.as_str());
        tracing::debug!(
            event = "request",
            verb,
            outcome,
            took_ms = milliseconds(took),
            "asked the store"
        );
    }

    /// Tells why a request has an unknown outcome, once until another trouble comes or the store is back.
    pub fn trouble(&mut self, error: &StoreError) {
        let told = ErrorChain(error).to_string();
        if let Some(trouble) = self.trouble.as_mut().filter(|trouble| trouble.told == told) {
            trouble.times += 1;
            return;
        }
        let (election, identity) = (self.election.as_str(), self.identity.as_str());
        match error {
            StoreError::Unreachable(_) => {
                tracing::warn!(event = "store_unreachable", election, identity, "{told}");
            }
            StoreError::Refused(_) | StoreError::Unusable(_) => {
                tracing::error!(event = "store_refuses", election, identity, "{told}");
            }
        }
        self.trouble = Some(Trouble { told, times: 1 });
    }

    /// Tells that the store answers, if it did not before.
    pub fn store_answers(&mut self) {
        if let Some(Trouble { told, times }) = self.trouble.take() {
            let (election, identity) = (self.election.as_str(), self.identity.as_str());
            tracing::info!(
                event = "store_back",
                election,
                identity,
                times,
                "the store answers again, after: {told}"
            );
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
