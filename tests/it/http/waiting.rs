//! Requests that wait: `/leader?wait=…&after=…` and the streams of `/events`.
//!
//! Start with [`Waiting`], a request whose answer is read when it comes.

use super::{Answer, PATIENCE, TIMING, get, pair, parse};
use crate::rig::{Candidate, NOISE, Rig, Timing, eventually, throughout, wait_for};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// As many as may wait at once.
const MOST: usize = 64;

/// A request that was sent and is not answered yet.
struct Waiting(TcpStream);

impl Waiting {
    fn new(address: &str, path: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Self(stream)
    }

    /// The answer, which must come within [`PATIENCE`].
    fn answer(mut self) -> Answer {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        parse(&text)
    }

    fn is_answered(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        peeked.is_ok()
    }
}

/// An open stream of events.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    pub(crate) fn open(address: &str, headers: &str) -> Self {
        Self::over(TcpStream::connect(address).unwrap(), address, headers)
    }

    pub(crate) fn over(stream: TcpStream, address: &str, headers: &str) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut this = Self(BufReader::new(stream));
        let request = format!("GET /events HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
        this.0.get_mut().write_all(request.as_bytes()).unwrap();
        let head = this.lines_until_empty();
        assert_eq!(head[0], "HTTP/1.1 200 OK", "{head:?}");
        let kind = "content-type: text/event-stream".to_owned();
        assert!(head.contains(&kind) && head.contains(&"cache-control: no-cache".to_owned()));
        this
    }

    /// The lines of the next event or comment, without the sizes of chunks.
    fn next(&mut self) -> Vec<String> {
        self.line();
        let lines = self.lines_until_empty();
        self.line();
        lines
    }

    /// The identifier and the body of the next event.
    pub(crate) fn standing(&mut self) -> (u64, Value) {
        let lines = self.next();
        let [event, id, data] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(event, "event: standing");
        let body = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        (id.strip_prefix("id: ").unwrap().parse().unwrap(), body)
    }

    /// The rest of a stream that ends, with or without a reset.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = Vec::new();
        drop(self.0.read_to_end(&mut rest));
        String::from_utf8_lossy(&rest).into_owned()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the stream ended: {line:?}");
        line.trim_end().to_owned()
    }

    fn lines_until_empty(&mut self) -> Vec<String> {
        std::iter::repeat_with(|| self.line()).take_while(|line| !line.is_empty()).collect()
    }
}

/// The revision of a leader, once it leads.
fn revision(candidate: &Candidate) -> u64 {
    let answer = wait_for(PATIENCE, "it leads", || {
        let answer = get(&candidate.listen, "/leader?promise=none");
        (answer.status == 200).then_some(answer)
    });
    answer.json()["revision"].as_u64().unwrap()
}

fn path(wait: &str, after: u64) -> String {
    format!("/leader?wait={wait}&after={after}")
}

/// The resident anonymous memory in bytes.
fn anonymous_bytes(candidate: &Candidate) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", candidate.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

fn open_descriptors(candidate: &Candidate) -> f64 {
    candidate.metric("process_open_fds").unwrap()
}

#[test]
fn request_waits_until_the_revision_changes() {
    let rig = Rig::new(TIMING);
    let leader = rig.candidate("a").flag("--on-lost", "stay").start();
    rig.leader();
    let now = revision(&leader);
    let at_once = Waiting::new(&leader.listen, &path("30s", now - 1)).answer();
    assert_eq!((at_once.status, at_once.json()["valid_for_ms"].as_u64()), (200, Some(500)));
    let unchanged = Instant::now();
    let late = Waiting::new(&leader.listen, &path("400ms", now)).answer();
    assert!(unchanged.elapsed() >= Duration::from_millis(400), "it waited");
    assert_eq!((late.status, late.json()["revision"].as_u64()), (200, Some(now)));
    let waiting = Waiting::new(&leader.listen, &path("30s", now));
    throughout(Duration::from_millis(300), "it waits", || !waiting.is_answered());
    assert!(leader.baton("resign --hold-off 1s").status.success());
    let changed = waiting.answer();
    assert_eq!((changed.status, changed.json()["is_leader"].as_bool()), (503, Some(false)));
    assert!(changed.json()["revision"].as_u64() > Some(now));
}

/// A promise ends by time alone, and nothing is published then.
#[test]
fn request_is_answered_when_the_last_promise_is_over() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    let waiting = Waiting::new(&leader.listen, &path("30s", revision(&leader)));
    let _blocked = rig.store.block("orders");
    let answer = waiting.answer();
    assert_eq!((answer.status, answer.json()["standing"].as_str()), (503, Some("resigning")));
    leader.exit_code();
}

#[test]
fn invalid_waits_are_refused() {
    let rig = Rig::new(TIMING);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    for query in ["wait=30s", "after=1", "wait=soon&after=1", "wait=1s&after=-1", "wait=1s&after="]
    {
        let answer = get(&leader.listen, &format!("/leader?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.json()["error"].is_string(), "{query}");
    }
}

/// A request counts as polling when it arrives. If it counted at its answer, a dead application
/// would lead longer.
#[test]
fn wait_is_at_most_half_of_the_polling_limit() {
    let rig = Rig::new(TIMING);
    let leader = rig.candidate("a").flag("--require-polling", "3s").unpolled().start();
    let now = revision(&leader);
    let began = Instant::now();
    let answer = Waiting::new(&leader.listen, &path("30s", now)).answer();
    let waited = began.elapsed();
    assert_eq!(answer.status, 200);
    assert!(waited >= Duration::from_millis(1500) && waited < Duration::from_millis(1500) + NOISE);
    let leads = || get(&leader.listen, "/leader?promise=none").status == 200;
    eventually(PATIENCE, "it resigns", || !leads());
    let silent = began.elapsed();
    assert!(silent < Duration::from_secs(3) + NOISE, "it resigned after {silent:?}");
    rig.start("b");
    rig.wait_for_answers();
    assert_ne!(rig.leader().identity, leader.identity, "another candidate leads");
}

#[test]
fn waiting_requests_are_limited_and_answered_together() {
    let rig = Rig::new(TIMING);
    let leader = rig.candidate("a").flag("--on-lost", "stay").start();
    rig.leader();
    let before = open_descriptors(&leader);
    let now = revision(&leader);
    let mut waiting: Vec<_> =
        (0..=MOST).map(|_| Waiting::new(&leader.listen, &path("30s", now))).collect();
    let surplus = wait_for(PATIENCE, "one too many is answered", || {
        waiting.iter().position(Waiting::is_answered)
    });
    let refused = waiting.remove(surplus).answer();
    assert_eq!(refused.status, 429);
    assert!(refused.json()["error"].as_str().unwrap().contains("ask without wait"));
    throughout(Duration::from_millis(300), "the others wait", || {
        !waiting.iter().any(Waiting::is_answered)
    });
    assert_eq!(get(&leader.listen, "/leader").status, 200, "others are answered");
    assert!(leader.baton("resign --hold-off 1s").status.success());
    let answered = waiting.into_iter().map(Waiting::answer);
    assert!(answered.into_iter().all(|answer| answer.status == 503));
    eventually(PATIENCE, "all are free again", || open_descriptors(&leader) <= before + 1.0);
}

#[test]
fn clients_that_go_away_leave_nothing() {
    let rig = Rig::new(TIMING);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    let now = revision(&leader);
    let before = open_descriptors(&leader);
    for _ in 0..100 {
        drop((0..8).map(|_| Waiting::new(&leader.listen, &path("30s", now))).collect::<Vec<_>>());
        drop(Events::open(&leader.listen, ""));
    }
    eventually(PATIENCE, "their descriptors are closed", || {
        open_descriptors(&leader) <= before + 1.0
    });
    let waiting: Vec<_> =
        (0..MOST).map(|_| Waiting::new(&leader.listen, &path("300ms", now))).collect();
    assert!(waiting.into_iter().all(|waiting| waiting.answer().status == 200), "all may wait");
}

/// Ten thousand clients open a stream, read its first event, and go away.
#[test]
fn reconnecting_streams_leave_nothing() {
    let rig = Rig::new(TIMING);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    let settled = || {
        let before = open_descriptors(&leader);
        (0..2_500).for_each(|_| drop(Events::open(&leader.listen, "").next()));
        eventually(PATIENCE, "their descriptors are closed", || {
            open_descriptors(&leader) <= before + 1.0
        });
        anonymous_bytes(&leader)
    };
    // How many connections overlap differs, so memory may grow in one round, but not in each.
    let rounds = [settled(), settled(), settled(), settled()];
    let grows = rounds.windows(2).all(|pair| pair[1] > pair[0] + (128 << 10));
    assert!(!grows, "each 2500 streams leave memory behind: {rounds:?}");
}

#[test]
fn events_tell_each_standing_and_promise_nothing() {
    let rig = Rig::new(TIMING);
    let leader = rig.candidate("a").flag("--on-lost", "stay").start();
    rig.leader();
    let mut events = Events::open(&leader.listen, "Accept: text/event-stream\r\n");
    let (id, body) = events.standing();
    assert_eq!((id, body["revision"].as_u64()), (revision(&leader), Some(id)));
    assert_eq!(
        (body["standing"].as_str(), body["valid_for_ms"].as_u64()),
        (Some("leading"), Some(0))
    );
    assert!(leader.baton("resign --hold-off 1s").status.success());
    let (_, body) = std::iter::repeat_with(|| events.standing())
        .find(|(_, body)| body["is_leader"] == false)
        .unwrap();
    assert_eq!(body["token"], Value::Null);
    // A client that reconnects gets the present standing, whatever it has seen.
    let again = Events::open(&leader.listen, &format!("Last-Event-ID: {id}\r\n")).standing();
    assert!(again.0 >= id);
}

#[test]
fn idle_event_stream_gets_comments() {
    let rig = Rig::new(TIMING);
    let [leader, _] = pair(&rig);
    let mut events = Events::open(&leader.listen, "");
    events.standing();
    let began = Instant::now();
    assert_eq!(events.next(), [":"]);
    let silent = began.elapsed();
    assert!(silent > Duration::from_secs(14) && silent < Duration::from_secs(15) + NOISE);
}

#[test]
fn event_streams_are_limited_and_outlast_other_connections() {
    let rig = Rig::new(TIMING);
    let leader = rig.candidate("a").flag("--on-lost", "stay").start();
    rig.leader();
    let mut streams: Vec<_> = (0..MOST).map(|_| Events::open(&leader.listen, "")).collect();
    assert_eq!(get(&leader.listen, "/events").status, 429);
    let mut idle = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(&leader.listen).unwrap();
        write!(stream, "GET /leader HTTP/1.1\r\nHost: {}\r\n\r\n", leader.listen).unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0, "it is answered");
        idle.push(stream);
    }
    assert!(leader.baton("resign --hold-off 1s").status.success());
    for events in &mut streams {
        let standings = std::iter::repeat_with(|| events.standing()).take(2);
        assert!(standings.last().is_some_and(|(_, body)| body["is_leader"] == false));
    }
}
