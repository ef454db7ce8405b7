//! Handoffs over three real etcd members by Baton and by `concurrency.Election` of etcd's Go client,
//! with sessions as long as the lease and at the same time. Also their requests and memory at rest,
//! the bytes of a renewal, and one release among a hundred candidates.
//!
//! Most of a handoff is waiting, so several elections of each program run in parallel.

use crate::Result;
use crate::handoff::{self, Contest, Killed, side_by_side};
use crate::rig::{Etcd, EtcdSettings};
use crate::server::{ELECTION, Server};
use crate::table::{Row, Sample, Unit};
use crate::zookeeper::{ago, wait_until_known};
use rustix::process::Signal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Elections of each program in parallel.
const CLEAN_ELECTIONS: u32 = 2;
const KILLED_ELECTIONS: u32 = 5;

/// Baton's defaults. The session of the Go client is as long as the lease.
const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

/// The pause between two keepalives of the Go client: a third of the TTL.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// How long requests are counted.
const IDLE: Duration = Duration::from_mins(1);

/// Fast renewals, to measure many: lease duration, renew deadline, and retry period.
const FAST: [&str; 6] =
    ["--lease-duration", "3s", "--renew-deadline", "2s", "--retry-period", "20ms"];
const RENEWING: Duration = Duration::from_mins(1);
const RENEWALS_PER_DAY: f64 = 43_200.0;

const CROWD: usize = 100;

/// An election on some members, and the pause between two polls of a candidate there.
struct Location<const PAUSE_MS: u64> {
    endpoints: String,
    prefix: String,
}

struct Baton<const PAUSE_MS: u64>(Location<PAUSE_MS>);

struct Go<const PAUSE_MS: u64>(Location<PAUSE_MS>);

impl<const PAUSE_MS: u64> Location<PAUSE_MS> {
    fn fresh(etcd: &Etcd) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let prefix = format!("/bench/{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { endpoints: etcd.endpoints(), prefix }
    }
}

impl<const PAUSE_MS: u64> Contest for Baton<PAUSE_MS> {
    const LEASE: Duration = LEASE;
    const VALIDITY: Duration = RETRY;
    const POLL_INTERVAL: Duration = Duration::from_millis(PAUSE_MS);
    const SPREAD: Duration = RETRY;

    fn start(&self) -> Result<Server> {
        Server::over_etcd(&self.0.endpoints, &self.0.prefix, &[])
    }

    /// The last renewal is no older than this.
    fn last_written(&self) -> Result<Instant> {
        ago(RETRY)
    }
}

impl<const PAUSE_MS: u64> Contest for Go<PAUSE_MS> {
    const LEASE: Duration = LEASE;
    /// It stops its work as soon as it gets the signal.
    const VALIDITY: Duration = Duration::ZERO;
    const POLL_INTERVAL: Duration = Duration::from_millis(PAUSE_MS);
    const SPREAD: Duration = KEEPALIVE_INTERVAL;

    fn start(&self) -> Result<Server> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let identity = format!("go-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Server::etcd_election(&self.0.endpoints, &self.0.prefix, &identity, LEASE)
    }

    fn last_written(&self) -> Result<Instant> {
        ago(KEEPALIVE_INTERVAL)
    }
}

pub(crate) fn clean() -> Result<Vec<Row>> {
    let etcd = Etcd::start(EtcdSettings { size: 3, ..EtcdSettings::default() });
    let [baton, go]: [Sample; 2] = side_by_side(
        CLEAN_ELECTIONS,
        |rounds| handoff::clean(&Baton::<2>(Location::fresh(&etcd)), rounds),
        CLEAN_ELECTIONS,
        |rounds| handoff::clean(&Go::<2>(Location::fresh(&etcd)), rounds),
    )?
    .map(|samples| samples.into_iter().collect());
    let row = |what: &str, percent| {
        let [baton, go] = [&baton, &go].map(|gaps| gaps.percentile(percent));
        Row::new(what, Unit::Milliseconds, baton).against("etcd's client", go).target(100.0)
    };
    Ok(vec![
        row("clean handoff over etcd, last promise's end to the successor's 200, p50 of 50", 50),
        row("the same, p99", 99),
    ])
}

pub(crate) fn killed() -> Result<Vec<Row>> {
    let etcd = Etcd::start(EtcdSettings { size: 3, ..EtcdSettings::default() });
    let [baton, go] = side_by_side(
        KILLED_ELECTIONS,
        |rounds| handoff::killed(&Baton::<20>(Location::fresh(&etcd)), rounds),
        KILLED_ELECTIONS,
        |rounds| handoff::killed(&Go::<20>(Location::fresh(&etcd)), rounds),
    )?
    .map(|figures| figures.into_iter().map(|Killed { whole, .. }| whole).collect::<Sample>());
    let row = |what: &str, percent| {
        let [baton, go] = [&baton, &go].map(|sample| sample.percentile(percent));
        Row::new(what, Unit::Milliseconds, baton).against("etcd's client", go)
    };
    Ok(vec![
        row(
            "killed handoff over etcd (15s, 10s, 2s), SIGKILL to the successor's 200, p50 of 50",
            50,
        ),
        row("the same, p99", 99),
    ])
}

/// The messages and the memory of an idle leader and an idle follower.
pub(crate) fn idle() -> Result<Vec<Row>> {
    // Each program has its own server, which counts the messages of all clients together.
    let [baton, go] = thread::scope(|scope| {
        let programs = [
            scope.spawn(|| {
                let etcd = Etcd::start(EtcdSettings::default());
                at_rest(&etcd, &Baton::<2>(Location::fresh(&etcd)))
            }),
            scope.spawn(|| {
                let etcd = Etcd::start(EtcdSettings::default());
                at_rest(&etcd, &Go::<2>(Location::fresh(&etcd)))
            }),
        ];
        programs.map(|program| program.join().expect("a measurement does not panic"))
    });
    let (baton, go) = (baton?, go?);
    let row = |what: &str, unit, figure: fn(&AtRest) -> f64| {
        Row::new(what, unit, figure(&baton)).against("etcd's client", figure(&go))
    };
    Ok(vec![
        row("messages of an idle leader to etcd (15s, 10s, 2s)", Unit::PerMinute, |rest| {
            rest.messages[0]
        }),
        row("messages of an idle follower", Unit::PerMinute, |rest| rest.messages[1]),
        row("resident memory of an idle leader", Unit::Megabytes, |rest| rest.megabytes[0]),
        row("resident memory of an idle follower", Unit::Megabytes, |rest| rest.megabytes[1]),
    ])
}

/// Of a leader, and of a follower.
struct AtRest {
    messages: [f64; 2],
    megabytes: [f64; 2],
}

fn at_rest(etcd: &Etcd, contest: &impl Contest) -> Result<AtRest> {
    let leader = contest.start()?;
    wait_until_known(&leader, &leader)?;
    let of_leader = count(etcd)?;
    let follower = contest.start()?;
    wait_until_known(&leader, &follower)?;
    let of_both = count(etcd)?;
    let megabytes = |server: &Server| -> Result<f64> { Ok(f64::from(server.resident()?) / 1e6) };
    Ok(AtRest {
        messages: [of_leader, of_both - of_leader],
        megabytes: [megabytes(&leader)?, megabytes(&follower)?],
    })
}

/// The messages that etcd gets per minute. Its gateway's requests count as any client's.
fn count(etcd: &Etcd) -> Result<f64> {
    let received = || sum(&metrics(etcd, 0)?, "grpc_server_msg_received_total", "");
    let before = received()?;
    thread::sleep(IDLE);
    Ok((received()? - before) * 60.0 / IDLE.as_secs_f64())
}

/// The bytes that etcd keeps and writes for each renewal.
pub(crate) fn cost() -> Result<Vec<Row>> {
    let etcd = Etcd::start(EtcdSettings::default());
    let Location::<2> { endpoints, prefix } = Location::fresh(&etcd);
    let leader = Server::over_etcd(&endpoints, &prefix, &FAST)?;
    wait_until_known(&leader, &leader)?;
    let figures = || -> Result<[f64; 3]> {
        let metrics = metrics(&etcd, 0)?;
        Ok([
            sum(&metrics, "grpc_server_handled_total", "grpc_method=\"Txn\"")?,
            sum(&metrics, "etcd_mvcc_db_total_size_in_use_in_bytes", "")?,
            sum(&metrics, "etcd_disk_wal_write_bytes_total", "")?,
        ])
    };
    let before = figures()?;
    thread::sleep(RENEWING);
    let after = figures()?;
    let [renewals, history, log] = [0, 1, 2].map(|figure| after[figure] - before[figure]);
    let what = format!("a renewal in etcd's database, until a compaction, mean of {renewals}");
    let day = "the database after a day of renewals without compaction, extrapolated";
    Ok(vec![
        Row::new(what, Unit::Bytes, history / renewals),
        Row::new("the same in the log of a member", Unit::Bytes, log / renewals),
        Row::new(day, Unit::Megabytes, history / renewals * RENEWALS_PER_DAY / 1e6),
    ])
}

/// A release among a hundred candidates.
pub(crate) fn crowd() -> Result<Vec<Row>> {
    let etcd = Etcd::start(EtcdSettings { size: 3, ..EtcdSettings::default() });
    let contest = Baton::<2>(Location::fresh(&etcd));
    let leader = contest.start()?;
    wait_until_known(&leader, &leader)?;
    let others = (1..CROWD).map(|_| contest.start()).collect::<Result<Vec<_>>>()?;
    for other in &others {
        wait_until_known(&leader, other)?;
    }
    let requests = || -> Result<[f64; 2]> {
        let of = |method: &str| -> Result<f64> {
            (0..3)
                .map(|at| sum(&metrics(&etcd, at)?, "grpc_server_handled_total", method))
                .sum::<Result<f64>>()
        };
        Ok([of("grpc_method=\"Range\"")?, of("grpc_method=\"Txn\"")?])
    };
    // All have settled: only the leader writes.
    thread::sleep(2 * RETRY);
    let (term, admin) = (format!("{}/{ELECTION}/term", contest.0.prefix), etcd.admin());
    let mut polls = 0.0;
    let mut term_is = |holds: &dyn Fn(&str) -> bool| {
        loop {
            polls += 1.0;
            if admin.read(&term).is_some_and(|found| holds(&found.value)) {
                return Instant::now();
            }
        }
    };
    let before = requests()?;
    leader.signal(Signal::TERM)?;
    let old = leader.identity.clone().unwrap_or_default();
    let released = term_is(&|holder| holder != old);
    let acquired = term_is(&|holder| holder != old && !holder.is_empty());
    // The others have read who won by then.
    thread::sleep(Duration::from_secs(1));
    let after = requests()?;
    drop(others);
    let (reads, writes) = (after[0] - before[0] - polls, after[1] - before[1]);
    Ok(vec![
        Row::new(
            "a release among 100 candidates over etcd, to the next leader's write",
            Unit::Milliseconds,
            (acquired - released).as_secs_f64() * 1e3,
        ),
        Row::new("the same, reads", Unit::Calls, reads),
        Row::new("the same, transactions", Unit::Calls, writes),
    ])
}

/// The metrics of a member.
fn metrics(etcd: &Etcd, at: usize) -> Result<String> {
    let mut answer = ureq::get(format!("{}/metrics", etcd.url(at))).call()?;
    Ok(answer.body_mut().read_to_string()?)
}

/// The sum of a metric's series whose labels contain this text.
fn sum(metrics: &str, name: &str, label: &str) -> Result<f64> {
    let lines = metrics.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && line.contains(label)
    });
    let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    let values: Vec<_> = values.collect();
    if values.is_empty() {
        return Err(format!("etcd has no metric {name}").into());
    }
    Ok(values.iter().sum())
}
