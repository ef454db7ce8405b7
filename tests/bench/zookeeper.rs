//! Handoffs over three real ZooKeeper servers: ours and those of Curator's `LeaderLatch` at the same time, with the same
//! session time-out; and what candidates ask of a server that have nothing to do.
//!
//! Most of a handoff is waiting, so several elections of each program run side by side.

use crate::Result;
use crate::client::Connection;
use crate::handoff::{self, Ground, Killed, side_by_side};
use crate::rig::{Ensemble, Settings};
use crate::server::Server;
use crate::table::{Row, Sample, Unit};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Elections of each program side by side. Where milliseconds count they are few: a Java that starts takes a core for a second.
const CLEAN_ELECTIONS: u32 = 2;
const KILLED_ELECTIONS: u32 = 5;

/// What ours asks for by itself, and Curator's is told to.
const SESSION: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

/// The longest silence of a client of Java: a third of the session time-out.
const PING: Duration = Duration::from_secs(5);

/// The servers' tickTime, as they come.
const TICK: Duration = Duration::from_secs(2);

/// What README promises at the most for 15 s, 2 s and 2 s: session × (1 + drift) + 2 × tick + retry period.
const TAKEOVER: f64 = 22_500.0;

/// For so long requests are counted.
const IDLE: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);

/// A path on some servers, and how often candidates there are asked who may lead next.
struct Place<const PAUSE_MS: u64> {
    servers: String,
    path: String,
}

/// Clean handoffs take milliseconds. Of the others nobody knows when they come: who is asked all that time without
/// a pause takes over late.
type Clean = Place<2>;
type Crash = Place<20>;

struct Baton<const PAUSE_MS: u64>(Place<PAUSE_MS>);

struct Curator<const PAUSE_MS: u64>(Place<PAUSE_MS>);

impl<const PAUSE_MS: u64> Place<PAUSE_MS> {
    fn fresh(ensemble: &Ensemble) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let path = format!("/bench/{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { servers: ensemble.connect_string(), path }
    }
}

impl<const PAUSE_MS: u64> Ground for Baton<PAUSE_MS> {
    const LEASE: Duration = SESSION;
    const VALIDITY: Duration = RETRY;
    const BETWEEN_LOOKS: Duration = Duration::from_millis(PAUSE_MS);
    const SPREAD: Duration = RETRY;

    fn start(&self) -> Result<Server> {
        Server::over_zookeeper(&self.0.servers, &self.0.path)
    }

    /// Nobody sees when a session was heard of: no longer ago than this.
    fn last_written(&self) -> Result<Instant> {
        since(RETRY)
    }
}

impl<const PAUSE_MS: u64> Ground for Curator<PAUSE_MS> {
    const LEASE: Duration = SESSION;
    /// Its work stops as soon as it is asked to.
    const VALIDITY: Duration = Duration::ZERO;
    const BETWEEN_LOOKS: Duration = Duration::from_millis(PAUSE_MS);
    const SPREAD: Duration = PING;

    fn start(&self) -> Result<Server> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let identity = format!("curator-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Server::curator(&self.0.servers, &self.0.path, &identity, SESSION)
    }

    fn last_written(&self) -> Result<Instant> {
        since(PING)
    }
}

pub(crate) fn clean() -> Result<Vec<Row>> {
    let ensemble = servers(3);
    let fresh = || Clean::fresh(&ensemble);
    let [ours, theirs]: [Sample; 2] = side_by_side(
        CLEAN_ELECTIONS,
        |rounds| handoff::clean(&Baton(fresh()), rounds),
        CLEAN_ELECTIONS,
        |rounds| handoff::clean(&Curator(fresh()), rounds),
    )?
    .map(|samples| samples.into_iter().collect());
    let row = |what: &str, percent| {
        let [ours, theirs] = [&ours, &theirs].map(|gaps| gaps.percentile(percent));
        Row::new(what, Unit::Milliseconds, ours).beside("Curator", theirs).aim(100.0)
    };
    Ok(vec![
        row(
            "clean handoff over ZooKeeper, end of the last promise to the successor's 200, p50 of 50",
            50,
        ),
        row("the same, p99", 99),
    ])
}

pub(crate) fn killed() -> Result<Vec<Row>> {
    let ensemble = servers(3);
    let fresh = || Crash::fresh(&ensemble);
    let [ours, theirs] = side_by_side(
        KILLED_ELECTIONS,
        |rounds| handoff::killed(&Baton(fresh()), rounds),
        KILLED_ELECTIONS,
        |rounds| handoff::killed(&Curator(fresh()), rounds),
    )?
    .map(|figures| figures.into_iter().map(|Killed { whole, .. }| whole).collect::<Sample>());
    let row = |what: &str, percent| {
        let [ours, theirs] = [&ours, &theirs].map(|sample| sample.percentile(percent));
        Row::new(what, Unit::Milliseconds, ours).beside("Curator", theirs).aim(TAKEOVER)
    };
    Ok(vec![
        row(
            "killed handoff over ZooKeeper (15s, 10s, 2s), SIGKILL to the successor's 200, p50 of 50",
            50,
        ),
        row("the same, p99", 99),
    ])
}

/// What a leader asks of its server, and a follower, when nothing happens: pings too.
pub(crate) fn idle() -> Result<Vec<Row>> {
    let ours = |ensemble: &Ensemble| requests(ensemble, &Baton(Clean::fresh(ensemble)));
    let theirs = |ensemble: &Ensemble| requests(ensemble, &Curator(Clean::fresh(ensemble)));
    // A server for each, which counts the requests of all its clients together.
    let [ours, theirs] = thread::scope(|scope| {
        let programs = [scope.spawn(|| ours(&servers(1))), scope.spawn(|| theirs(&servers(1)))];
        programs.map(|program| program.join().expect("a measurement does not panic"))
    });
    let (ours, theirs) = (ours?, theirs?);
    let row = |what: &str, place: usize| {
        Row::new(what, Unit::RequestsPerMinute, ours[place]).beside("Curator", theirs[place])
    };
    Ok(vec![
        row("requests of an idle leader over ZooKeeper (15s, 10s, 2s), with pings", 0),
        row("requests of an idle follower, with pings", 1),
    ])
}

/// Requests a minute of a leader, and what a follower adds to them.
fn requests(ensemble: &Ensemble, ground: &impl Ground) -> Result<[f64; 2]> {
    let leader = ground.start()?;
    until_known(&leader, &leader)?;
    let of_leader = count(ensemble);
    let follower = ground.start()?;
    until_known(&leader, &follower)?;
    let of_both = count(ensemble);
    Ok([of_leader, of_both - of_leader])
}

/// Waits until a candidate says that the leader is one.
fn until_known(leader: &Server, asked: &Server) -> Result<()> {
    let begun = Instant::now();
    let mut connection = Connection::open(&asked.address)?;
    while connection.leader()? != leader.identity {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{:?} is not known to lead", leader.identity).into());
        }
        thread::sleep(BETWEEN_QUESTIONS);
    }
    Ok(())
}

/// Requests that a server is asked in a minute.
fn count(ensemble: &Ensemble) -> f64 {
    const COUNT: &str = "zk_packets_received";
    let before = ensemble.count(COUNT);
    thread::sleep(IDLE);
    let requests = u32::try_from(ensemble.count(COUNT) - before).expect("some hundreds");
    f64::from(requests) * 60.0 / IDLE.as_secs_f64()
}

fn servers(size: usize) -> Ensemble {
    Ensemble::start(Settings { size, tick: TICK, ..Settings::default() })
}

/// The instant that was so long ago.
fn since(silence: Duration) -> Result<Instant> {
    Instant::now().checked_sub(silence).ok_or_else(|| "that was before the clock".into())
}
