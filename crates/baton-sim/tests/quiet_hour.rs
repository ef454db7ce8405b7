//! Counts the requests of a quiet hour: one election of three candidates, without a fault.
//!
//! Touches only `docs/concepts/scale.md`, which multiplies these counts: a test fails when they or
//! the page change. Start with [`count`]. Not counted: watches, which the client of a Lease reopens
//! by itself.

use baton_election::machine::{Election, Request};
use baton_election::record::preference::Preference;
use baton_election::timing::{Drift, Durations, Timing};
use baton_sim::clock::{Moment, Rate};
use baton_sim::ensemble::Ensemble;
use baton_sim::record_store::RecordStore;
use baton_sim::scenario::{
    CandidateConfig, EnsembleConfig, Numbering, Push, RecordConfig, Scenario, StoreConfig,
};
use baton_sim::store::Store;
use baton_sim::trace::{Observer, TraceContext, TraceEvent};
use baton_sim::world::World;
use std::collections::BTreeMap;
use std::time::Duration;

const PAGE: &str = include_str!("../../../docs/concepts/scale.md");
const LEASE_WATCH: &str = include_str!("../../../src/store/kubernetes/watch.rs");

/// Nothing is counted before, so that the requests of a start do not count.
const WARM_UP: Duration = Duration::from_mins(5);
const HOUR: Duration = Duration::from_hours(1);
const LATENCY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));

/// Lease duration, renew deadline, and retry period, in seconds.
type Seconds = [u64; 3];

/// The defaults.
const DEFAULT: Seconds = [15, 10, 2];
/// As the operators of `OpenShift` use.
const LONG: Seconds = [137, 107, 26];
/// The longest session that a server with a tick of 2 s grants, and durations that fit it.
const LONG_SESSION: Seconds = [40, 26, 5];

/// The watches that three candidates open in an hour, since a watch lasts a minute.
const WATCHES: u64 = 3 * 60;
/// The bytes that a renewal of a Lease adds to the log of an etcd member, and a heartbeat to that of
/// a ZooKeeper server (`cargo bench --bench figures -- lease-cost zookeeper-cost`), rounded.
const RENEWAL_BYTES: u64 = 600;
const HEARTBEAT_BYTES: u64 = 150;

/// The requests that a role sends in an hour, by verb.
type Counts = BTreeMap<&'static str, u64>;

/// Counts events after the warm-up.
#[derive(Debug, Default)]
struct Counter {
    leader: Option<usize>,
    of_leader: Counts,
    of_followers: Counts,
    watch_events: u64,
}

impl<E: Election> Observer<E> for Counter {
    fn observe(&mut self, context: &TraceContext<'_>, event: &TraceEvent<'_, E>) {
        let is_warm = context.now >= Moment::START + WARM_UP;
        if let TraceEvent::ClaimPublished(candidate, claim) = event {
            let leader = claim.map(|_| *candidate);
            assert!(!is_warm || leader == self.leader, "leadership changed at {:?}", context.now);
            self.leader = leader;
        }
        if let TraceEvent::RequestSent(candidate, request, _) = event
            && is_warm
        {
            let leads = self.leader == Some(*candidate);
            let counts = if leads { &mut self.of_leader } else { &mut self.of_followers };
            *counts.entry(request.verb().as_str()).or_default() += 1;
        }
        if let TraceEvent::WatchEventReceived(..) = event
            && is_warm
        {
            self.watch_events += 1;
        }
    }
}

/// Counts over a Lease.
fn count_over_lease(durations: Seconds) -> Counter {
    let config =
        RecordConfig { whole_seconds: true, checks_version: true, numbering: Numbering::Unique };
    count(durations, StoreConfig::Record(config), RecordStore::new(config))
}

/// Counts over three ZooKeeper servers with the default tick.
fn count_over_zookeeper(durations: Seconds) -> Counter {
    let tick = Duration::from_secs(2);
    let config = EnsembleConfig {
        clock_start: Duration::ZERO,
        clock_rates: vec![Rate::TRUE; 3],
        tick,
        configured_tick: tick,
        sync_limit: 5,
        latency: LATENCY,
    };
    let store = Ensemble::new(config.clone(), 3, 1);
    count(durations, StoreConfig::Ensemble(config), store)
}

/// Runs an election for an hour after the warm-up.
fn count<S: Store>(durations: Seconds, config: StoreConfig, store: S) -> Counter {
    let [lease_duration, renew_deadline, retry_period] = durations.map(Duration::from_secs);
    let durations =
        Durations { lease_duration, renew_deadline, retry_period, answer_validity: retry_period };
    let timing = Timing::new(durations, Drift::default()).expect("the durations are valid");
    let candidate = |number: u64| CandidateConfig {
        timing,
        clock_start: Duration::from_secs(1_000),
        clock_rate: Rate::TRUE,
        starts_at: Moment::START + Duration::from_secs(3 * number),
        stays_on_loss: true,
        asks: true,
        keeps_state: false,
        poll_interval: Duration::from_secs(1),
        push: Push::default(),
        preference: Preference::FIRST,
        command: None,
    };
    let scenario = Scenario {
        seed: 1,
        candidates: (0..3).map(candidate).collect(),
        store: config,
        leaders_watch: true,
        latency: LATENCY,
        faults: Vec::new(),
        end: Moment::START + WARM_UP + HOUR,
    };
    World::new(scenario, store, Counter::default()).run()
}

/// How many requests a role sends in an hour.
fn total(counts: &Counts) -> u64 {
    counts.values().sum()
}

/// The renewals of an hour, up to one at each end.
fn assert_renewals(counted: u64, [_, _, retry_period]: Seconds) {
    let expected = 3600 / retry_period;
    assert!(counted.abs_diff(expected) <= 1, "{counted} renewals, {expected} expected");
}

/// The reads of two followers in an hour. Their jitter averages out to some percent.
fn assert_reads(counted: u64, [session_timeout, _, retry_period]: Seconds) {
    let [session_timeout, retry_period] = [session_timeout, retry_period].map(exact);
    let between_names = 0.875 * (2.0 * retry_period).min(session_timeout / 3.0);
    let expected = 2.0 * 3600.0 * (1.0 / between_names + 1.0 / (0.875 * session_timeout));
    let counted = exact(counted);
    assert!((counted / expected - 1.0).abs() < 0.02, "{counted} reads, {expected} expected");
}

fn exact(count: u64) -> f64 {
    f64::from(u32::try_from(count).expect("some thousands"))
}

#[test]
fn only_the_leader_of_a_lease_sends_requests() {
    for durations in [DEFAULT, LONG] {
        let counted = count_over_lease(durations);
        assert_eq!(counted.of_leader.keys().collect::<Vec<_>>(), [&"replace"]);
        let renewals = total(&counted.of_leader);
        assert_renewals(renewals, durations);
        assert_eq!(counted.of_followers, Counts::new());
        assert_eq!(counted.watch_events, 3 * renewals);
    }
}

#[test]
fn leader_of_a_queue_checks_and_followers_read() {
    for durations in [DEFAULT, LONG_SESSION] {
        let counted = count_over_zookeeper(durations);
        assert_eq!(counted.of_leader.keys().collect::<Vec<_>>(), [&"check"]);
        assert_renewals(total(&counted.of_leader), durations);
        assert_eq!(counted.of_followers.keys().collect::<Vec<_>>(), [&"read"]);
        assert_reads(total(&counted.of_followers), durations);
        assert_eq!(counted.watch_events, 0);
    }
}

#[test]
fn page_multiplies_the_counts() {
    let lease = count_over_lease(DEFAULT);
    let zookeeper = count_over_zookeeper(DEFAULT);
    let [renewals, checks] = [&lease, &zookeeper].map(|counted| total(&counted.of_leader));
    let reads = total(&zookeeper.of_followers);
    assert_page_has(&format!(
        "| renewals or heartbeats | {} | {} |",
        grouped(renewals),
        grouped(checks)
    ));
    assert_page_has(&format!("| reads of two followers | 0 | {} |", grouped(reads)));
    assert_page_has(&format!("| watch events | {} | 0 |", grouped(lease.watch_events)));
    assert!(LEASE_WATCH.contains("const WATCH_SECONDS: u32 = 60;"), "a watch lasts a minute");
    assert_page_has(&format!("| watches opened (not simulated) | {WATCHES} |"));
    for elections in [1_000, 10_000, 100_000] {
        let row = |store, requests: u64, writes: u64, connections, bytes| {
            let writes_per_day = elections * writes * 24;
            assert_page_has(&format!(
                "| {} | {store} | {} | {} | {} | {} million | {} GB |",
                grouped(elections),
                quotient(elections * requests, 3600),
                quotient(elections * writes, 3600),
                grouped(elections * connections),
                quotient(writes_per_day, 1_000_000),
                quotient(writes_per_day * bytes, 1_000_000_000),
            ));
        };
        row("Leases", renewals + WATCHES, renewals, 4, RENEWAL_BYTES);
        row("ZooKeeper", checks + reads, checks, 3, HEARTBEAT_BYTES);
    }
}

#[test]
fn page_compares_ways_to_cut_requests() {
    let total = 10_000;
    let before = total * (3600 / DEFAULT[2] + WATCHES);
    let row = |what: &str, retry_period, leaders: u64, watches: u64| {
        let writes = leaders * 3600 / retry_period;
        assert_page_has(&format!(
            "| {what} | {} | {} | {} |",
            quotient(writes + watches, 3600),
            quotient(writes, 3600),
            quotient(before, writes + watches)
        ));
    };
    let [_, _, default] = DEFAULT;
    let [_, _, long] = LONG;
    let (groups, rare_watches) = (total / 10, WATCHES / 10);
    row("default durations", default, total, total * WATCHES);
    row("A: `137s` `107s` `26s`", long, total, total * WATCHES);
    row("A, with watches of ten minutes", long, total, total * rare_watches);
    row("B: one election for a group of ten", default, groups, groups * WATCHES);
    row("A with such watches, and B", long, groups, groups * rare_watches);
    let (pods, nodes) = (total * 3 / 30, 100);
    let shared = "C: 30 elections in three Pods share each Pod's renewals and watch";
    row(shared, default, pods, pods * WATCHES / 3);
    let agents = "D: an agent renews for all candidates of a node, 100 nodes";
    row(agents, default, nodes, nodes * WATCHES / 3);
}

fn assert_page_has(row: &str) {
    let rows: Vec<_> = PAGE.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows.iter().any(|line| line.starts_with(row)), "no row of the page begins with {row}");
}

/// A rounded quotient as the page writes it.
fn quotient(dividend: u64, divisor: u64) -> String {
    grouped((dividend + divisor / 2) / divisor)
}

/// A number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(",")
}
