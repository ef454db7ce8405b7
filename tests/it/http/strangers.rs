//! A thousand hostile connections at each listener, while the sidecar has to serve an application
//! and a kubelet.
//!
//! A stranger sends a head that never ends, a body that never comes, many questions whose answers
//! it never reads, or one question over each of many connections. It connects anew as soon as it is
//! closed.

use crate::rig::{Candidate, Files, NOISE, Rig, Store as _, Timing, eventually, throughout};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::iter;
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The strangers of each listener.
const STRANGERS: usize = 1000;
/// How many of them act before they all pause: the machine has other tests to run.
const CROWD: usize = 10;
const BREATH: Duration = Duration::from_millis(15);
/// For how long they go on after each of them has connected.
const SIEGE: Duration = Duration::from_secs(8);
/// The application asks 25 times a second, and the kubelet ten times.
const ASKING: Duration = Duration::from_millis(40);
const PROBING: Duration = Duration::from_millis(100);
/// How long either may wait for its answer, without the time in which the machine ran other
/// processes.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// More clients than the application's listener has room for.
const ASKERS: usize = 400;
/// What the process may occupy, of which the program's own pages are a part.
const MOST_RESIDENT: u64 = 16 << 20;
/// The kernel's and our own bounds on an answer that is not read, and more.
const UNREAD: Duration = Duration::from_secs(8);

/// The kinds of attack.
#[derive(Clone, Copy, Debug)]
enum Stranger {
    /// Sends all but the end of a head of 8 KiB, and then a byte now and then.
    Head,
    /// Announces a long body, and sends a byte of it now and then.
    Body,
    /// Asks for metrics again and again, and reads nothing.
    Pipeline,
    /// Asks once, keeps the connection for a while, and asks over the next one.
    Once,
}

impl Stranger {
    const ALL: [Self; 4] = [Self::Head, Self::Body, Self::Pipeline, Self::Once];

    /// What it sends first.
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

    /// Does what it does now and then: whether its connection is still of use to it.
    fn goes_on(self, stream: &mut TcpStream) -> bool {
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
            // The listener takes no more of it for now.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(stream),
            Err(_) => None,
        }
    }
}

/// The progress of all attacks.
#[derive(Default)]
struct Deeds {
    is_over: AtomicBool,
    connections: AtomicUsize,
}

/// Keeps [`STRANGERS`] connections to `address`, until it is over.
fn besiege(address: SocketAddr, deeds: &Deeds) {
    let mut strangers: Vec<(Stranger, Option<TcpStream>)> = Stranger::ALL
        .into_iter()
        .cycle()
        .take(STRANGERS)
        .map(|stranger| (stranger, None))
        .collect();
    while !deeds.is_over.load(Ordering::Relaxed) {
        for crowd in strangers.chunks_mut(CROWD) {
            for (stranger, connection) in crowd {
                let is_open = connection.as_mut().is_some_and(|stream| stranger.goes_on(stream));
                if !is_open {
                    *connection = stranger.connect(address);
                    deeds.connections.fetch_add(1, Ordering::Relaxed);
                }
            }
            thread::sleep(BREATH);
        }
    }
}

/// How long a process of this machine had to wait for a processor, by its main thread, or by the
/// calling one.
fn starved(schedstat: &str) -> Duration {
    let text =
        std::fs::read_to_string(schedstat).unwrap_or_else(|error| panic!("{schedstat}: {error}"));
    let waited = text.split(' ').nth(1).and_then(|field| field.parse().ok());
    Duration::from_nanos(waited.unwrap_or_else(|| panic!("{schedstat} holds {text:?}")))
}

/// How a client uses its connections.
#[derive(Clone, Copy, PartialEq)]
enum Reuse {
    /// One connection for each question.
    Never,
    /// The same connection, until the sidecar closes it.
    Always,
}

/// A client of the sidecar that opens a connection when it has none.
struct Client<'a> {
    address: &'a str,
    path: &'a str,
    reuse: Reuse,
    open: Option<BufReader<TcpStream>>,
}

impl Client<'_> {
    /// Asks once. A connection that was kept may have been closed: then it asks over a new one.
    fn ask(&mut self) -> std::io::Result<String> {
        if let Some(kept) = self.open.take()
            && let Ok(answer) = self.ask_over(kept)
        {
            return Ok(answer);
        }
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        self.ask_over(BufReader::new(stream))
    }

    /// The line and the headers of the answer, whose body it reads too.
    fn ask_over(&mut self, mut stream: BufReader<TcpStream>) -> std::io::Result<String> {
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

/// Asks again and again: the longest wait that is not the machine's fault, and how often it asked.
fn ask_on(
    candidate: &Candidate,
    mut client: Client<'_>,
    pause: Duration,
    deeds: &Deeds,
) -> (Duration, usize) {
    let theirs = format!("/proc/{}/schedstat", candidate.pid());
    let starved = || [starved(&theirs), starved("/proc/thread-self/schedstat")];
    let (mut longest, mut times) = (Duration::ZERO, 0);
    while !deeds.is_over.load(Ordering::Relaxed) {
        let (before, asked) = (starved(), Instant::now());
        let answer = client.ask();
        let (elapsed, after) = (asked.elapsed(), starved());
        // The two may wait for a processor at the same time: only the longer wait is surely the
        // machine's.
        let stolen = (after[0].saturating_sub(before[0])).max(after[1].saturating_sub(before[1]));
        let wait = elapsed.saturating_sub(stolen);
        let path = client.path;
        assert!(
            answer.as_ref().is_ok_and(|head| head.starts_with("HTTP/1.1 200 ")),
            "{path} after {wait:?}: {answer:?}"
        );
        (longest, times) = (longest.max(wait), times + 1);
        thread::sleep(pause.saturating_sub(asked.elapsed()));
    }
    (longest, times)
}

/// What the process occupies now, all of it and what is its own, in bytes.
fn memory(candidate: &Candidate) -> [u64; 2] {
    let status = std::fs::read_to_string(format!("/proc/{}/status", candidate.pid())).unwrap();
    ["VmRSS:", "RssAnon:"].map(|field| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_suffix("kB"));
        line.unwrap().trim().parse::<u64>().unwrap() << 10
    })
}

/// Samples the memory until it is over: the most of each.
fn most_memory(candidate: &Candidate, deeds: &Deeds) -> [u64; 2] {
    let mut most = memory(candidate);
    while !deeds.is_over.load(Ordering::Relaxed) {
        let now = memory(candidate);
        most = [most[0].max(now[0]), most[1].max(now[1])];
        thread::sleep(Duration::from_millis(20));
    }
    most
}

#[test]
fn a_thousand_hostile_connections_take_little() {
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
    let deeds = Deeds::default();
    let (application, kubelet, most) = thread::scope(|scope| {
        let (leader, deeds) = (&leader, &deeds);
        for address in listeners {
            scope.spawn(move || besiege(address, deeds));
        }
        let application =
            Client { address: &leader.listen, path: "/leader", reuse: Reuse::Always, open: None };
        let kubelet = Client {
            address: &leader.probe_listen,
            path: "/healthz",
            reuse: Reuse::Never,
            open: None,
        };
        let application = scope.spawn(move || ask_on(leader, application, ASKING, deeds));
        let kubelet = scope.spawn(move || ask_on(leader, kubelet, PROBING, deeds));
        let memory = scope.spawn(|| most_memory(leader, deeds));
        let _over = Over(&deeds.is_over);
        let begun = Instant::now();
        while deeds.connections.load(Ordering::Relaxed) < listeners.len() * STRANGERS {
            assert!(begun.elapsed() < Duration::from_mins(1), "the strangers do not get through");
            thread::sleep(Duration::from_millis(50));
        }
        thread::sleep(SIEGE);
        deeds.is_over.store(true, Ordering::Relaxed);
        (application.join().unwrap(), kubelet.join().unwrap(), memory.join().unwrap())
    });
    let connections = deeds.connections.load(Ordering::Relaxed);
    println!(
        "{connections} hostile connections; memory, all and anonymous, from {before:?} to {most:?} bytes"
    );
    println!(
        "the application's longest wait and questions: {application:?}, the kubelet's: {kubelet:?}"
    );
    assert!(most[0] < MOST_RESIDENT, "{} bytes are resident, at rest {}", most[0], before[0]);
    for (longest, times) in [application, kubelet] {
        assert!(longest <= LONGEST_WAIT, "the longest of {times} waits was {longest:?}");
    }
    assert!(leader.events("lost").is_empty(), "it lost its term");
    rig.wait_for_answers();
}

/// Ends the attacks, even if the test panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_hundred_workers_keep_their_connections() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    let worker =
        || Client { address: &leader.listen, path: "/leader", reuse: Reuse::Always, open: None };
    let mut workers: Vec<_> = iter::repeat_with(worker).take(100).collect();
    for worker in &mut workers {
        worker.ask().unwrap();
    }
    for (number, worker) in workers.iter_mut().enumerate() {
        let kept = worker.open.take().unwrap();
        let answer = worker.ask_over(kept);
        assert!(answer.is_ok(), "worker {number}: {answer:?}");
    }
    rig.wait_for_answers();
}

#[test]
fn stopping_is_answered_while_many_clients_ask() {
    // The last promise lasts until all of them have asked.
    let rig = Rig::new(Files::SLOW.valid_for(Duration::from_millis(2500)));
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    assert_eq!(leader.ask().status, 200, "there is a promise to wait for");
    thread::scope(|scope| {
        let stopping = scope.spawn(|| leader.baton("stopping"));
        eventually(NOISE, "it withdraws", || leader.ask().status == 503);
        let mut askers = Vec::new();
        while askers.len() < ASKERS && !stopping.is_finished() {
            let mut client = Client {
                address: &leader.listen,
                path: "/leader",
                reuse: Reuse::Always,
                open: None,
            };
            let answer = client.ask().unwrap();
            assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
            askers.push(client);
        }
        let asked = askers.len();
        let ended = stopping.join().unwrap();
        assert_eq!(ended.status.code(), Some(0), "after {asked} askers: {ended:?}");
        assert_eq!(asked, ASKERS, "it ended before they came");
    });
}

#[test]
fn a_client_that_reads_nothing_is_closed() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    let address = leader.probe_listen.parse().unwrap();
    let mut stuck: Vec<_> = (0..4)
        .map(|_| Stranger::Pipeline.connect(address).expect("the listener has room"))
        .collect();
    let open_files = || leader.metric(r"process_open_fds").unwrap();
    let full = open_files();
    eventually(UNREAD + NOISE, "they are closed", || open_files() <= full - 4.0);
    for stream in &mut stuck {
        // Nothing of the answers is left with the kernel either: it has reset the connection.
        let ended = || stream.take_error().is_ok_and(|error| error.is_some());
        eventually(NOISE, "the connection is reset", ended);
    }
    throughout(NOISE, "it leads on", || rig.has_standing(&leader, "leading"));
    rig.wait_for_answers();
}

#[test]
fn a_head_above_the_bound_is_refused() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    for (length, status) in [(7000, "200 OK"), (9000, "431 Request Header Fields Too Large")] {
        let mut stream = TcpStream::connect(&leader.probe_listen).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let filling = "x".repeat(length);
        write!(
            stream,
            "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {filling}\r\n\r\n"
        )
        .unwrap();
        let mut answer = [0; 128];
        let read = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{length}: {answer}");
    }
}
