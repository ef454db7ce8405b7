//! The log lines of a start.
//!
//! Touches the log only.

use crate::config::Config;
use crate::http::listen::Listeners;
use crate::process::last_run::{LEFT_BEHIND, LastEnd};
use baton_election::identity::Identity;
use std::time::Duration;

/// Logs how the run before this one ended.
pub(super) fn log_previous_end(config: &Config, last: &LastEnd, delay: Duration) {
    let (election, reason) = (config.election.as_str(), last.reason.as_str());
    let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    let at = humantime::format_rfc3339_seconds(last.at).to_string();
    let what = if last.left_application_behind(config.on_lost) {
        LEFT_BEHIND
    } else if delay.is_zero() {
        "how the run before this one ended"
    } else {
        "the run before this one ended badly: campaigning is delayed"
    };
    tracing::info!(
        event = "previous_end",
        election,
        reason,
        code = last.code,
        at,
        delay_ms,
        "{what}"
    );
}

/// Logs the first line of a run, and warns of a listener that strangers reach.
pub(super) fn log_start(
    config: &Config,
    identity: &Identity,
    place: &str,
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
        backend = config.backend.as_str(),
        place,
        listen,
        probe_listen,
        version = crate::telemetry::build::VERSION,
        "{identity} is a candidate of election {}, held in {place}: ask http://{listen}/leader",
        config.election,
    );
    if !listeners.address.ip().to_canonical().is_loopback() {
        tracing::warn!(
            event = "exposed_listener",
            "--listen {} is not loopback: anyone who reaches {listen} can ask as the application does and so delay a \
             handover; write --listen localhost:{}, and let kubelet and Prometheus ask at --probe-listen",
            config.listen,
            listeners.address.port(),
        );
    }
}
