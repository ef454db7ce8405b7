//! Ten thousand terms, each with a guard, a trampoline, and a command, leak no resources.
//!
//! It fills the machine, so it runs alone. Start with the only case: two candidates in elections of
//! their own run half of the terms each. Each command reports its fencing token through a pipe, and
//! the test then asks its candidate to resign from that term.

use super::children;
use crate::noise::{Assumption, assume};
use crate::rig::{Candidate, Files, Ledger, Rig, Store as _, Timing, eventually, side_by_side};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// A candidate that has released campaigns again about a retry period later. A release waits for
/// the promises to the prober, so they are short.
const TIMING: Timing = Timing::of_ms(4500, 3000, 10, 1);

const ELECTIONS: [&str; 2] = ["orders", "bills"];

const TERMS_OF_EACH: usize = 5000;

/// The terms before the first count: memory is allocated and threads start.
const WARM_UP: usize = 200;

/// How many answers to `/resign` may be outstanding. Each waits for a successor for a while.
const MOST_ANSWERS: usize = 8;

const PATIENCE: Duration = Duration::from_secs(30);

/// The elector's blocking threads come and go: `max_blocking_threads` in `supervisor.rs`.
const BLOCKING_THREADS: usize = 4;

/// How many kilobytes the resident memory may grow: a leak of 210 bytes per term would show.
const MEMORY_GROWTH: usize = 1024;

/// A case that loads the machine itself may lose most of each second.
const STILL_AWAKE: &[Assumption] = &[Assumption::LosesAtMost(Duration::from_millis(1500))];

/// The command: reports its token, and waits for a signal.
const SCRIPT: &str = "echo $BATON_TOKEN > REPORTS; read line < HOLD";

/// The resources of an elector.
#[derive(Clone, Copy, Debug)]
struct Usage {
    descriptors: f64,
    children: usize,
    threads: usize,
    kilobytes: usize,
}

impl Usage {
    fn of(candidate: &Candidate) -> Self {
        let pid = candidate.pid();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it is alive");
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|size| size.trim().strip_suffix(" kB")?.parse().ok());
        Self {
            descriptors: candidate.metric("process_open_fds").expect("it answers"),
            children: children(pid).len(),
            threads: threads.count(),
            kilobytes: kilobytes.expect("the format of proc(5)"),
        }
    }

    fn is_within(self, before: Self) -> bool {
        self.descriptors <= before.descriptors
            && self.children <= before.children
            && self.threads <= before.threads + BLOCKING_THREADS
            && self.kilobytes <= before.kilobytes + MEMORY_GROWTH
    }
}

/// A candidate that runs through its terms.
struct Terms {
    candidate: Arc<Candidate>,
    reports: Receiver<u128>,
    /// The token of the command that runs.
    token: u128,
    _keeps_reports_open: File,
}

impl Terms {
    fn start(ledger: &Ledger<'_>, folder: &Path, election: &str) -> Self {
        let [reports, hold] =
            ["reports", "hold"].map(|name| folder.join(format!("{election}.{name}")));
        let made = Command::new("mkfifo").args([&reports, &hold]).status();
        assert!(made.expect("coreutils are installed").success());
        let script = SCRIPT
            .replace("REPORTS", reports.to_str().expect("paths are UTF-8"))
            .replace("HOLD", hold.to_str().expect("paths are UTF-8"));
        // Read and write: opening waits for no other end.
        let pipe = File::options().read(true).write(true).open(&reports).expect("it is a pipe");
        let lines = BufReader::new(File::open(&reports).expect("it has a writer")).lines();
        let (sender, reports) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                sender.send(line.parse().expect("a token")).ok();
            }
        });
        let candidate = ledger.candidate(election, &script).election(election).start();
        let token = reports.recv_timeout(PATIENCE).expect("the first command runs");
        Self { candidate, reports, token, _keeps_reports_open: pipe }
    }

    /// Runs through this many terms. The command of the last one is running afterwards.
    fn advance(&mut self, terms: usize) {
        let mut answers = VecDeque::new();
        for _ in 0..terms {
            answers.push_back(self.resign());
            let next = self.reports.recv_timeout(PATIENCE).expect("the next command runs");
            assert!(next > self.token, "{next} follows {}", self.token);
            self.token = next;
            if answers.len() > MOST_ANSWERS {
                is_released(answers.pop_front().expect("there are some"));
            }
        }
        answers.into_iter().for_each(is_released);
    }

    /// Requests to resign, and does not wait for the answer.
    fn resign(&self) -> TcpStream {
        let (listen, token) = (&self.candidate.listen, self.token);
        let mut stream = TcpStream::connect(listen).expect("it listens");
        let request = format!(
            "POST /resign?hold_off=1ms&token={token} HTTP/1.1\r\nHost: {listen}\r\n\
             Baton-Request: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("it listens");
        stream
    }

    fn usage(&self) -> Usage {
        Usage::of(&self.candidate)
    }
}

fn is_released(mut answer: TcpStream) {
    answer.set_read_timeout(Some(PATIENCE)).expect("it is a duration");
    let mut text = String::new();
    answer.read_to_string(&mut text).expect("it answers");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

#[test]
fn ten_thousand_terms_leave_nothing() {
    assume(STILL_AWAKE);
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    side_by_side(ELECTIONS, |election| {
        let mut terms = Terms::start(&ledger, rig.folder(), election);
        terms.advance(WARM_UP);
        let (before, begun) = (terms.usage(), Instant::now());
        terms.advance(TERMS_OF_EACH);
        let (after, took) = (terms.usage(), begun.elapsed());
        println!("{election}: {TERMS_OF_EACH} terms in {took:.1?}, {before:?}, then {after:?}");
        eventually(PATIENCE, "nothing is left of the ended terms", || {
            terms.usage().is_within(before)
        });
        terms.candidate.terminate();
        assert_eq!(terms.candidate.exit_code(), 143);
    });
    assert!(ledger.processes().is_empty(), "a process is left");
}
