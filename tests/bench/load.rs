//! `/leader` under load, turn by turn with a bare axum server, and the memory before and after it.

use crate::Result;
use crate::client::Connection;
use crate::server::Server;
use crate::table::{Row, Sample, Unit};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often each server has its turn: they are short, so that the noise of a machine hits both.
const TURNS: usize = 10;

const RATE: u32 = 1000;
const PACED: Duration = Duration::from_millis(1500);
/// Enough for every question to find a connection free, unless the server is in trouble.
const PACED_CONNECTIONS: u32 = 4;

const FLAT_OUT: Duration = Duration::from_secs(1);
const FLAT_OUT_CONNECTIONS: u32 = 64;

/// For how long a sidecar is left alone before its memory is looked at: two renewals.
const IDLE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

/// What one server has shown in all its turns.
#[derive(Debug, Default)]
struct Load {
    latencies: Sample,
    elapsed: Duration,
    processor_time: Duration,
}

pub(crate) fn measure() -> Result<Vec<Row>> {
    let folder = TempDir::with_prefix("baton-bench-")?;
    let sidecar = Server::over_files(folder.path(), &[])?;
    let length = body_of_a_leader(&sidecar)?;
    thread::sleep(IDLE);
    let idle = sidecar.resident()?;
    let baseline = Server::baseline(length)?;
    let paced = in_turns([&sidecar, &baseline], paced)?;
    let flat_out = in_turns([&sidecar, &baseline], flat_out)?;
    let loaded = sidecar.resident()?;

    let row = |what: &str, unit, loads: &[Load; 2], figure: fn(&Load) -> f64| {
        let [sidecar, baseline] = loads.each_ref().map(figure);
        Row::new(what, unit, sidecar).beside("bare axum", baseline)
    };
    let memory =
        |what: &str, bytes| Row::new(what, Unit::Megabytes, f64::from(bytes) / 1e6).aim(8.0);
    Ok(vec![
        row("`/leader` at 1,000 requests a second, p50", Unit::Milliseconds, &paced, |load| {
            load.latencies.percentile(50)
        }),
        row("the same, p99", Unit::Milliseconds, &paced, |load| load.latencies.percentile(99))
            .aim(1.0),
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

/// Waits until the sidecar leads; how long its answer's body is then.
fn body_of_a_leader(sidecar: &Server) -> Result<usize> {
    let mut connection = Connection::open(&sidecar.address)?;
    let begun = Instant::now();
    loop {
        let answer = connection.ask()?;
        if answer.status == b"200" {
            return Ok(answer.body.len());
        }
        if begun.elapsed() > PATIENCE {
            return Err("a candidate alone does not lead".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn in_turns(servers: [&Server; 2], load: fn(&str) -> Result<Vec<Duration>>) -> Result<[Load; 2]> {
    let mut loads: [Load; 2] = Default::default();
    for turn in 0..2 * TURNS {
        let (server, total) = (servers[turn % 2], &mut loads[turn % 2]);
        let (begun, used) = (Instant::now(), server.processor_time()?);
        total.latencies.extend(load(&server.address)?);
        total.elapsed += begun.elapsed();
        total.processor_time += server.processor_time()?.saturating_sub(used);
    }
    Ok(loads)
}

/// One question each millisecond, whether or not the one before it has been answered. A latency counts from the
/// instant at which the question was due, so that a server which makes all of them wait cannot hide it.
fn paced(address: &str) -> Result<Vec<Duration>> {
    let interval = Duration::from_secs(1) / RATE;
    let begun = Instant::now();
    over(address, PACED_CONNECTIONS, |number, connection| {
        let mut latencies = Vec::new();
        let mut due = begun + interval * (number + 1);
        while due < begun + PACED {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            connection.ask_leader()?;
            latencies.push(due.elapsed());
            due += interval * PACED_CONNECTIONS;
        }
        Ok(latencies)
    })
}

/// The next question on a connection as soon as the one before it has been answered.
fn flat_out(address: &str) -> Result<Vec<Duration>> {
    let begun = Instant::now();
    over(address, FLAT_OUT_CONNECTIONS, |_, connection| {
        let mut latencies = Vec::new();
        while begun.elapsed() < FLAT_OUT {
            let asked = Instant::now();
            connection.ask_leader()?;
            latencies.push(asked.elapsed());
        }
        Ok(latencies)
    })
}

/// Asks over so many connections at once, each with a thread to itself.
fn over(
    address: &str,
    connections: u32,
    ask: impl Fn(u32, &mut Connection) -> Result<Vec<Duration>> + Sync,
) -> Result<Vec<Duration>> {
    let ask = &ask;
    thread::scope(|scope| {
        let asking: Vec<_> = (0..connections)
            .map(|number| scope.spawn(move || ask(number, &mut Connection::open(address)?)))
            .collect();
        let latencies =
            asking.into_iter().map(|thread| thread.join().expect("asking does not panic"));
        Ok(latencies.collect::<Result<Vec<_>>>()?.concat())
    })
}
