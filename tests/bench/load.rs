//! `/leader` under load, alternating with a bare axum server, and the memory before and after.

use crate::Result;
use crate::client::Connection;
use crate::server::Server;
use crate::table::{Row, Sample, Unit};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Turns of each server. They are short, so that noise of the machine affects both.
const TURNS: usize = 10;

const RATE: u32 = 1000;
const PACED: Duration = Duration::from_millis(1500);
/// Enough that every request finds a free connection, unless the server is overloaded.
const PACED_CONNECTIONS: u32 = 4;

const FLAT_OUT: Duration = Duration::from_secs(1);
const FLAT_OUT_CONNECTIONS: u32 = 64;

/// How long a sidecar is idle before its memory is measured: two renewals.
const IDLE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

/// One server's figures over all its turns.
#[derive(Debug, Default)]
struct Load {
    latencies: Sample,
    elapsed: Duration,
    processor_time: Duration,
}

pub(crate) fn measure() -> Result<Vec<Row>> {
    let folder = TempDir::with_prefix("baton-bench-")?;
    let sidecar = Server::over_files(folder.path(), &[])?;
    let length = leader_body_length(&sidecar)?;
    thread::sleep(IDLE);
    let idle = sidecar.resident()?;
    let baseline = Server::baseline(length)?;
    let paced = in_turns([&sidecar, &baseline], paced)?;
    let flat_out = in_turns([&sidecar, &baseline], flat_out)?;
    let loaded = sidecar.resident()?;

    let row = |what: &str, unit, loads: &[Load; 2], figure: fn(&Load) -> f64| {
        let [sidecar, baseline] = loads.each_ref().map(figure);
        Row::new(what, unit, sidecar).against("bare axum", baseline)
    };
    let memory =
        |what: &str, bytes| Row::new(what, Unit::Megabytes, f64::from(bytes) / 1e6).target(8.0);
    Ok(vec![
        row("`/leader` at 1,000 requests a second, p50", Unit::Milliseconds, &paced, |load| {
            load.latencies.percentile(50)
        }),
        row("the same, p99", Unit::Milliseconds, &paced, |load| load.latencies.percentile(99))
            .target(1.0),
        row("the same, processor time", Unit::PercentOfOneCore, &paced, Load::processor_share),
        row(
            "`/leader` flat out over 64 connections",
            Unit::RequestsPerSecond,
            &flat_out,
            Load::rate,
        ),
        row("the same, p99", Unit::Milliseconds, &flat_out, |load| load.latencies.percentile(99)),
        memory("resident memory, idle", idle),
        memory("resident memory, after this load", loaded),
    ])
}

impl Load {
    fn processor_share(&self) -> f64 {
        100.0 * self.processor_time.as_secs_f64() / self.elapsed.as_secs_f64()
    }

    fn rate(&self) -> f64 {
        self.latencies.count() / self.elapsed.as_secs_f64()
    }
}

/// Waits until the sidecar leads: the length of its answer's body.
fn leader_body_length(sidecar: &Server) -> Result<usize> {
    let mut connection = Connection::open(&sidecar.address)?;
    let started = Instant::now();
    loop {
        let answer = connection.get_leader()?;
        if answer.status == b"200" {
            return Ok(answer.body.len());
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("a single candidate does not lead after {PATIENCE:?}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn in_turns(servers: [&Server; 2], load: fn(&str) -> Result<Vec<Duration>>) -> Result<[Load; 2]> {
    let mut loads: [Load; 2] = Default::default();
    for turn in 0..2 * TURNS {
        let (server, total) = (servers[turn % 2], &mut loads[turn % 2]);
        let (started, used) = (Instant::now(), server.processor_time()?);
        total.latencies.extend(load(&server.address)?);
        total.elapsed += started.elapsed();
        total.processor_time += server.processor_time()?.saturating_sub(used);
    }
    Ok(loads)
}

/// Sends one request each millisecond, whether or not the previous one is answered. A latency
/// counts from the instant at which the request was due, so a server that delays all requests
/// cannot hide it.
fn paced(address: &str) -> Result<Vec<Duration>> {
    let interval = Duration::from_secs(1) / RATE;
    let started = Instant::now();
    over(address, PACED_CONNECTIONS, |number, connection| {
        let mut latencies = Vec::new();
        let mut due = started + interval * (number + 1);
        while due < started + PACED {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            connection.expect_leading()?;
            latencies.push(due.elapsed());
            due += interval * PACED_CONNECTIONS;
        }
        Ok(latencies)
    })
}

/// Sends the next request on a connection as soon as the previous one is answered.
fn flat_out(address: &str) -> Result<Vec<Duration>> {
    let started = Instant::now();
    over(address, FLAT_OUT_CONNECTIONS, |_, connection| {
        let mut latencies = Vec::new();
        while started.elapsed() < FLAT_OUT {
            let sent = Instant::now();
            connection.expect_leading()?;
            latencies.push(sent.elapsed());
        }
        Ok(latencies)
    })
}

/// Runs `send` on this many connections at the same time, each in its own thread.
fn over(
    address: &str,
    connections: u32,
    send: impl Fn(u32, &mut Connection) -> Result<Vec<Duration>> + Sync,
) -> Result<Vec<Duration>> {
    let send = &send;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|number| scope.spawn(move || send(number, &mut Connection::open(address)?)))
            .collect();
        let latencies =
            threads.into_iter().map(|thread| thread.join().expect("sending does not panic"));
        Ok(latencies.collect::<Result<Vec<_>>>()?.concat())
    })
}
