//! Handoffs over three real ZooKeeper servers by Baton and by Curator's `LeaderLatch`, with the
//! same session timeout and at the same time. Also the requests of idle candidates.
//!
//! Most of a handoff is waiting, so several elections of each program run in parallel.

use crate::Result;
use crate::client::Connection;
use crate::handoff::{self, Contest, Killed, side_by_side};
use crate::rig::{Ensemble, Settings};
use crate::server::Server;
use crate::table::{Row, Sample, Unit};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Elections of each program in parallel. Clean handoffs take milliseconds, so few run: a starting
/// JVM takes a core for a second.
const CLEAN_ELECTIONS: u32 = 2;
const KILLED_ELECTIONS: u32 = 5;

/// Baton's defaults, which Curator's candidates use too.
const SESSION: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

/// The longest pause between two requests of a Java client: a third of the session timeout.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The servers' default tickTime.
const TICK: Duration = Duration::from_secs(2);

/// The bound for 15 s, 2 s and 2 s, in milliseconds: session × (1 + drift) + 2 × tick + retry
/// period.
const TAKEOVER: f64 = 22_500.0;

/// How long requests are counted.
const IDLE: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A path on some servers, and the pause between two polls of a candidate there.
pub(crate) struct Location<const PAUSE_MS: u64> {
    pub(crate) servers: String,
    pub(crate) path: String,
}

/// Clean handoffs take milliseconds. Others take seconds, and a candidate that is polled all that
/// time without pauses takes over late.
type Clean = Location<2>;
pub(crate) type Crash = Location<20>;

struct Baton<const PAUSE_MS: u64>(Location<PAUSE_MS>);

pub(crate) struct Curator<const PAUSE_MS: u64>(pub(crate) Location<PAUSE_MS>);

impl<const PAUSE_MS: u64> Location<PAUSE_MS> {
    pub(crate) fn fresh(ensemble: &Ensemble) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let path = format!("/bench/{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { servers: ensemble.connect_string(), path }
    }
}

impl<const PAUSE_MS: u64> Contest for Baton<PAUSE_MS> {
    const LEASE: Duration = SESSION;
    const VALIDITY: Duration = RETRY;
    const POLL_INTERVAL: Duration = Duration::from_millis(PAUSE_MS);
    const SPREAD: Duration = RETRY;

    fn start(&self) -> Result<Server> {
        Server::over_zookeeper(&self.0.servers, &self.0.path, &[])
    }

    /// The last heartbeat of a session cannot be observed, but it is no older than this.
    fn last_written(&self) -> Result<Instant> {
        ago(RETRY)
    }
}

impl<const PAUSE_MS: u64> Contest for Curator<PAUSE_MS> {
    const LEASE: Duration = SESSION;
    /// It stops its work as soon as it gets the signal.
    const VALIDITY: Duration = Duration::ZERO;
    const POLL_INTERVAL: Duration = Duration::from_millis(PAUSE_MS);
    const SPREAD: Duration = PING_INTERVAL;

    fn start(&self) -> Result<Server> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let identity = format!("curator-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Server::curator(&self.0.servers, &self.0.path, &identity, SESSION)
    }

    fn last_written(&self) -> Result<Instant> {
        ago(PING_INTERVAL)
    }
}

pub(crate) fn clean() -> Result<Vec<Row>> {
    let ensemble = servers(3);
    let fresh = || Clean::fresh(&ensemble);
    let [baton, curator]: [Sample; 2] = side_by_side(
        CLEAN_ELECTIONS,
        |rounds| handoff::clean(&Baton(fresh()), rounds),
        CLEAN_ELECTIONS,
        |rounds| handoff::clean(&Curator(fresh()), rounds),
    )?
    .map(|samples| samples.into_iter().collect());
    let row = |what: &str, percent| {
        let [baton, curator] = [&baton, &curator].map(|gaps| gaps.percentile(percent));
        Row::new(what, Unit::Milliseconds, baton).against("Curator", curator).target(100.0)
    };
    Ok(vec![
        row(
            "clean handoff over ZooKeeper, last promise's end to the successor's 200, p50 of 50",
            50,
        ),
        row("the same, p99", 99),
    ])
}

pub(crate) fn killed() -> Result<Vec<Row>> {
    let ensemble = servers(3);
    let fresh = || Crash::fresh(&ensemble);
    let [baton, curator] = side_by_side(
        KILLED_ELECTIONS,
        |rounds| handoff::killed(&Baton(fresh()), rounds),
        KILLED_ELECTIONS,
        |rounds| handoff::killed(&Curator(fresh()), rounds),
    )?
    .map(|figures| figures.into_iter().map(|Killed { whole, .. }| whole).collect::<Sample>());
    let row = |what: &str, percent| {
        let [baton, curator] = [&baton, &curator].map(|sample| sample.percentile(percent));
        Row::new(what, Unit::Milliseconds, baton).against("Curator", curator).target(TAKEOVER)
    };
    Ok(vec![
        row(
            "killed handoff over ZooKeeper (15s, 10s, 2s), SIGKILL to successor's 200, p50 of 50",
            50,
        ),
        row("the same, p99", 99),
    ])
}

/// The requests of an idle leader and an idle follower, including pings.
pub(crate) fn idle() -> Result<Vec<Row>> {
    let baton = |ensemble: &Ensemble| requests(ensemble, &Baton(Clean::fresh(ensemble)));
    let curator = |ensemble: &Ensemble| requests(ensemble, &Curator(Clean::fresh(ensemble)));
    // Each program has its own server, because a server counts the requests of all clients
    // together.
    let [baton, curator] = thread::scope(|scope| {
        let programs = [scope.spawn(|| baton(&servers(1))), scope.spawn(|| curator(&servers(1)))];
        programs.map(|program| program.join().expect("a measurement does not panic"))
    });
    let (baton, curator) = (baton?, curator?);
    let row = |what: &str, role: usize| {
        Row::new(what, Unit::PerMinute, baton[role]).against("Curator", curator[role])
    };
    Ok(vec![
        row("requests of an idle leader over ZooKeeper (15s, 10s, 2s), with pings", 0),
        row("requests of an idle follower, with pings", 1),
    ])
}

/// Requests per minute of a leader, and of a follower.
fn requests(ensemble: &Ensemble, contest: &impl Contest) -> Result<[f64; 2]> {
    let leader = contest.start()?;
    wait_until_known(&leader, &leader)?;
    let of_leader = count(ensemble);
    let follower = contest.start()?;
    wait_until_known(&leader, &follower)?;
    let of_both = count(ensemble);
    Ok([of_leader, of_both - of_leader])
}

/// Waits until a candidate names this leader.
pub(crate) fn wait_until_known(leader: &Server, candidate: &Server) -> Result<()> {
    let started = Instant::now();
    let mut connection = Connection::open(&candidate.address)?;
    while connection.leader()? != leader.identity {
        if started.elapsed() > PATIENCE {
            return Err(format!("{:?} does not lead after {PATIENCE:?}", leader.identity).into());
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// The requests that a server gets per minute.
fn count(ensemble: &Ensemble) -> f64 {
    const COUNT: &str = "zk_packets_received";
    let before = ensemble.count(COUNT);
    thread::sleep(IDLE);
    let requests = u32::try_from(ensemble.count(COUNT) - before).expect("a few hundred requests");
    f64::from(requests) * 60.0 / IDLE.as_secs_f64()
}

pub(crate) fn servers(size: usize) -> Ensemble {
    Ensemble::start(Settings { size, tick: TICK, ..Settings::default() })
}

/// The instant this long ago.
pub(crate) fn ago(elapsed: Duration) -> Result<Instant> {
    let instant = Instant::now().checked_sub(elapsed);
    instant.ok_or_else(|| "the time is before the start of the monotonic clock".into())
}
