//! Asks the application whether it is fit to lead, and withdraws the candidate while it is not.
//!
//! Touches the network, to loopback addresses only, and the driver through [`Control`]. Start with
//! [`watch`]. The verdict is pure: see [`Fitness`].

mod probe;
mod verdict;

use crate::config::{Config, FitnessConfig, StoreConfig};
use crate::driver::leadership::Reader;
use crate::driver::{Control, DriverStopped, Withdrawn};
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::telemetry::metrics::Metrics;
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use baton_election::withdrawals::{Cause, Order, OrderOutcome};
use std::time::Duration;
use verdict::{Change, Fitness};

/// Why [`watch`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FitnessEnd {
    /// The driver has ended.
    Stopped,
    /// This leader is not fit, its last promise has expired, and its application may act without
    /// asking: the process must end, and the record must not be released.
    Unfit,
}

/// The order for an application that is not fit.
pub fn unfit_order(config: &Config) -> Order {
    Order::Unfit { releases: config.asks_by_declaration() }
}

/// Asks the application again and again. Without a URL, it never returns.
pub async fn watch(
    config: &Config,
    reader: &Reader,
    control: &Control,
    metrics: &Metrics,
) -> FitnessEnd {
    let Some(fitness) = &config.fitness else {
        return std::future::pending().await;
    };
    metrics.set_fit(false);
    let watcher = Watcher {
        config,
        fitness,
        reader,
        control,
        metrics,
        verdict: Fitness::new(fitness.failures),
        unfit_since: Clock.now(),
        last_failure: None,
        leaderless_since: None,
        has_warned: false,
        ending: None,
    };
    match watcher.run().await {
        Ok(()) => FitnessEnd::Unfit,
        Err(DriverStopped) => FitnessEnd::Stopped,
    }
}

struct Watcher<'a> {
    config: &'a Config,
    fitness: &'a FitnessConfig,
    reader: &'a Reader,
    control: &'a Control,
    metrics: &'a Metrics,
    verdict: Fitness,
    unfit_since: Instant,
    last_failure: Option<String>,
    /// Since when no candidate is known to lead.
    leaderless_since: Option<Instant>,
    has_warned: bool,
    /// The withdrawal of an unfit leader whose application is not declared to ask.
    ending: Option<Withdrawn>,
}

impl Watcher<'_> {
    /// Returns when an unfit leader must end its process.
    async fn run(mut self) -> Result<(), DriverStopped> {
        loop {
            let began = Clock.now();
            let answer = probe::ask(&self.fitness.url, self.fitness.timeout).await;
            self.last_failure = answer.as_ref().err().map(|error| ErrorChain(error).to_string());
            match self.verdict.record(answer.is_ok()) {
                Some(Change::Fit) => self.fit().await?,
                Some(Change::Unfit) => self.unfit().await?,
                None => {}
            }
            self.warn_of_no_leader(Clock.now());
            tokio::select! {
                outcome = outcome_of(&mut self.ending) => {
                    self.ending = None;
                    if outcome? == OrderOutcome::Withdrawn && self.reader.published_claim().is_some() {
                        self.log_end();
                        return Ok(());
                    }
                }
                () = Clock.sleep_until((began + self.fitness.period).max(Clock.now())) => {}
            }
        }
    }

    async fn fit(&mut self) -> Result<(), DriverStopped> {
        (self.has_warned, self.ending) = (false, None);
        self.metrics.set_fit(true);
        tracing::info!(
            event = "fit",
            election = self.config.election.as_str(),
            "the application is fit to lead: {} answers",
            self.fitness.url
        );
        self.control.end(Cause::Unfit).await
    }

    /// Withdraws. A leader whose application is not declared to ask ends its process after that.
    async fn unfit(&mut self) -> Result<(), DriverStopped> {
        self.unfit_since = Clock.now();
        self.metrics.set_fit(false);
        tracing::warn!(
            event = "unfit",
            election = self.config.election.as_str(),
            reason = self.last_failure.as_deref(),
            "the application is not fit to lead: {}",
            self.last_failure.as_deref().unwrap_or_default()
        );
        let withdrawn = self.control.withdraw(unfit_order(self.config)).await?;
        let leads = self.reader.published_claim().is_some();
        self.ending = (leads && !self.config.asks_by_declaration()).then_some(withdrawn);
        Ok(())
    }

    fn log_end(&self) {
        tracing::warn!(
            event = "unfit",
            election = self.config.election.as_str(),
            code = Exit::Lost.code(),
            "the last promise has expired, and the application is not declared to ask: exiting \
             with {} without a release",
            Exit::Lost.code()
        );
    }

    /// Logs once that the election has had no leader for a lease duration, while this application
    /// was not fit. Over ZooKeeper, a withdrawn candidate may not know the leader.
    fn warn_of_no_leader(&mut self, now: Instant) {
        let knows_leaders = match self.config.store {
            StoreConfig::Lease { .. } | StoreConfig::Etcd(_) | StoreConfig::File { .. } => true,
            StoreConfig::ZooKeeper(_) => false,
        };
        let is_leaderless =
            knows_leaders && self.reader.peek(now).status == Status::Following { leader: None };
        let since = is_leaderless.then(|| self.leaderless_since.unwrap_or(now));
        self.leaderless_since = since;
        let lease = self.config.timing.lease_duration();
        let is_due = since.is_some_and(|since| since.max(self.unfit_since) + lease <= now);
        if self.verdict.is_fit() || self.has_warned || !is_due {
            return;
        }
        self.has_warned = true;
        tracing::warn!(
            event = "unfit_without_leader",
            election = self.config.election.as_str(),
            reason = self.last_failure.as_deref(),
            "no candidate holds the election, and this one does not campaign because its \
             application has not been fit for {}: {}; if every application waits for a leader \
             before it is fit, pass a --fit-url that does not depend on leading",
            humantime::format_duration(whole_seconds(now.since(self.unfit_since))),
            self.last_failure.as_deref().unwrap_or_default()
        );
    }
}

/// How the order has ended; never returns if there is none.
async fn outcome_of(ending: &mut Option<Withdrawn>) -> Result<OrderOutcome, DriverStopped> {
    match ending {
        Some(withdrawn) => withdrawn.outcome().await,
        None => std::future::pending().await,
    }
}

const fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}
