//! Draws the timing of a configuration for `check-config`.
//!
//! Pure. Start with [`Timeline`].

use crate::config::{Config, OnLost, StoreConfig};
use baton_election::duration::Rounded;
use std::fmt::{self, Display};
use std::time::Duration;

/// The longest time that `RestartAllContainers` of Kubernetes 1.36 takes to end a container.
const RESTART_ALL_CONTAINERS: Duration = Duration::from_secs(4);

/// Displays the timing, and how soon the application must stop after a loss.
pub(super) struct Timeline<'a> {
    pub(super) config: &'a Config,
    pub(super) in_kubernetes: bool,
}

impl Display for Timeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { election, store, identity_prefix, timing, on_lost, .. } = self.config;
        let (timing, margin) = match store {
            StoreConfig::Lease { .. } | StoreConfig::Etcd(_) | StoreConfig::File { .. } => {
                (*timing, timing.margin())
            }
            StoreConfig::ZooKeeper(zookeeper) => zookeeper.timing.expected(),
        };
        let (lease, renew) = (timing.lease_duration(), timing.renew_deadline());
        let last_answer = Rounded::down(renew.saturating_sub(timing.answer_validity()));
        let retry = Rounded::nearest(timing.retry_period());
        let [shown_margin, claim_ends, others] = [margin, renew, lease].map(Rounded::down);
        writeln!(f, "election {election} in {}, as {identity_prefix}_<uuid>\n", store.as_str())?;
        writeln!(f, "  0            {retry:<12} {last_answer:<12} {claim_ends:<12} {others}")?;
        writeln!(f, "  ├────────────┼────────────┼────────────┼────────────┼──►")?;
        writeln!(f, "  renewal      next         last answer  claim ends   others")?;
        writeln!(f, "  is sent      renewal      \"leading\"                 may lead\n")?;
        let call = Rounded::nearest(timing.call_timeout());
        writeln!(f, "a renewal is attempted up to three times, {call} each")?;
        let validity = Rounded::down(timing.answer_validity());
        writeln!(f, "an answer \"leading\" is good for {validity}: ask at least that often")?;
        writeln!(
            f,
            "if clocks differ by {} in rate, at least {shown_margin} separate the claims of two \
             leaders",
            timing.drift()
        )?;
        let restarts_containers = match store {
            StoreConfig::Lease { .. } => true,
            StoreConfig::ZooKeeper(_) | StoreConfig::Etcd(_) => self.in_kubernetes,
            StoreConfig::File { .. } => false,
        };
        match on_lost {
            OnLost::Exit if restarts_containers => write!(
                f,
                "an application that never asks must be gone within {shown_margin} of the claim's \
                 end: Kubernetes 1.36 takes up to 4 s to end it by RestartAllContainers{}",
                if margin < RESTART_ALL_CONTAINERS {
                    ", which is too long: let it ask"
                } else {
                    ""
                }
            ),
            OnLost::Exit => write!(
                f,
                "an application that never asks must be gone within {shown_margin} of the claim's \
                 end: end it when the sidecar exits with 75, or let it ask"
            ),
            OnLost::Stay => write!(
                f,
                "with --on-lost=stay, nothing stops an application that never asks: let it ask"
            ),
        }
    }
}
