//! Asks the application whether it is fit to lead, and withdraws the candidate while it is not.
//!
//! Touches the network, to loopback addresses only, and the driver through [`Control`]. Start with
//! [`watch`]. The verdict is pure: see [`Fitness`].

mod probe;
mod verdict;

use crate::config::{Config, FitnessConfig, StoreConfig};
use crate::driver::leadership::Reader;
use crate::driver::{Control, DriverStopped};
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::telemetry::metrics::Metrics;
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use baton_election::withdrawals::{Cause, Order};
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
        has_warned: false,
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
    has_warned: bool,
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
                Some(Change::Unfit) if self.unfit().await? => return Ok(()),
                Some(Change::Unfit) | None => {}
            }
            self.warn_of_no_leader(Clock.now());
            Clock.sleep_until((began + self.fitness.period).max(Clock.now())).await;
        }
    }

    async fn fit(&mut self) -> Result<(), DriverStopped> {
        self.has_warned = false;
        self.metrics.set_fit(true);
        tracing::info!(
            event = "fit",
            election = self.config.election.as_str(),
            "the application is fit to lead: {} answers",
            self.fitness.url
        );
        self.control.end(Cause::Unfit).await
    }

    /// Withdraws. Returns whether the process must end.
    async fn unfit(&mut self) -> Result<bool, DriverStopped> {
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
        if self.config.asks_by_declaration() || self.reader.published_claim().is_none() {
            // Baton keeps asking the application, whatever the store answers.
            return Ok(false);
        }
        withdrawn.outcome().await?;
        if self.reader.published_claim().is_none() {
            return Ok(false);
        }
        tracing::warn!(
            event = "unfit",
            election = self.config.election.as_str(),
            code = Exit::Lost.code(),
            "the last promise has expired, and the application is not declared to ask: exiting \
             with {} without a release",
            Exit::Lost.code()
        );
        Ok(true)
    }

    /// Logs once that the election has no leader while this application is not fit. Over ZooKeeper
    /// a withdrawn candidate does not know the leader.
    fn warn_of_no_leader(&mut self, now: Instant) {
        let lease = self.config.timing.lease_duration();
        let is_due = !self.verdict.is_fit() && !self.has_warned && self.unfit_since + lease <= now;
        let knows_leaders = match self.config.store {
            StoreConfig::Lease { .. } | StoreConfig::File { .. } => true,
            StoreConfig::ZooKeeper(_) => false,
        };
        let status = self.reader.peek(now).status;
        if !is_due || !knows_leaders || !matches!(status, Status::Following { leader: None }) {
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

const fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}
