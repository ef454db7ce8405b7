//! A thousand hostile connections to each listener, while the sidecar serves an application and a
//! kubelet.
//!
//! A hostile client sends a head that never ends, a body that never arrives, many requests whose
//! answers it never reads, or one request on each of many connections. It reconnects at once.

use crate::rig::{Candidate, Files, NOISE, Rig, Store as _, Timing, eventually, throughout};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::iter;
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Hostile connections to each listener.
const ATTACKERS: usize = 1000;
/// How many of them act between two pauses, which leave the machine to other tests.
const BATCH: usize = 10;
const BATCH_PAUSE: Duration = Duration::from_millis(15);
/// How long the attack lasts after every attacker has connected.
const ATTACK_DURATION: Duration = Duration::from_secs(8);
/// The application polls 25 times a second, and the kubelet probes ten times a second.
const POLL_INTERVAL: Duration = Duration::from_millis(40);
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// The bound on a response time, without the time for which the machine ran other processes.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// More clients than the application's listener accepts.
const CLIENTS: usize = 400;
/// The bound on the process's anonymous memory, a quarter of its container's limit. The pages of the
/// program itself are not counted: those of a debug build are larger, and the kernel can drop them.
const MAX_ANONYMOUS_BYTES: u64 = 8 << 20;
/// Longer than the kernel and the sidecar keep an unread answer.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(8);

/// A kind of attack.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Sends all but the end of a head of 8 KiB, and then a byte now and then.
    Head,
    /// Announces a long body, and sends a byte of it now and then.
    Body,
    /// Requests metrics again and again, and reads nothing.
    Pipeline,
    /// Sends one request, keeps the connection for a while, and opens the next one.
    Once,
}

impl Attack {
    const ALL: [Self; 4] = [Self::Head, Self::Body, Self::Pipeline, Self::Once];

    /// The first bytes on a connection.
    fn opening(self) -> Vec<u8> {
        match self {
            Self::Head => {
                format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}", "x".repeat(7900)).into_bytes()
            }
            Self::Body => {
                b"POST /stopping HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".to_vec()
            }
            Self::Pipeline => b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(200),
            Self::Once => b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        }
    }

    /// Continues the attack, and returns whether the connection can still be used.
    fn advance(self, stream: &mut TcpStream) -> bool {
        match self {
            Self::Once => false,
            Self::Head | Self::Body | Self::Pipeline => match stream.write(b"x") {
                Ok(_) => true,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            },
        }
    }

    fn connect(self, address: SocketAddr) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(address).ok()?;
        // Unread answers stay in the sidecar's buffers.
        set_socket_recv_buffer_size(&stream, 4096).ok()?;
        stream.set_nonblocking(true).ok()?;
        match stream.write_all(&self.opening()) {
            Ok(()) => Some(stream),
            // The listener accepts no more bytes for now.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(stream),
            Err(_) => None,
        }
    }
}

/// The progress of all attacks.
#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    connections: AtomicUsize,
}

/// Keeps [`ATTACKERS`] connections to `address` until the attack is over.
fn attack(address: SocketAddr, progress: &Progress) {
    let mut attackers: Vec<(Attack, Option<TcpStream>)> =
        Attack::ALL.into_iter().cycle().take(ATTACKERS).map(|attack| (attack, None)).collect();
    while !progress.is_over.load(Ordering::Relaxed) {
        for batch in attackers.chunks_mut(BATCH) {
            for (attack, connection) in batch {
                let is_open = connection.as_mut().is_some_and(|stream| attack.advance(stream));
                if !is_open {
                    *connection = attack.connect(address);
                    progress.connections.fetch_add(1, Ordering::Relaxed);
                }
            }
            thread::sleep(BATCH_PAUSE);
        }
    }
}

/// How long a thread has waited for a processor, by its `schedstat` file.
fn run_queue_wait(schedstat: &str) -> Duration {
    let text =
        std::fs::read_to_string(schedstat).unwrap_or_else(|error| panic!("{schedstat}: {error}"));
    let waited = text.split(' ').nth(1).and_then(|field| field.parse().ok());
    Duration::from_nanos(waited.unwrap_or_else(|| panic!("{schedstat} holds {text:?}")))
}

/// How a client uses its connections.
#[derive(Clone, Copy, PartialEq)]
enum Reuse {
    /// One connection for each request.
    Never,
    /// The same connection, until the sidecar closes it.
    Always,
}

/// A client of the sidecar that connects when it has no connection.
struct Client<'a> {
    address: &'a str,
    path: &'a str,
    reuse: Reuse,
    open: Option<BufReader<TcpStream>>,
}

impl Client<'_> {
    /// Sends one request. If the kept connection has been closed, it opens another one.
    fn request(&mut self) -> std::io::Result<String> {
        if let Some(kept) = self.open.take()
            && let Ok(answer) = self.request_over(kept)
        {
            return Ok(answer);
        }
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        self.request_over(BufReader::new(stream))
    }

    /// Sends one request over this connection, and reads the whole answer: its head.
    fn request_over(&mut self, mut stream: BufReader<TcpStream>) -> std::io::Result<String> {
        let Self { address, path, reuse, .. } = self;
        let close = if *reuse == Reuse::Never { "Connection: close\r\n" } else { "" };
        write!(stream.get_mut(), "GET {path} HTTP/1.1\r\nHost: {address}\r\n{close}\r\n")?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        stream.read_exact(&mut vec![0; length.expect("the answer has a length")])?;
        self.open = (*reuse == Reuse::Always).then_some(stream);
        Ok(head)
    }
}

/// Sends requests until the attack is over: the longest wait that is not the machine's fault, and
/// how many there were.
fn keep_requesting(
    candidate: &Candidate,
    mut client: Client<'_>,
    pause: Duration,
    progress: &Progress,
) -> (Duration, usize) {
    let schedstat = format!("/proc/{}/schedstat", candidate.pid());
    let waits = || [run_queue_wait(&schedstat), run_queue_wait("/proc/thread-self/schedstat")];
    let (mut longest, mut count) = (Duration::ZERO, 0);
    while !progress.is_over.load(Ordering::Relaxed) {
        let (before, started) = (waits(), Instant::now());
        let answer = client.request();
        let (elapsed, after) = (started.elapsed(), waits());
        // Both threads may wait for a processor at the same time, so only the longer wait counts.
        let stolen = (after[0].saturating_sub(before[0])).max(after[1].saturating_sub(before[1]));
        let wait = elapsed.saturating_sub(stolen);
        // A client whose thread waited that long for a processor may lose its slot to attackers.
        if answer.is_err() && stolen >= BATCH_PAUSE {
            continue;
        }
        let path = client.path;
        assert!(
            answer.as_ref().is_ok_and(|head| head.starts_with("HTTP/1.1 200 ")),
            "{path} after {wait:?}: {answer:?}"
        );
        (longest, count) = (longest.max(wait), count + 1);
        thread::sleep(pause.saturating_sub(started.elapsed()));
    }
    (longest, count)
}

/// The resident memory of the process in bytes: all of it, and its anonymous part.
fn memory(candidate: &Candidate) -> [u64; 2] {
    let status = std::fs::read_to_string(format!("/proc/{}/status", candidate.pid())).unwrap();
    ["VmRSS:", "RssAnon:"].map(|field| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_suffix("kB"));
        line.unwrap().trim().parse::<u64>().unwrap() << 10
    })
}

/// Samples the memory until the attack is over: the maximum of each.
fn peak_memory(candidate: &Candidate, progress: &Progress) -> [u64; 2] {
    let mut peak = memory(candidate);
    while !progress.is_over.load(Ordering::Relaxed) {
        let now = memory(candidate);
        peak = [peak[0].max(now[0]), peak[1].max(now[1])];
        thread::sleep(Duration::from_millis(20));
    }
    peak
}

#[test]
fn hostile_connections_cost_little_time_and_memory() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.candidate("a").flag("--listen", "localhost:0").start();
    rig.leader();
    let application: SocketAddr = leader.listen.parse().unwrap();
    let listeners = [
        application,
        SocketAddr::from((Ipv6Addr::LOCALHOST, application.port())),
        leader.probe_listen.parse().unwrap(),
    ];
    let before = memory(&leader);
    let progress = Progress::default();
    let (application, kubelet, peak) = thread::scope(|scope| {
        let (leader, progress) = (&leader, &progress);
        for address in listeners {
            scope.spawn(move || attack(address, progress));
        }
        let application =
            Client { address: &leader.listen, path: "/leader", reuse: Reuse::Always, open: None };
        let kubelet = Client {
            address: &leader.probe_listen,
            path: "/healthz",
            reuse: Reuse::Never,
            open: None,
        };
        let application =
            scope.spawn(move || keep_requesting(leader, application, POLL_INTERVAL, progress));
        let kubelet =
            scope.spawn(move || keep_requesting(leader, kubelet, PROBE_INTERVAL, progress));
        let memory = scope.spawn(|| peak_memory(leader, progress));
        let _end = EndOnDrop(&progress.is_over);
        let started = Instant::now();
        while progress.connections.load(Ordering::Relaxed) < listeners.len() * ATTACKERS {
            assert!(started.elapsed() < Duration::from_mins(1), "the attackers cannot connect");
            thread::sleep(Duration::from_millis(50));
        }
        thread::sleep(ATTACK_DURATION);
        progress.is_over.store(true, Ordering::Relaxed);
        (application.join().unwrap(), kubelet.join().unwrap(), memory.join().unwrap())
    });
    let connections = progress.connections.load(Ordering::Relaxed);
    println!(
        "{connections} hostile connections; resident and anonymous memory from {before:?} to \
         {peak:?} bytes"
    );
    println!(
        "longest wait and number of requests of the application: {application:?}, of the \
         kubelet: {kubelet:?}"
    );
    assert!(peak[1] < MAX_ANONYMOUS_BYTES, "{} bytes anonymous, {} at rest", peak[1], before[1]);
    for (longest, count) in [application, kubelet] {
        assert!(longest <= MAX_WAIT, "the longest of {count} waits was {longest:?}");
    }
    assert!(leader.events("lost").is_empty(), "it lost its term");
    rig.wait_for_answers();
}

/// Ends the attack, even if the test panics.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_hundred_clients_keep_their_connections() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    let client =
        || Client { address: &leader.listen, path: "/leader", reuse: Reuse::Always, open: None };
    let mut clients: Vec<_> = iter::repeat_with(client).take(100).collect();
    for client in &mut clients {
        client.request().unwrap();
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let kept = client.open.take().unwrap();
        let answer = client.request_over(kept);
        assert!(answer.is_ok(), "client {number}: {answer:?}");
    }
    rig.wait_for_answers();
}

#[test]
fn stopping_is_answered_while_many_clients_poll() {
    // The last promise lasts until all clients have polled.
    let rig = Rig::new(Files::SLOW.valid_for(Duration::from_millis(2500)));
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    assert_eq!(leader.ask().status, 200, "there is a promise to wait for");
    thread::scope(|scope| {
        let stopping = scope.spawn(|| leader.baton("stopping"));
        eventually(NOISE, "it withdraws", || leader.ask().status == 503);
        let mut clients = Vec::new();
        while clients.len() < CLIENTS && !stopping.is_finished() {
            let mut client = Client {
                address: &leader.listen,
                path: "/leader",
                reuse: Reuse::Always,
                open: None,
            };
            let answer = client.request().unwrap();
            assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
            clients.push(client);
        }
        let polled = clients.len();
        let output = stopping.join().unwrap();
        assert_eq!(output.status.code(), Some(0), "after {polled} clients: {output:?}");
        assert_eq!(polled, CLIENTS, "it exited before all clients had polled");
    });
}

#[test]
fn client_that_reads_nothing_is_disconnected() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    let address = leader.probe_listen.parse().unwrap();
    let mut stuck: Vec<_> = (0..4)
        .map(|_| Attack::Pipeline.connect(address).expect("the listener accepts it"))
        .collect();
    let open_files = || leader.metric(r"process_open_fds").unwrap();
    let full = open_files();
    eventually(UNREAD_TIMEOUT + NOISE, "the sidecar closes them", || open_files() <= full - 4.0);
    for stream in &mut stuck {
        // A reset shows that the kernel has dropped the unread answers too.
        let is_reset = || stream.take_error().is_ok_and(|error| error.is_some());
        eventually(NOISE, "the connection is reset", is_reset);
    }
    throughout(NOISE, "it keeps leading", || rig.has_standing(&leader, "leading"));
    rig.wait_for_answers();
}

#[test]
fn oversized_request_head_is_refused() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    for (length, status) in [(7000, "200 OK"), (9000, "431 Request Header Fields Too Large")] {
        let mut stream = TcpStream::connect(&leader.probe_listen).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let filling = "x".repeat(length);
        let request = format!(
            "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {filling}\r\n\r\n"
        );
        // In one write: a second one may meet a closed connection.
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 128];
        let read = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{length}: {answer}");
    }
}
