//! A thousand candidates of one election, each with the machine, the loop and the client of a sidecar, in one process: what
//! they cost the servers at rest, and whom one end wakes. Only the servers' own counts are believed.

use super::PATIENCE;
use crate::rig::{ELECTION, Ensemble, Settings};
use baton::config::{ElectionName, OnLost, ZooKeeperPlace};
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
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// How often candidates at rest ask at the most, all together: each reads who leads once in three quarters of a third of its
/// session, and looks at the one before it once in three quarters of the whole. Each may be one request ahead.
fn most(span: Duration) -> u64 {
    let asked = u128::try_from(CROWD).unwrap() * span.as_millis() * 16 / (3 * T.as_millis());
    u64::try_from(asked).unwrap() + CROWD as u64
}

struct Member {
    reader: Reader,
    /// While it is there the drive takes orders.
    _control: Control,
    drive: JoinHandle<()>,
}

impl Member {
    fn begin(place: &ZooKeeperPlace, metrics: &Metrics) -> Self {
        let timing = *place.timing.requested();
        let place = place.clone();
        let (publisher, reader) = publish(timing.answer_validity());
        let (control, orders) = orders();
        let identity = Identity::unique("one", Uuid::new_v4()).unwrap();
        let chance = Jitter::new(Uuid::new_v4().as_u64_pair().0);
        let machine = QueueElection::new(identity.clone(), place.timing, chance, Clock.now());
        let election: ElectionName = ELECTION.parse().unwrap();
        let reporter = Reporter::new(election, identity, metrics.clone());
        let (health, on_lost, patience) = (Health::default(), OnLost::Stay, T);
        let seat = DriverContext {
            publisher,
            orders,
            reporter,
            health,
            on_lost,
            patience_with_refusals: patience,
        };
        let drive = spawn_local(async move {
            let store = ZooKeeperStore::open(&place, timing.call_timeout()).await.unwrap();
            drive(machine, &store, seat).await;
        });
        Self { reader, _control: control, drive }
    }

    fn leads(&self) -> bool {
        self.reader.claim(Clock.now()).is_some()
    }
}

/// The server, what it counts, and how often it was asked for that, which it counts too.
struct Counted {
    server: Ensemble,
    looks: Cell<u64>,
}

impl Counted {
    fn watches(&self) -> u64 {
        self.count("zk_watch_count")
    }

    fn ephemerals(&self) -> u64 {
        self.count("zk_ephemerals_count")
    }

    /// What the candidates have asked for.
    fn requests(&self) -> u64 {
        self.count("zk_packets_received") - self.looks.get()
    }

    /// How many watches were fired by a deletion.
    fn woken(&self) -> u64 {
        self.count("zk_sum_node_deleted_watch_count")
    }

    fn count(&self, name: &str) -> u64 {
        self.looks.set(self.looks.get() + 1);
        self.server.count(name)
    }
}

/// Looks on until something holds; there is never more than one leader meanwhile.
async fn until(members: &[Member], what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "this did not come true: {what}");
        assert!(members.iter().filter(|member| member.leads()).count() <= 1, "two lead: {what}");
        sleep(BETWEEN_LOOKS).await;
    }
}

#[test]
fn one_end_among_a_thousand_candidates_wakes_one() {
    let lines = vec!["maxSessionTimeout=20000".to_owned()];
    let server = Ensemble::start(Settings { lines, ..Settings::default() });
    let counted = Counted { server, looks: Cell::new(0) };
    let durations = Durations {
        lease_duration: T,
        renew_deadline: Duration::from_secs(14),
        retry_period: RETRY,
        answer_validity: Duration::from_secs(2),
    };
    let timing = Timing::new(durations, Drift::default()).unwrap();
    let timing = SessionTiming::new(timing, counted.server.tick()).unwrap();
    let (servers, path) =
        (counted.server.connect_string().parse().unwrap(), "/baton/orders".to_owned());
    let place = ZooKeeperPlace { servers, path, timing, auth_file: None, tls: None };
    let metrics = Metrics::new(&ELECTION.parse().unwrap(), QueueRequest::VERBS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut members: Vec<Member> =
            (0..CROWD).map(|_| Member::begin(&place, &metrics)).collect();
        let crowd = CROWD as u64;
        until(&members, "each stands in line, and the first has acknowledged it", || {
            counted.ephemerals() == crowd + 1 && counted.watches() == crowd
        })
        .await;
        let leader = members.iter().position(Member::leads).unwrap();

        let (begun, before) = (Instant::now(), counted.requests());
        sleep(T).await;
        let (asked, rest) = (counted.requests() - before, begun.elapsed());
        println!("{CROWD} candidates at rest: {asked} requests in {rest:?}");
        assert!(asked <= most(rest), "they asked {asked} times in {rest:?}");
        assert_eq!(counted.woken(), 0, "nobody was woken yet");

        for (what, at) in [("a follower", (leader + CROWD / 2) % CROWD), ("the leader", leader)] {
            let (standing, woken) = (counted.ephemerals(), counted.woken());
            let gone = members.swap_remove(at);
            let was_leading = gone.leads();
            gone.drive.abort();
            drop(gone);
            let (begun, before) = (Instant::now(), counted.requests());
            until(&members, "its session is over", || counted.ephemerals() < standing).await;
            until(&members, "somebody leads", || members.iter().any(Member::leads)).await;
            until(&members, "all watch again", || counted.watches() == members.len() as u64).await;
            let asked = counted.requests() - before;
            let (took, woken) = (begun.elapsed(), counted.woken() - woken);
            println!("{what} ended: {woken} woken, {asked} requests in {took:?}");
            assert_eq!(woken, 1, "{what} had one behind it");
            assert!(asked <= most(took), "they asked {asked} times in {took:?}");
            assert_eq!(was_leading, what == "the leader");
        }
    });
}
