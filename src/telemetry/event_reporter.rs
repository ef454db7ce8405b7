//! Reports failed Events of the Lease to the log.
//!
//! Touches `tracing`. Start with [`EventReporter`].

use crate::config::ElectionName;
use crate::error_chain::ErrorChain;
use std::error::Error;

/// Logs Events that were not recorded.
#[derive(Debug)]
pub(crate) struct EventReporter {
    election: ElectionName,
    /// The last failure, until a success.
    failure: Option<String>,
}

impl EventReporter {
    pub(crate) const fn new(election: ElectionName) -> Self {
        Self { election, failure: None }
    }

    /// Notes a success.
    pub(crate) fn recorded(&mut self) {
        self.failure = None;
    }

    /// Reports a failure. Repetitions of the same failure are left out.
    pub(crate) fn failed(&mut self, error: &dyn Error) {
        let message = ErrorChain(error).to_string();
        if self.failure.as_ref() == Some(&message) {
            return;
        }
        let election = self.election.as_str();
        tracing::warn!(
            event = "lease_event_failed",
            election,
            "cannot record an Event of the Lease, which is left out: {message}"
        );
        self.failure = Some(message);
    }
}
