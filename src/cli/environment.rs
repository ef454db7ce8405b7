//! The environment of this process: facts that no flag sets, and misspelled variables.
//!
//! Touches the environment. Start with [`Environment::read`].

use super::{Cli, spelling};
use crate::process::notify::NotifySettings;
use clap::CommandFactory as _;
use std::collections::BTreeSet;

/// Facts about this process that no flag sets.
#[derive(Debug, Default, Clone)]
pub struct Environment {
    /// Whether the process runs in a Pod: `KUBERNETES_SERVICE_HOST` is set.
    pub in_kubernetes: bool,
    /// The Pod's name, from `POD_NAME`.
    pub pod_name: Option<String>,
    /// The Pod's namespace, from `POD_NAMESPACE`.
    pub pod_namespace: Option<String>,
    /// The Pod's addresses with commas between them, from `POD_IPS`.
    pub pod_ips: Option<String>,
    /// The host name.
    pub host_name: String,
    /// Whether the log has no colors: `NO_COLOR` is set (no-color.org), or `TERM` is `dumb`.
    pub wants_plain_text: bool,
    /// How to notify systemd: `NOTIFY_SOCKET` is set.
    pub notify: Option<NotifySettings>,
}

/// A `BATON_…` variable that sets no flag.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The variable that was probably meant, if one is similar.
    pub nearest: Option<String>,
}

impl Environment {
    /// Reads the environment of this process.
    #[expect(clippy::disallowed_methods, reason = "configuration enters here")]
    pub fn read() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            in_kubernetes: variable("KUBERNETES_SERVICE_HOST").is_some(),
            pod_name: variable("POD_NAME"),
            pod_namespace: variable("POD_NAMESPACE"),
            pod_ips: variable("POD_IPS"),
            host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            wants_plain_text: variable("NO_COLOR").is_some()
                || variable("TERM").as_deref() == Some("dumb"),
            notify: variable("NOTIFY_SOCKET").map(|socket| {
                let period = variable("WATCHDOG_USEC");
                NotifySettings::new(socket, period.as_deref(), variable("WATCHDOG_PID").as_deref())
            }),
        }
    }
}

/// The prefix of the variables that set flags.
const PREFIX: &str = "BATON_";

/// The `BATON_…` variables of this process that set no flag of any subcommand.
pub fn unknown_variables() -> Vec<UnknownVariable> {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = variables.filter(|(name, _)| name.starts_with(PREFIX));
    without_flag(ours.map(|(name, value)| (name, value.to_string_lossy().into_owned())))
}

fn without_flag(variables: impl Iterator<Item = (String, String)>) -> Vec<UnknownVariable> {
    let mut root = Cli::command();
    root.build();
    let all = std::iter::once(&root).chain(root.get_subcommands());
    let known: BTreeSet<&str> = all
        .flat_map(clap::Command::get_arguments)
        .filter_map(|flag| flag.get_env()?.to_str())
        .collect();
    let unknown = variables.filter(|(name, value)| {
        !known.contains(name.as_str()) && !is_service_variable(name, value)
    });
    let with_nearest = unknown.map(|(name, _)| {
        let words = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
        let nearest = spelling::nearest(name.strip_prefix(PREFIX).unwrap_or_default(), words);
        UnknownVariable { nearest: nearest.map(|word| format!("{PREFIX}{word}")), name }
    });
    let mut sorted: Vec<_> = with_nearest.collect();
    sorted.sort_by(|one, other| one.name.cmp(&other.name));
    sorted
}

/// Whether kubelet set this variable for a Service named `baton` or `baton-…`.
fn is_service_variable(name: &str, value: &str) -> bool {
    let is_port = name
        .split_once("_PORT_")
        .is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || is_port
        || name.ends_with("_PORT") && value.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variable_suggests_the_nearest_known_one() {
        let variables = [
            ("BATON_ELECTON", "orders"),
            ("BATON_ELECTION", "orders"),
            ("BATON_SERVICE_HOST", "10.0.0.1"),
            ("BATON_METRICS_SERVICE_PORT_HTTP", "4041"),
            ("BATON_PORT", "tcp://10.0.0.1:80"),
            ("BATON_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("BATON_COLOR", "red"),
        ];
        let unknown = without_flag(
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let found: Vec<_> =
            unknown.iter().map(|found| (found.name.as_str(), found.nearest.as_deref())).collect();
        assert_eq!(found, [("BATON_COLOR", None), ("BATON_ELECTON", Some("BATON_ELECTION"))]);
    }
}
