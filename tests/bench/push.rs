//! The cost of the push: the delay from a change to every waiting request, and the wake-ups and the
//! memory of a sidecar with all of its waiters and streams.
//!
//! Touches processes and sockets. Start with [`measure`].

use crate::Result;
use crate::client::Connection;
use crate::lease::fresh;
use crate::server::Server;
use crate::table::{Row, Sample, Unit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// As many as a sidecar admits.
const WAITERS: usize = 64;
const STREAMS: usize = 64;
/// Each changes the standing of another sidecar once.
const CHANGES: usize = 20;
/// Longer than this benchmark keeps one waiter.
const WAIT: &str = "60s";
/// How long wake-ups are counted.
const SPAN: Duration = Duration::from_secs(50);
/// How long a sidecar is left alone before its memory or its wake-ups are read.
const SETTLING: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn measure() -> Result<Vec<Row>> {
    let mut delays = Sample::default();
    for _ in 0..CHANGES {
        delays.extend(delays_of_one_change()?);
    }
    let (idle, waiting) = wake_ups()?;
    let (resident, anonymous) = idle_over_a_lease()?;
    let memory = |what: &str, bytes: u32, target| {
        Row::new(what, Unit::Megabytes, f64::from(bytes) / 1e6).target(target)
    };
    let delay =
        |what: &str, percent| Row::new(what, Unit::Milliseconds, delays.percentile(percent));
    Ok(vec![
        delay("from a change to each of 64 waiting requests, p50", 50),
        delay("the same, p99", 99).target(5.0),
        Row::new("wake-ups a minute of an idle leader over files", Unit::PerMinute, idle),
        Row::new("the same with 64 waiting requests", Unit::PerMinute, waiting)
            .target(idle + f64::from(u32::try_from(WAITERS)?)),
        memory("resident memory with 64 waiting requests, 64 streams, and a file", crowded()?, 9.0),
        memory("resident memory of an idle leader over a Lease", resident, 6.0),
        memory("the same, without the pages of the program and its libraries", anonymous, 2.0),
    ])
}

/// Withdraws a leader that 64 requests wait for. Returns when each was answered, since the request
/// to withdraw was sent.
fn delays_of_one_change() -> Result<Vec<Duration>> {
    let folder = TempDir::with_prefix("baton-bench-")?;
    let leader = Server::over_files(folder.path(), &[])?;
    let mut waiting = wait_on(&leader)?;
    let mut order = TcpStream::connect(&leader.address)?;
    thread::sleep(Duration::from_millis(200));
    expect_silence(&waiting)?;
    let sent = Instant::now();
    let host = &leader.address;
    write!(order, "POST /stopping HTTP/1.1\r\nhost: {host}\r\nbaton-request: 1\r\n\r\n")?;
    let mut delays = Vec::new();
    while !waiting.is_empty() {
        let mut sockets: Vec<_> =
            waiting.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
        poll(&mut sockets, None)?;
        let now = sent.elapsed();
        let mut answered: Vec<_> =
            sockets.iter().map(|socket| !socket.revents().is_empty()).collect();
        waiting.retain(|_| !answered.remove(0));
        delays.resize(WAITERS - waiting.len(), now);
    }
    Ok(delays)
}

/// Fails if one of the requests has been answered or its connection closed.
fn expect_silence(waiting: &[TcpStream]) -> Result<()> {
    let mut sockets: Vec<_> =
        waiting.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
    match poll(&mut sockets, Some(&Timespec::default()))? {
        0 => Ok(()),
        ready => Err(format!("{ready} of {} requests do not wait", waiting.len()).into()),
    }
}

/// Sends as many waiting requests as the leader admits.
fn wait_on(leader: &Server) -> Result<Vec<TcpStream>> {
    let revision = revision_of(leader)?;
    let (path, host) = (format!("/leader?wait={WAIT}&after={revision}"), &leader.address);
    (0..WAITERS)
        .map(|_| {
            let mut stream = TcpStream::connect(host)?;
            write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n")?;
            Ok(stream)
        })
        .collect()
}

/// The revision of a leader's answer, once it leads.
fn revision_of(server: &Server) -> Result<u64> {
    let mut connection = Connection::open(&server.address)?;
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let answer = connection.get_leader()?;
        if answer.status == b"200" {
            let body: Value = serde_json::from_slice(answer.body)?;
            return body["revision"].as_u64().ok_or_else(|| "an answer has a revision".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err(format!("a single candidate does not lead after {PATIENCE:?}").into())
}

/// The wake-ups a minute of two leaders: one alone, one with waiting requests.
fn wake_ups() -> Result<(f64, f64)> {
    let folders = [TempDir::with_prefix("baton-bench-")?, TempDir::with_prefix("baton-bench-")?];
    let idle = Server::over_files(folders[0].path(), &[])?;
    let crowded = Server::over_files(folders[1].path(), &[])?;
    revision_of(&idle)?;
    let waiting = wait_on(&crowded)?;
    thread::sleep(SETTLING);
    let before = [idle.wake_ups()?, crowded.wake_ups()?];
    thread::sleep(SPAN);
    expect_silence(&waiting)?;
    let per_minute = |before, after: u32| f64::from(after - before) * 60.0 / SPAN.as_secs_f64();
    Ok((per_minute(before[0], idle.wake_ups()?), per_minute(before[1], crowded.wake_ups()?)))
}

/// The resident memory with every waiter, every stream, and a status file.
fn crowded() -> Result<u32> {
    let folder = TempDir::with_prefix("baton-bench-")?;
    let file = folder.path().join("status");
    let file = file.to_str().ok_or("temporary folders have names in UTF-8")?;
    let leader = Server::over_files(folder.path(), &["--status-file", file])?;
    let waiting = wait_on(&leader)?;
    let streams: Vec<_> = (0..STREAMS).map(|_| open_stream(&leader)).collect::<Result<_>>()?;
    thread::sleep(SETTLING);
    let resident = leader.resident()?;
    expect_silence(&waiting)?;
    drop(streams);
    Ok(resident)
}

/// Opens a stream of events, and reads the beginning of its answer.
fn open_stream(leader: &Server) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(&leader.address)?;
    write!(stream, "GET /events HTTP/1.1\r\nhost: {}\r\n\r\n", leader.address)?;
    let mut beginning = [0; 12];
    stream.read_exact(&mut beginning)?;
    if beginning == *b"HTTP/1.1 200" { Ok(stream) } else { Err("a stream is refused".into()) }
}

/// The resident memory, and its anonymous part.
fn idle_over_a_lease() -> Result<(u32, u32)> {
    let access = fresh();
    let leader = Server::over_lease(access.kubeconfig(), &[])?;
    revision_of(&leader)?;
    thread::sleep(SETTLING);
    Ok((leader.resident()?, leader.anonymous()?))
}
