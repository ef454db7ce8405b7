//! Handoffs over a Lease on a real API server, by Baton and client-go with the same durations and
//! at the same time.
//!
//! Most of a handoff is waiting, so several elections of each program run in parallel, but only so
//! many that they do not slow each other down.

use crate::Result;
use crate::handoff::{self, Contest, Killed, side_by_side};
use crate::rig::{Access, ApiServer};
use crate::server::{ELECTION, Server};
use crate::table::{Row, Sample, Unit};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, ObjectMeta, PostParams};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The defaults of both programs, whose renew deadline is 10 s.
const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

/// The longest pause of client-go between two attempts.
const MAX_PAUSE: Duration = Duration::from_millis(4400);

/// Calls of each kind.
const CALLS: i32 = 25;
/// The pause between two calls: without it, a server answers faster than candidates ever see.
const CALL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Baton(pub(crate) Access);

pub(crate) struct ClientGo(pub(crate) Access);

impl Contest for Baton {
    const LEASE: Duration = LEASE;
    const VALIDITY: Duration = RETRY;
    /// A candidate that has to answer without pause takes over late.
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    const SPREAD: Duration = RETRY;

    fn start(&self) -> Result<Server> {
        Server::over_lease(self.0.kubeconfig(), &[])
    }

    fn last_written(&self) -> Result<Instant> {
        renewed(&self.0)
    }
}

impl Contest for ClientGo {
    const LEASE: Duration = LEASE;
    /// It cancels its work as soon as it gets the signal.
    const VALIDITY: Duration = Duration::ZERO;
    /// Its handoffs take about a second of polling, so slow polling is exact enough and disturbs
    /// less.
    const POLL_INTERVAL: Duration = Duration::from_millis(20);
    const SPREAD: Duration = MAX_PAUSE;

    fn start(&self) -> Result<Server> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let identity = format!("client-go-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Server::client_go(self.0.kubeconfig(), &identity)
    }

    fn last_written(&self) -> Result<Instant> {
        renewed(&self.0)
    }
}

pub(crate) fn clean() -> Result<Vec<Row>> {
    let [read, write] = calls()?.map(|sample| sample.percentile(50));
    let handoffs = side_by_side(
        2,
        |rounds| handoff::clean(&Baton(fresh()), rounds),
        5,
        |rounds| handoff::clean(&ClientGo(fresh()), rounds),
    )?;
    let [baton, client_go]: [Sample; 2] = handoffs.map(|samples| samples.into_iter().collect());
    let row = |what: &str, percent| {
        let [baton, client_go] = [&baton, &client_go].map(|gaps| gaps.percentile(percent));
        Row::new(what, Unit::Milliseconds, baton)
            .against("client-go", client_go)
            .target(client_go / 100.0)
    };
    Ok(vec![
        Row::new("a read of a Lease over an open connection, p50", Unit::Milliseconds, read),
        Row::new("a write of a Lease, p50", Unit::Milliseconds, write),
        row(
            "clean handoff over a Lease, end of the last promise to the successor's 200, p50 of 50",
            50,
        ),
        row("the same, p99", 99),
        Row::new(
            "the same, p50, in reads and writes",
            Unit::Calls,
            2.0 * baton.percentile(50) / (read + write),
        ),
    ])
}

pub(crate) fn killed() -> Result<Vec<Row>> {
    let handoffs = side_by_side(
        5,
        |rounds| handoff::killed(&Baton(fresh()), rounds),
        5,
        |rounds| handoff::killed(&ClientGo(fresh()), rounds),
    )?;
    let [baton, client_go] = handoffs.map(|figures| {
        let (whole, excess): (Vec<_>, Vec<_>) =
            figures.into_iter().map(|Killed { whole, excess }| (whole, excess)).unzip();
        [whole, excess].map(|samples| samples.into_iter().collect::<Sample>())
    });
    let row = |what: &str, figure: usize, percent| {
        let [baton, client_go] =
            [&baton, &client_go].map(|samples| samples[figure].percentile(percent));
        Row::new(what, Unit::Milliseconds, baton).against("client-go", client_go)
    };
    Ok(vec![
        row(
            "killed handoff over a Lease (15s, 10s, 2s), SIGKILL to the successor's 200, p50 of 50",
            0,
            50,
        ),
        row("the same, p99", 0, 99),
        row("the same, from the end of the lease (last renewal + 15s), p50", 1, 50).target(100.0),
        row("the same, p99", 1, 99).target(100.0),
    ])
}

/// A new namespace, and with it a new election.
pub(crate) fn fresh() -> Access {
    ApiServer::shared().namespace().admin
}

/// How long reads and writes take on an idle server.
fn calls() -> Result<[Sample; 2]> {
    let admin = ApiServer::shared().namespace().admin;
    let lease = Lease {
        metadata: ObjectMeta { name: Some(ELECTION.to_owned()), ..ObjectMeta::default() },
        spec: Some(LeaseSpec::default()),
    };
    Ok(admin.call(async |client| {
        let leases: Api<Lease> = Api::default_namespaced(client);
        let mut lease = leases.create(&PostParams::default(), &lease).await?;
        let mut samples = [Sample::default(), Sample::default()];
        for number in 0..CALLS {
            thread::sleep(CALL_INTERVAL);
            let started = Instant::now();
            leases.get(ELECTION).await?;
            samples[0].push(started.elapsed());
            thread::sleep(CALL_INTERVAL);
            let started = Instant::now();
            lease.spec =
                Some(LeaseSpec { lease_transitions: Some(number), ..LeaseSpec::default() });
            lease = leases.replace(ELECTION, &PostParams::default(), &lease).await?;
            samples[1].push(started.elapsed());
        }
        Ok(samples)
    })?)
}

/// When the Lease was written, by the writer's timestamp, which is from before the request.
pub(crate) fn renewed(access: &Access) -> Result<Instant> {
    let lease = access.lease(ELECTION)?.ok_or("there is no Lease")?;
    let renewed =
        lease.spec.and_then(|spec| spec.renew_time).ok_or("the Lease has no renew time")?;
    handoff::instant(renewed.0.into())
}
