//! The flags and variables of older leader-elector sidecars, as flags of `baton run`.
//!
//! Pure. Start with [`LeaderElector::translate`]. The flags are those of leader-elector 0.4 and 0.5
//! (kubernetes/contrib, `election/`) and of its forks, and those of nais' elector.

use super::examples::COMPAT;
use baton_election::timing::{Drift, Timing};
use clap::{Args, Subcommand};
use std::fmt::Display;
use std::time::Duration;

/// An older sidecar whose flags `baton compat` takes.
#[derive(Debug, Subcommand)]
pub enum OlderSidecar {
    /// Run with the flags and variables of leader-elector 0.4 and 0.5, its forks, and nais' elector
    #[command(after_help = COMPAT)]
    LeaderElector(Box<LeaderElector>),
}

/// The flags of older leader-elector sidecars, as typed.
#[derive(Debug, Args)]
pub struct LeaderElector {
    /// Name of the election, which becomes that of the Lease
    #[arg(long, env = "ELECTOR_ELECTION", value_name = "NAME")]
    election: Option<String>,
    /// Namespace of the election
    #[arg(
        long,
        env = "ELECTOR_ELECTION_NAMESPACE",
        value_name = "NAME",
        default_value = "default"
    )]
    election_namespace: String,
    /// Name of this candidate [default: the Pod's name, else the host's]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Address for the application [default: localhost:4040]
    #[arg(long, env = "ELECTOR_HTTP", value_name = "ADDR")]
    http: Option<String>,
    /// Lease duration, from which the other durations follow
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    ttl: String,
    /// Kubeconfig for the API server [default: the Pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// Ignored: a Pod always uses its service account
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    use_cluster_credentials: Option<String>,
    /// Address for kubelet, and for Prometheus too [default: :4041]
    #[arg(long, env = "ELECTOR_PROBE_ADDRESS", value_name = "ADDR")]
    probe_address: Option<String>,
    /// Ignored: metrics are served at the probe address
    #[arg(long, env = "ELECTOR_METRICS_ADDRESS", value_name = "ADDR")]
    metrics_address: Option<String>,
    /// Format of the log: text, json
    #[arg(long, env = "ELECTOR_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<String>,
    /// Log level: error, warn, info, debug, trace
    #[arg(long, env = "ELECTOR_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<String>,
}

/// The equivalent flags of `baton run`, and the differences.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// The flags of `baton run`.
    pub flags: Vec<String>,
    /// One sentence per flag whose meaning changes.
    pub notes: Vec<String>,
}

/// A flag that cannot be translated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompatError {
    /// `--ttl` is not a duration.
    #[error("--ttl {0:?} is not a duration: write for example 15s or 1m30s")]
    NotADuration(String),
    /// `--ttl` is too short for safe durations.
    #[error(
        "--ttl {ttl:?} is unsafe: it must leave time for three renewals, and the leader must stop \
         before another one starts even if the rates of their clocks differ by {}; use --ttl \
         {least:?} or longer",
        Drift::default()
    )]
    UnsafeTtl {
        /// The value.
        ttl: Duration,
        /// The least safe value.
        least: Duration,
    },
}

impl LeaderElector {
    /// The flags of `baton run` that mean the same, as far as that is safe.
    pub fn translate(&self) -> Result<Translation, CompatError> {
        let mut run = Translation::default();
        run.flag("backend", "lease");
        run.optional("election", self.election.as_ref());
        run.flag("namespace", &self.election_namespace);
        run.optional("identity-prefix", self.id.as_ref());
        run.optional("kubeconfig", self.kubeconfig.as_ref());
        run.durations(&self.ttl)?;
        run.listen(self.http.as_deref());
        run.optional("probe-listen", self.probe_address.as_ref());
        run.optional("log-format", self.log_format.as_ref());
        run.optional("log-level", self.log_level.as_ref());
        if let Some(address) = non_empty(self.metrics_address.as_ref()) {
            let probes = non_empty(self.probe_address.as_ref()).unwrap_or(":4041");
            run.notes.push(format!(
                "nothing listens at --metrics-address {address}: metrics are at {probes}, beside \
                 the probes"
            ));
        }
        Ok(run)
    }
}

impl Translation {
    fn flag(&mut self, flag: &str, value: impl Display) {
        self.flags.push(format!("--{flag}={value}"));
    }

    fn optional(&mut self, flag: &str, value: Option<&String>) {
        if let Some(value) = non_empty(value) {
            self.flag(flag, value);
        }
    }

    /// Derives all durations from the ttl. The older sidecar used a half and a quarter of the ttl,
    /// which leave no time for a promise.
    fn durations(&mut self, ttl: &str) -> Result<(), CompatError> {
        let lease = humantime::parse_duration(ttl)
            .map_err(|_invalid| CompatError::NotADuration(ttl.to_owned()))?;
        let safe = Timing::suggestion(lease, Drift::default());
        if safe.lease_duration > lease {
            return Err(CompatError::UnsafeTtl { ttl: lease, least: safe.lease_duration });
        }
        self.flag("lease-duration", format_args!("{lease:?}"));
        self.flag("renew-deadline", format_args!("{:?}", safe.renew_deadline));
        self.flag("retry-period", format_args!("{:?}", safe.retry_period));
        Ok(())
    }

    /// Keeps the application's listener on loopback: anyone who reaches it can obtain promises and
    /// make the leader withdraw.
    fn listen(&mut self, http: Option<&str>) {
        let Some(http) = http.filter(|http| !http.is_empty()) else { return };
        let everywhere = ["0.0.0.0:", "[::]:", ":"].iter().find_map(|host| http.strip_prefix(host));
        let Some(port) = everywhere else { return self.flag("listen", http) };
        self.flag("listen", format_args!("localhost:{port}"));
        self.notes.push(format!(
            "--http {http} becomes localhost:{port}: only this Pod's containers can ask"
        ));
    }
}

/// A flag's value. An empty one counts as unset, as everywhere.
fn non_empty(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        sidecar: LeaderElector,
    }

    fn translate(flags: &str) -> Result<Translation, CompatError> {
        let arguments = ["leader-elector"].into_iter().chain(flags.split_whitespace());
        Flags::try_parse_from(arguments)
            .unwrap_or_else(|error| panic!("{error}"))
            .sidecar
            .translate()
    }

    fn flags(older: &str) -> String {
        translate(older).unwrap().flags.join(" ")
    }

    #[test]
    fn flags_become_those_of_run() {
        assert_eq!(
            flags("--election=orders --election-namespace=shop --id=shop-0 --http=localhost:4040"),
            "--backend=lease --election=orders --namespace=shop --identity-prefix=shop-0 \
             --lease-duration=10s --renew-deadline=6.666s --retry-period=1.333s \
             --listen=localhost:4040"
        );
        let defaults = flags("--election=orders --use-cluster-credentials");
        assert!(defaults.contains("--namespace=default --lease-duration=10s"), "{defaults}");
    }

    #[test]
    fn address_of_every_interface_becomes_local() {
        for address in ["0.0.0.0:4040", "[::]:4040", ":4040"] {
            let translation = translate(&format!("--http={address}")).unwrap();
            assert!(translation.flags.contains(&"--listen=localhost:4040".to_owned()));
            assert_eq!(translation.notes.len(), 1, "{:?}", translation.notes);
        }
    }

    #[test]
    fn unsafe_ttl_is_refused_with_the_least_safe_one() {
        let short = Duration::from_millis(100);
        let Err(CompatError::UnsafeTtl { ttl, least }) = translate("--ttl=100ms") else {
            panic!("it is refused");
        };
        assert_eq!(ttl, short);
        assert!(least > short && translate(&format!("--ttl={least:?}")).is_ok(), "{least:?}");
        let almost = least.saturating_sub(Duration::from_millis(1));
        assert!(translate(&format!("--ttl={almost:?}")).is_err(), "{least:?} is not the least");
        assert_eq!(translate("--ttl=soon"), Err(CompatError::NotADuration("soon".to_owned())));
    }
}
