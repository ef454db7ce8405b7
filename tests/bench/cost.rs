//! The bytes that one renewal costs a store: what etcd and a ZooKeeper server write to disk.
//!
//! `docs/concepts/scale.md` multiplies these figures. The servers are this benchmark's own, so no
//! other client writes to them.

use crate::Result;
use crate::client::Connection;
use crate::rig::{ApiServer, Ensemble, Settings, eventually};
use crate::server::{ELECTION, Server};
use crate::table::{Row, Unit};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, PostParams};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Renewals of a Lease, in several calls, because a call has a time limit.
const CALLS: u16 = 6;
const RENEWALS_PER_CALL: u16 = 500;
const RENEWAL_INTERVAL: SignedDuration = SignedDuration::from_secs(2);

/// A part of each candidate's znode's name.
const LATCH: &[u8] = b"-latch-";
/// How long the heartbeats of a leader over ZooKeeper are counted.
const HEARTBEATS: Duration = Duration::from_mins(1);
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures what etcd writes for each renewal of a Lease.
pub(crate) fn lease() -> Result<Vec<Row>> {
    let server = ApiServer::start();
    let access = server.namespace().admin;
    let leader = Server::over_lease(access.kubeconfig(), &[])?;
    let held = || access.lease(ELECTION).ok().flatten();
    eventually(PATIENCE, "it leads", || held().is_some());
    drop(leader);
    let mut lease = held().ok_or("there is no Lease")?;
    let folder = access.kubeconfig().parent().ok_or("the kubeconfig has no folder")?;
    let before = disk_metrics(folder)?;
    for _ in 0..CALLS {
        access.call(async |client| renew(&Api::default_namespaced(client), &mut lease).await)?;
    }
    let after = disk_metrics(folder)?;
    let row = |what: &str, figure: usize| {
        let renewals = f64::from(CALLS * RENEWALS_PER_CALL);
        Row::new(what, Unit::Bytes, (after[figure] - before[figure]) / renewals)
    };
    Ok(vec![
        row("a renewal of a Lease in the log of an etcd member", 0),
        row("the same in its database, until a compaction", 1),
    ])
}

/// Renews a Lease repeatedly, each time with a later renew time, as its leader does.
async fn renew(leases: &Api<Lease>, lease: &mut Lease) -> kube::Result<()> {
    for _ in 0..RENEWALS_PER_CALL {
        let spec = lease.spec.as_mut().expect("a candidate wrote it");
        let renewed = spec.renew_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        spec.renew_time = Some(MicroTime(renewed + RENEWAL_INTERVAL));
        *lease = leases.replace(ELECTION, &PostParams::default(), lease).await?;
    }
    Ok(())
}

/// Measures what a ZooKeeper server writes for each heartbeat of a leader.
pub(crate) fn zookeeper() -> Result<Vec<Row>> {
    let log = TempDir::with_prefix("baton-bench-")?;
    let lines = vec![format!("dataLogDir={}", log.path().display())];
    let servers = Ensemble::start(Settings { size: 1, lines, ..Settings::default() });
    let leader = Server::over_zookeeper(&servers.connect_string(), "/bench/cost", &[])?;
    eventually(PATIENCE, "it leads", || {
        Connection::open(&leader.address)
            .and_then(|mut connection| connection.leader())
            .is_ok_and(|named| named == leader.identity)
    });
    let figures = || log_figures(&log.path().join("version-2"));
    let before = figures()?;
    thread::sleep(HEARTBEATS);
    let after = figures()?;
    let [bytes, heartbeats] = [0, 1].map(|figure| after[figure] - before[figure]);
    let per_heartbeat = f64::from(u32::try_from(bytes)?) / f64::from(u32::try_from(heartbeats)?);
    let what = "a heartbeat of a leader in the log of a ZooKeeper server";
    Ok(vec![Row::new(what, Unit::Bytes, per_heartbeat)])
}

/// The bytes that the etcd in `folder` has written to its log, and those in its database.
fn disk_metrics(folder: &Path) -> Result<[f64; 2]> {
    let mut socket = UnixStream::connect(folder.join("etcd.sock"))?;
    socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let metrics = io::read_to_string(socket)?;
    let metric = |name: &str| -> Result<f64> {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.ok_or_else(|| format!("etcd has no metric {name}"))?.parse()?)
    };
    Ok([metric("etcd_disk_wal_write_bytes_total")?, metric("etcd_mvcc_db_total_size_in_bytes")?])
}

/// The bytes in a server's transaction logs, without the zeros that it reserves at their ends, and
/// the transactions that name a candidate's znode.
fn log_figures(folder: &Path) -> Result<[usize; 2]> {
    let mut figures = [0, 0];
    for file in fs::read_dir(folder)? {
        let log = fs::read(file?.path())?;
        figures[0] += log.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        figures[1] += log.windows(LATCH.len()).filter(|window| *window == LATCH).count();
    }
    Ok(figures)
}
