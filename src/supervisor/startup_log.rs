//! Logs the start of a run.
//!
//! Touches only the log. Start with [`log_start`].

use crate::config::Config;
use crate::http::listen::Listeners;
use crate::process::last_run::{APPLICATION_LEFT_RUNNING, LastEnd};
use baton_election::identity::Identity;
use std::time::Duration;

/// Logs how the previous run ended, and the resulting delay of the campaign.
pub(super) fn log_previous_end(config: &Config, last: &LastEnd, delay: Duration) {
    let (election, reason) = (config.election.as_str(), last.reason.as_str());
    let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    let at = humantime::format_rfc3339_seconds(last.at).to_string();
    let message = if last.left_application_running(config.outlived_by_application()) {
        APPLICATION_LEFT_RUNNING
    } else if delay.is_zero() {
        "the previous run ended"
    } else {
        "previous runs ended badly: campaigning is delayed"
    };
    tracing::info!(
        event = "previous_end",
        election,
        reason,
        code = last.code,
        at,
        delay_ms,
        "{message}"
    );
}

/// Logs the first line of a run. Warns of flags that do nothing, and of other machines that can reach
/// the application's listener.
pub(super) fn log_start(
    config: &Config,
    identity: &Identity,
    location: &str,
    listeners: &Listeners,
    probes: Option<&Listeners>,
) {
    let listen = listeners.address.to_string();
    let probe_listen =
        probes.map_or_else(|| "none".to_owned(), |listeners| listeners.address.to_string());
    tracing::info!(
        event = "starting",
        election = config.election.as_str(),
        identity = identity.as_str(),
        backend = config.store.as_str(),
        place = location,
        listen,
        probe_listen,
        version = crate::telemetry::build::VERSION,
        "{identity} is a candidate of election {}, held in {location}: ask http://{listen}/leader",
        config.election,
    );
    for flag in &config.unused_flags {
        tracing::warn!(event = "unused_flag", "{flag}");
    }
    if !listeners.address.ip().to_canonical().is_loopback() {
        tracing::warn!(
            event = "exposed_listener",
            "--listen {} is not loopback: every client that reaches {listen} can obtain promises, \
             which delays a handover; pass --listen localhost:{}, and use --probe-listen for \
             kubelet and Prometheus",
            config.listen,
            listeners.address.port(),
        );
    }
}
