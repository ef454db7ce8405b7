//! A thousand candidates of one election in one process: their load on the server at rest, and how
//! many of them one departure wakes.
//!
//! Each has the state machine, the driver, and the client of a sidecar. All counts are the
//! server's.

use super::PATIENCE;
use crate::rig::{ELECTION, Ensemble, Settings};
use baton::config::{ElectionName, OnLost, ZooKeeperConfig};
use baton::driver::leadership::{Reader, publish};
use baton::driver::{Control, DriverContext, drive, orders};
use baton::health::Health;
use baton::process::clock::Clock;
use baton::store::zookeeper::ZooKeeperStore;
use baton::telemetry::metrics::Metrics;
use baton::telemetry::reporter::Reporter;
use baton_election::identity::Identity;
use baton_election::machine::Request as _;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::QueueRequest;
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use std::cell::Cell;
use std::time::Duration;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const CROWD: usize = 1000;
const T: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The most requests that all candidates at rest may send in this time. Each reads the leader every
/// quarter of its session, and its predecessor every three quarters. Each may be one request ahead.
fn max_requests(span: Duration) -> u64 {
    let requests = u128::try_from(CROWD).unwrap() * span.as_millis() * 16 / (3 * T.as_millis());
    u64::try_from(requests).unwrap() + CROWD as u64
}

struct Member {
    reader: Reader,
    /// Keeps the driver's channel of orders open.
    _control: Control,
    drive: JoinHandle<()>,
}

impl Member {
    fn start(config: &ZooKeeperConfig, metrics: &Metrics) -> Self {
        let timing = *config.timing.requested();
        let config = config.clone();
        let (publisher, reader) = publish(timing.answer_validity());
        let (control, orders) = orders();
        let identity = Identity::unique("one", Uuid::new_v4()).unwrap();
        let jitter = Jitter::new(Uuid::new_v4().as_u64_pair().0);
        let campaign_from = Clock.now();
        let machine = QueueElection::new(identity.clone(), config.timing, jitter, campaign_from);
        let election: ElectionName = ELECTION.parse().unwrap();
        let reporter = Reporter::new(election, identity, metrics.clone());
        let (health, on_lost, refusal_timeout) = (Health::default(), OnLost::Stay, T);
        let context = DriverContext {
            publisher,
            orders,
            reporter,
            health,
            on_lost,
            refusal_timeout,
            campaign_from,
            first_order: None,
        };
        let drive = spawn_local(async move {
            let store = ZooKeeperStore::open(&config, timing.call_timeout()).await.unwrap();
            drive(machine, &store, context).await;
        });
        Self { reader, _control: control, drive }
    }

    fn leads(&self) -> bool {
        self.reader.claim(Clock.now()).is_some()
    }
}

/// A server whose counters are read, which is a request that the server counts too.
struct CountingServer {
    ensemble: Ensemble,
    reads: Cell<u64>,
}

impl CountingServer {
    fn watches(&self) -> u64 {
        self.count("zk_watch_count")
    }

    fn ephemerals(&self) -> u64 {
        self.count("zk_ephemerals_count")
    }

    /// The requests of the candidates.
    fn requests(&self) -> u64 {
        self.count("zk_packets_received") - self.reads.get()
    }

    /// The watches that a deletion has fired.
    fn fired_watches(&self) -> u64 {
        self.count("zk_sum_node_deleted_watch_count")
    }

    fn count(&self, name: &str) -> u64 {
        self.reads.set(self.reads.get() + 1);
        self.ensemble.count(name)
    }
}

/// Waits until something holds, and checks that there is never more than one leader.
async fn wait_until(members: &[Member], what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "timed out waiting until {what}");
        let leaders = members.iter().filter(|member| member.leads()).count();
        assert!(leaders <= 1, "{leaders} leaders while waiting until {what}");
        sleep(POLL_INTERVAL).await;
    }
}

#[test]
fn departure_among_a_thousand_candidates_wakes_one() {
    let lines = vec!["maxSessionTimeout=20000".to_owned()];
    let ensemble = Ensemble::start(Settings { lines, ..Settings::default() });
    let server = CountingServer { ensemble, reads: Cell::new(0) };
    let durations = Durations {
        lease_duration: T,
        renew_deadline: Duration::from_secs(14),
        retry_period: RETRY,
        answer_validity: Duration::from_secs(2),
    };
    let timing = Timing::new(durations, Drift::default()).unwrap();
    let timing = SessionTiming::new(timing, server.ensemble.tick()).unwrap();
    let (servers, path) =
        (server.ensemble.connect_string().parse().unwrap(), "/baton/orders".to_owned());
    let config = ZooKeeperConfig { servers, path, timing, auth_file: None, tls: None };
    let metrics = Metrics::new(&ELECTION.parse().unwrap(), QueueRequest::VERBS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut members: Vec<Member> =
            (0..CROWD).map(|_| Member::start(&config, &metrics)).collect();
        let crowd = CROWD as u64;
        wait_until(&members, "all have joined and the leader has announced its term", || {
            server.ephemerals() == crowd + 1 && server.watches() == crowd
        })
        .await;
        let leader = members.iter().position(Member::leads).unwrap();

        let (started, before) = (Instant::now(), server.requests());
        sleep(T).await;
        let (requests, elapsed) = (server.requests() - before, started.elapsed());
        println!("{CROWD} candidates at rest: {requests} requests in {elapsed:?}");
        assert!(requests <= max_requests(elapsed), "{requests} requests in {elapsed:?}");
        assert_eq!(server.fired_watches(), 0, "no watch fires at rest");

        for (role, at) in [("a follower", (leader + CROWD / 2) % CROWD), ("the leader", leader)] {
            let (ephemerals, fired) = (server.ephemerals(), server.fired_watches());
            let departing = members.swap_remove(at);
            let was_leading = departing.leads();
            departing.drive.abort();
            drop(departing);
            let (started, before) = (Instant::now(), server.requests());
            wait_until(&members, "its session ends", || server.ephemerals() < ephemerals).await;
            wait_until(&members, "a candidate leads", || members.iter().any(Member::leads)).await;
            wait_until(&members, "all watch again", || server.watches() == members.len() as u64)
                .await;
            let requests = server.requests() - before;
            let (elapsed, fired) = (started.elapsed(), server.fired_watches() - fired);
            println!("{role} left: {fired} woken, {requests} requests in {elapsed:?}");
            assert_eq!(fired, 1, "{role} has one candidate behind it");
            assert!(requests <= max_requests(elapsed), "{requests} requests in {elapsed:?}");
            assert_eq!(was_leading, role == "the leader");
        }
    });
}
