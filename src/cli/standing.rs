//! The standing of a sidecar as a table for people.
//!
//! Pure. Start with [`table`], which reads an answer of `/leader` and the metrics.

use baton_election::text::one_line;
use serde::Deserialize;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The fields of `/leader` that the table shows.
#[derive(Deserialize)]
struct Answer {
    election: String,
    identity: String,
    standing: String,
    leader: Option<String>,
    leader_name: Option<String>,
    token: Option<String>,
    backend: String,
}

/// The table for an answer of `/leader` and the metrics at `now`. `None` if the answer is not
/// Baton's. Lines without a figure in `metrics` are left out.
pub(super) fn table(answer: &str, metrics: &str, now: SystemTime) -> Option<String> {
    let answer: Answer = serde_json::from_str(answer).ok()?;
    let mut table = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        writeln!(table, "{name:<12}{}", one_line(value)).ok();
    };
    line("election", &format!("{} ({})", answer.election, answer.backend));
    let since = time(metrics, "baton_standing_since_timestamp_seconds");
    line(
        "standing",
        &match since {
            Some(since) => {
                let at = humantime::format_rfc3339_seconds(since);
                format!("{} since {at}, {}", answer.standing, ago(since, now))
            }
            None => answer.standing,
        },
    );
    let is_own = answer.leader.as_deref() == Some(answer.identity.as_str());
    line(
        "leader",
        &match answer.leader_name {
            Some(name) if is_own => format!("{name} (this process)"),
            Some(name) => name,
            None => "unknown, or none".to_owned(),
        },
    );
    if let Some(token) = answer.token {
        line("token", &token);
    }
    if samples(metrics, "baton_store_last_contact_timestamp_seconds").next().is_some() {
        let contact = time(metrics, "baton_store_last_contact_timestamp_seconds");
        line(
            "store",
            &contact.map_or_else(
                || "has not answered yet".to_owned(),
                |contact| format!("last answered {}", ago(contact, now)),
            ),
        );
        line("terms ended", &losses(metrics));
    }
    Some(table)
}

/// The reasons why terms have ended, with their numbers.
fn losses(metrics: &str) -> String {
    let reason = |labels: &str| {
        let (_, rest) = labels.split_once("reason=\"")?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let ended = samples(metrics, "baton_losses_total").filter(|(_, count)| *count > 0.0);
    let ended = ended.filter_map(|(labels, count)| Some(format!("{} {count}", reason(labels)?)));
    let ended: Vec<_> = ended.collect();
    if ended.is_empty() { "none".to_owned() } else { ended.join(", ") }
}

/// The samples of a metric: labels and value.
fn samples<'a>(metrics: &'a str, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
    metrics.lines().filter_map(move |line| {
        let (labels, value) = line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once("} ")?;
        Some((labels, value.parse().ok()?))
    })
}

/// A Unix time in the metrics, unless it is zero.
fn time(metrics: &str, name: &str) -> Option<SystemTime> {
    let (_, seconds) = samples(metrics, name).next()?;
    let since_epoch = Duration::try_from_secs_f64(seconds).ok().filter(|it| !it.is_zero())?;
    UNIX_EPOCH.checked_add(since_epoch)
}

/// How long ago `then` was, in whole seconds.
fn ago(then: SystemTime, now: SystemTime) -> String {
    let passed = now.duration_since(then).unwrap_or_default();
    format!("{} ago", humantime::format_duration(Duration::from_secs(passed.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"election":"orders","identity":"a_1","standing":"leading",
        "leader":"a_1","leader_name":"a","token":"7","backend":"lease"}"#;
    const METRICS: &str = "# HELP x\n\
        baton_losses_total{election=\"orders\",reason=\"deadline\"} 2\n\
        baton_losses_total{election=\"orders\",reason=\"fault\"} 0\n\
        baton_standing_since_timestamp_seconds{election=\"orders\"} 60.5\n\
        baton_store_last_contact_timestamp_seconds{election=\"orders\"} 118\n";

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn table_shows_standing_leader_store_and_ended_terms() {
        let lines = "election    orders (lease)\n\
            standing    leading since 1970-01-01T00:01:00Z, 59s ago\n\
            leader      a (this process)\n\
            token       7\n\
            store       last answered 2s ago\n\
            terms ended deadline 2\n";
        assert_eq!(table(ANSWER, METRICS, at(120)).as_deref(), Some(lines));
    }

    #[test]
    fn table_without_metrics_shows_the_answer() {
        let follows = r#"{"election":"orders","identity":"a_1","standing":"following",
            "leader":null,"leader_name":null,"token":null,"backend":"file"}"#;
        let lines = "election    orders (file)\n\
            standing    following\n\
            leader      unknown, or none\n";
        assert_eq!(table(follows, "", at(0)).as_deref(), Some(lines));
        assert_eq!(table("<html>", METRICS, at(0)), None);
    }
}
