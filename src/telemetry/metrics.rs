//! The Prometheus metrics.
//!
//! Touches the `prometheus` crate, which no other module uses. Start with [`Metrics`]. Gauges are
//! computed at each scrape, because a gauge that a task sets can outlive the claim that it shows.

use crate::config::ElectionName;
use crate::driver::leadership::Reader;
use crate::health::Health;
use crate::kubernetes::endpoint_slice::Family;
use crate::process::last_run::LastEnd;
use crate::store::RequestSummary;
use crate::telemetry::build;
use baton_election::claim::FencingToken;
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use baton_election::machine::{Outcome, Reason, Transition, Verb};
use prometheus::core::Collector;
use prometheus::{
    Encoder as _, Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
};
use prometheus::{Opts, Registry, TextEncoder};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The content type of [`Metrics::scrape`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// The names and descriptions of the histograms.
const RENEW_DURATION: (&str, &str) =
    ("baton_renew_duration_seconds", "Duration of renewals, in seconds");
const GUARD_LATENESS: (&str, &str) =
    ("baton_guard_lateness_seconds", "How late the guard of a command handled a timer, in seconds");

/// The upper bounds of the histogram of renewals, in seconds: from a local file (1 ms) to an
/// overloaded API server (10 s).
const RENEW_BUCKETS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The upper bounds of the histogram of the guard's lateness, in seconds: from an idle machine (1 ms)
/// to one on which the command outlives its claim (0.5 s).
const LATENESS_BUCKETS: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5];

/// The metrics of this process. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Series>);

#[derive(Debug)]
struct Series {
    registry: Registry,
    is_leader: IntGauge,
    master_status: IntGauge,
    has_leader: IntGauge,
    fit: IntGauge,
    standing: IntGaugeVec,
    claim_remaining: Gauge,
    standing_since: Gauge,
    last_contact: Gauge,
    acquisitions: IntCounter,
    losses: IntCounterVec,
    leader_changes: IntCounter,
    stopping_expired: IntCounter,
    renewals: IntCounterVec,
    requests: IntCounterVec,
    routing: RoutingSeries,
    renew_duration: Histogram,
    guard_lateness: Histogram,
    last_end: IntGaugeVec,
    last_end_timestamp: Gauge,
}

impl Metrics {
    /// The metrics of `election`, all at zero, for a store whose requests have these `verbs`.
    pub fn new(election: &ElectionName, verbs: &[Verb]) -> Self {
        let series = Series::new(election.as_str());
        // `increase()` misses the first increment of a series that does not exist before it.
        for reason in Reason::ALL.map(Reason::as_str) {
            series.losses.with_label_values(&[reason]);
            series.last_end.with_label_values(&[reason]);
        }
        for outcome in Outcome::ALL.map(Outcome::as_str) {
            series.renewals.with_label_values(&[outcome]);
            series.routing.writes.with_label_values(&[outcome]);
            for verb in verbs {
                series.requests.with_label_values(&[verb.as_str(), outcome]);
            }
        }
        series.fit.set(1);
        Self(Arc::new(series))
    }

    /// Counts a change of standing.
    pub(crate) fn count_transition<D>(&self, transition: &Transition<D>) {
        let series = &self.0;
        match transition {
            Transition::Following { leader: Some(_) } => series.leader_changes.inc(),
            Transition::Following { leader: None }
            | Transition::StoreWentBack { .. }
            | Transition::Diagnosed(_)
            | Transition::ReleasedForEndedRun { .. } => {}
            Transition::Leading { .. } => {
                series.acquisitions.inc();
                series.leader_changes.inc();
            }
            Transition::Lost { reason, .. } | Transition::Resigned { reason, .. } => {
                series.losses.with_label_values(&[reason.as_str()]).inc();
            }
        }
    }

    /// Exports whether the application is fit to lead.
    pub(crate) fn set_fit(&self, is_fit: bool) {
        self.0.fit.set(is_fit.into());
    }

    /// Notes the term in which the slice of this family holds our addresses.
    pub(crate) fn set_published(&self, family: Family, token: Option<FencingToken>) {
        let mut published = self.0.routing.lock();
        let [v4, v6] = &mut *published;
        match family {
            Family::V4 => *v4 = token,
            Family::V6 => *v6 = token,
        }
    }

    /// Counts a write to an EndpointSlice.
    pub(crate) fn count_slice_write(&self, outcome: Outcome) {
        self.0.routing.writes.with_label_values(&[outcome.as_str()]).inc();
    }

    /// Counts a withdrawal that no SIGTERM followed in time.
    pub(crate) fn count_stopping_expired(&self) {
        self.0.stopping_expired.inc();
    }

    /// Counts how late the guard of a command handled a timer.
    pub(crate) fn observe_guard_lateness(&self, late: Duration) {
        self.0.guard_lateness.observe(late.as_secs_f64());
    }

    /// Counts a request by its outcome.
    pub(crate) fn count_request(&self, request: RequestSummary, outcome: Outcome, took: Duration) {
        self.0.requests.with_label_values(&[request.verb.as_str(), outcome.as_str()]).inc();
        if request.is_renewal {
            self.0.renewals.with_label_values(&[outcome.as_str()]).inc();
            self.0.renew_duration.observe(took.as_secs_f64());
        }
    }

    /// Exports how the last run ended.
    pub(crate) fn set_last_end(&self, last: &LastEnd) {
        self.0.last_end.with_label_values(&[last.reason.as_str()]).set(1);
        self.0.last_end_timestamp.set(unix_seconds(last.at));
    }

    /// Every metric as of `now`, in the text format 0.0.4.
    pub fn scrape(&self, reader: &Reader, health: &Health, now: Instant) -> Vec<u8> {
        self.0.refresh(reader, health, now);
        let mut text = Vec::new();
        let encoded = TextEncoder::new().encode(&self.0.registry.gather(), &mut text);
        encoded.expect("writing to memory cannot fail");
        text
    }
}

impl Series {
    fn new(election: &str) -> Self {
        let registry = Registry::new();
        let opts = |name: &str, help: &str| Opts::new(name, help).const_label("election", election);
        let gauge = |name, help| register(&registry, Gauge::with_opts(opts(name, help)));
        let flag = |name, help| register(&registry, IntGauge::with_opts(opts(name, help)));
        let count = |name, help| register(&registry, IntCounter::with_opts(opts(name, help)));
        let counts = |name, help, labels: &[&str]| {
            register(&registry, IntCounterVec::new(opts(name, help), labels))
        };
        let status = Opts::new(
            "leader_election_master_status",
            "1 while this process leads (client-go's name)",
        );
        let histogram = |(name, help): (&str, &str), buckets: &[f64]| {
            let opts = HistogramOpts::new(name, help).const_label("election", election);
            register(&registry, Histogram::with_opts(opts.buckets(buckets.to_vec())))
        };
        let standings = opts("baton_standing", "1 for the current standing of this process");
        let ends = opts("baton_last_end_info", "1 for the reason why the last run ended");
        let info = opts("baton_build_info", "1, with the version and revision as labels");
        register_process(&registry, info);
        Self {
            is_leader: flag("baton_is_leader", "1 while this process leads; 0 while it resigns"),
            master_status: register(
                &registry,
                IntGauge::with_opts(status.const_label("name", election)),
            ),
            has_leader: flag(
                "baton_has_leader",
                "1 while this process leads or knows the leader; 0 while it resigns",
            ),
            fit: flag("baton_fit", "1 while the application is fit to lead, or without --fit-url"),
            standing: register(&registry, IntGaugeVec::new(standings, &["standing"])),
            claim_remaining: gauge(
                "baton_claim_remaining_seconds",
                "Time until the claim of this process ends, in seconds; 0 without a claim",
            ),
            standing_since: gauge(
                "baton_standing_since_timestamp_seconds",
                "Unix time of the last change of standing or leader; initially the start time",
            ),
            last_contact: gauge(
                "baton_store_last_contact_timestamp_seconds",
                "Unix time of the last answer of the store; 0 before the first",
            ),
            acquisitions: count("baton_acquisitions_total", "Times this process became leader"),
            losses: counts("baton_losses_total", "Times this process stopped leading", &["reason"]),
            leader_changes: count(
                "baton_leader_changes_seen_total",
                "Changes of leader seen by this process",
            ),
            stopping_expired: count(
                "baton_stopping_expired_total",
                "Withdrawals by baton stopping that no SIGTERM followed in time",
            ),
            renewals: counts("baton_renewals_total", "Renewals by outcome", &["outcome"]),
            requests: counts(
                "baton_store_requests_total",
                "Requests to the store by verb and outcome",
                &["verb", "outcome"],
            ),
            routing: RoutingSeries::new(&registry, opts),
            renew_duration: histogram(RENEW_DURATION, &RENEW_BUCKETS),
            guard_lateness: histogram(GUARD_LATENESS, &LATENESS_BUCKETS),
            last_end: register(&registry, IntGaugeVec::new(ends, &["reason"])),
            last_end_timestamp: gauge(
                "baton_last_end_timestamp_seconds",
                "Unix time of the end of the last run; 0 if unknown",
            ),
            registry,
        }
    }

    fn refresh(&self, reader: &Reader, health: &Health, now: Instant) {
        let remaining = reader.claim(now).map(|claim| claim.remaining(now));
        let status = reader.peek(now).status;
        let leads = matches!(status, Status::Leading(_));
        self.routing.refresh(&status);
        let knows_another = matches!(status, Status::Following { leader: Some(_) });
        self.is_leader.set(leads.into());
        self.master_status.set(leads.into());
        // A candidate that resigns knows that there is no leader.
        self.has_leader.set((leads || knows_another).into());
        for standing in Status::STANDINGS {
            self.standing
                .with_label_values(&[standing])
                .set((standing == status.standing()).into());
        }
        self.claim_remaining.set(remaining.unwrap_or_default().as_secs_f64());
        self.standing_since.set(unix_seconds(health.standing_since()));
        self.last_contact.set(health.last_contact().map_or(0.0, unix_seconds));
    }
}

/// The metrics of routing.
#[derive(Debug)]
struct RoutingSeries {
    slices: IntGauge,
    writes: IntCounterVec,
    /// The terms in which our addresses were published: in the slice of IPv4, and in that of IPv6.
    published: Mutex<[Option<FencingToken>; 2]>,
}

impl RoutingSeries {
    fn new(registry: &Registry, opts: impl Fn(&str, &str) -> Opts) -> Self {
        let slices = opts(
            "baton_endpoint_slices",
            "EndpointSlices with the addresses of this process, while it leads",
        );
        let writes = opts("baton_endpoint_writes_total", "Writes to EndpointSlices by outcome");
        Self {
            slices: register(registry, IntGauge::with_opts(slices)),
            writes: register(registry, IntCounterVec::new(writes, &["outcome"])),
            published: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Option<FencingToken>; 2]> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refresh(&self, status: &Status) {
        let in_this_term = |token: &&Option<FencingToken>| match status {
            Status::Leading(promise) => **token == Some(promise.token),
            Status::Unknown | Status::Following { .. } | Status::Resigning => false,
        };
        let slices = self.lock().iter().filter(in_this_term).count();
        self.slices.set(slices.try_into().unwrap_or_default());
    }
}

/// Registers what describes the process: its build, and `process_*`.
fn register_process(registry: &Registry, info: Opts) {
    let info = info.const_label("version", build::VERSION).const_label("revision", build::REVISION);
    register(registry, IntGauge::with_opts(info)).set(1);
    let process = prometheus::process_collector::ProcessCollector::for_self();
    registry.register(Box::new(process)).expect("process_* is registered once");
}

/// Registers a metric. Panics on a malformed or duplicate name, which any test would find.
fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: prometheus::Result<C>,
) -> C {
    let collector = collector.expect("the metric's name is well formed");
    registry.register(Box::new(collector.clone())).expect("the metric's name is unique");
    collector
}

fn unix_seconds(wall: SystemTime) -> f64 {
    wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
