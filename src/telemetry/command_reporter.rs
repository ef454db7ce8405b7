//! Reports what happens to the command of `baton exec` to the log and the metrics.
//!
//! Touches `tracing` and the metrics. Start with [`CommandReporter`].

use crate::config::ElectionName;
use crate::exec::messages::Containment;
use crate::telemetry::metrics::Metrics;
use baton_election::claim::FencingToken;
use baton_election::duration::Rounded;
use baton_election::identity::Identity;
use std::time::Duration;

/// A guard this late is logged: half of the time between SIGKILL and the end of the claim.
const LOGGED_LATENESS: Duration = Duration::from_millis(250);

/// Logs and counts what happens to the command.
#[derive(Debug)]
pub struct CommandReporter {
    election: ElectionName,
    identity: Identity,
    metrics: Metrics,
}

impl CommandReporter {
    /// Creates the reporter of a candidate.
    pub const fn new(election: ElectionName, identity: Identity, metrics: Metrics) -> Self {
        Self { election, identity, metrics }
    }

    /// Reports that the command runs.
    pub fn started(&self, token: FencingToken, pid: i32, containment: Containment) {
        let (election, identity, token) = self.fields(token);
        tracing::info!(
            event = "command_started",
            election,
            identity,
            token,
            pid,
            "the command runs as process {pid}, contained by its {containment}"
        );
    }

    /// Reports that no process of the command is left.
    pub fn ended(&self, token: FencingToken, pid: Option<i32>, code: u8, lapsed: bool) {
        let (election, identity, token) = self.fields(token);
        if lapsed {
            tracing::warn!(
                event = "command_ended",
                election,
                identity,
                token,
                pid,
                code,
                "the command was stopped because leadership was ending"
            );
        } else {
            tracing::info!(
                event = "command_ended",
                election,
                identity,
                token,
                pid,
                code,
                "the command ended with {code}"
            );
        }
    }

    /// Reports that the command cannot start.
    pub fn cannot_start(&self, message: &str) {
        let (election, identity) = (self.election.as_str(), self.identity.as_str());
        tracing::error!(event = "command_ended", election, identity, "{message}");
    }

    /// Reports that the guard ended before its command.
    pub fn guard_lost(&self, token: FencingToken) {
        let (election, identity, token) = self.fields(token);
        tracing::error!(
            event = "command_ended",
            election,
            identity,
            token,
            "the guard of the command was killed or hangs: killing every process of the command"
        );
    }

    /// Reports how late the guard handled a timer.
    pub fn late(&self, late: Duration) {
        self.metrics.observe_guard_lateness(late);
        if late >= LOGGED_LATENESS {
            let (election, identity) = (self.election.as_str(), self.identity.as_str());
            tracing::warn!(
                event = "guard_late",
                election,
                identity,
                "the guard ran {} late: the machine or its CPU quota is overloaded, and at 500ms \
                 the command may outlive the claim",
                Rounded::nearest(late)
            );
        }
    }

    /// Warns of a CPU quota of less than one processor.
    pub fn low_cpu_quota(&self, processors: f64) {
        let (election, identity) = (self.election.as_str(), self.identity.as_str());
        tracing::warn!(
            event = "cpu_quota",
            election,
            identity,
            "the CPU quota is {processors:.2} processors, which the guard shares with the command: \
             remove the CPU limit, or the command may outlive the claim"
        );
    }

    fn fields(&self, token: FencingToken) -> (&str, &str, String) {
        (self.election.as_str(), self.identity.as_str(), token.to_string())
    }
}
