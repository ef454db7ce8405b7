//! Reports writes to an EndpointSlice to the log and the metrics.
//!
//! Touches `tracing` and the metrics. Start with [`RoutingReporter`].

use crate::config::ElectionName;
use crate::error_chain::ErrorChain;
use crate::kubernetes::endpoint_slice::{Foreign, SliceRef};
use crate::telemetry::metrics::Metrics;
use baton_election::claim::FencingToken;
use baton_election::machine::Outcome;
use std::error::Error;

/// Logs and counts what happens to one slice.
#[derive(Debug)]
pub(crate) struct RoutingReporter {
    election: ElectionName,
    slice: SliceRef,
    metrics: Metrics,
    /// The last message about a failure, until a success.
    failure: Option<String>,
}

impl RoutingReporter {
    pub(crate) const fn new(election: ElectionName, slice: SliceRef, metrics: Metrics) -> Self {
        Self { election, slice, metrics, failure: None }
    }

    /// Exports the term in which the slice holds our addresses.
    pub(crate) fn published(&self, token: Option<FencingToken>) {
        self.metrics.set_published(self.slice.family, token);
    }

    /// Counts a write.
    pub(crate) fn written(&self, outcome: Outcome) {
        self.metrics.count_slice_write(outcome);
    }

    pub(crate) fn publishes(&mut self, token: FencingToken) {
        self.failure = None;
        let (election, slice, token) = (self.election.as_str(), &self.slice, token.to_string());
        let name = slice.name();
        tracing::info!(
            event = "endpoint_published",
            election,
            slice = name,
            token,
            "published this leader's addresses in {slice}"
        );
    }

    pub(crate) fn cleared(&mut self, token: FencingToken) {
        self.failure = None;
        let (election, slice, token) = (self.election.as_str(), &self.slice, token.to_string());
        let name = slice.name();
        tracing::info!(
            event = "endpoint_cleared",
            election,
            slice = name,
            token,
            "removed this candidate's addresses from {slice}"
        );
    }

    pub(crate) fn larger_token(&self, found: FencingToken, ours: FencingToken) {
        let (election, slice) = (self.election.as_str(), &self.slice);
        let (name, found, token) = (slice.name(), found.to_string(), ours.to_string());
        tracing::warn!(
            event = "endpoint_token_larger",
            election,
            slice = name,
            found,
            token,
            "{slice} has the token {found} of a later term than ours ({token}), and is replaced: \
             check whether another election uses it, or the store was restored"
        );
    }

    pub(crate) fn foreign(&self, foreign: &Foreign) {
        let (election, slice) = (self.election.as_str(), &self.slice);
        let name = slice.name();
        tracing::error!(
            event = "endpoint_foreign",
            election,
            slice = name,
            "{slice} is not this election's, so clients are not routed to this leader: {foreign}"
        );
    }

    pub(crate) fn altered(&self) {
        let (election, slice) = (self.election.as_str(), &self.slice);
        let name = slice.name();
        tracing::warn!(
            event = "endpoint_altered",
            election,
            slice = name,
            "the API server stored other endpoints in {slice} than this leader wrote, so clients \
             may not be routed to it: check which admission policy or webhook changes \
             EndpointSlices"
        );
    }

    /// Reports a failed call. Repetitions of the same message are left out.
    pub(crate) fn failed(&mut self, error: &dyn Error, is_clearing: bool) {
        let (election, slice) = (self.election.as_str(), &self.slice);
        let name = slice.name();
        let consequence = if is_clearing {
            "may still be routed to this candidate, which does not lead"
        } else {
            "may not be routed to this leader"
        };
        let message =
            format!("cannot update {slice}, so clients {consequence}: {}", ErrorChain(error));
        if self.failure.as_ref() != Some(&message) {
            tracing::warn!(event = "endpoint_failed", election, slice = name, "{message}");
            self.failure = Some(message);
        }
    }
}
