//! Clean handoffs over a Lease, from SIGTERM until the successor's application leads, for three
//! kinds of applications, beside client-go's candidates on the same API server.
//!
//! Touches processes, an API server, and a named pipe per election. Start with [`measure`]. A
//! command under `baton exec` ends at SIGTERM; another application asks right before SIGTERM, which
//! is the worst case; and a third asks too, and reports that it is done.

use crate::Result;
use crate::handoff::{Candidate, Contest, each_round, join, start};
use crate::lease::{Baton, ClientGo, fresh, renewed};
use crate::rig::Access;
use crate::server::Server;
use crate::table::{Row, Sample, Unit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The default duration of a promise.
const VALIDITY: Duration = Duration::from_secs(2);

/// The bound for an application that makes Baton wait for no promise, in milliseconds.
const TARGET: f64 = 50.0;

/// The command of `baton exec`: reports that it runs, and ends at SIGTERM.
const COMMAND: &str = "echo > \"$0\"; exec sleep infinity";

/// How long a command may take to run.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// An election whose candidates run [`COMMAND`].
struct Exec {
    access: Access,
    pipe: Pipe,
}

/// A named pipe, into which each command writes a line when it begins.
struct Pipe {
    path: PathBuf,
    file: File,
    _folder: TempDir,
}

impl Pipe {
    fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("baton-bench-")?;
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Open for writing too, so that it never ends.
        let file = File::options().read(true).write(true).open(&path)?;
        Ok(Self { path, file, _folder: folder })
    }

    /// Waits until a command begins.
    fn await_command(&self) -> Result<Instant> {
        if poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&PATIENCE))? == 0 {
            return Err("no command began".into());
        }
        let began = Instant::now();
        match (&self.file).read(&mut [0; 64])? {
            1 => Ok(began),
            lines => Err(format!("{lines} commands began").into()),
        }
    }
}

impl Contest for Exec {
    const LEASE: Duration = Baton::LEASE;
    const VALIDITY: Duration = Baton::VALIDITY;
    const POLL_INTERVAL: Duration = Baton::POLL_INTERVAL;
    const SPREAD: Duration = Baton::SPREAD;

    fn start(&self) -> Result<Server> {
        Server::running(self.access.kubeconfig(), COMMAND, &self.pipe.path)
    }

    fn last_written(&self) -> Result<Instant> {
        renewed(&self.access)
    }
}

pub(crate) fn measure() -> Result<Vec<Row>> {
    let [exec, done, polling, client_go] = thread::scope(|scope| -> Result<[Sample; 4]> {
        let programs = [
            start(scope, 0..1, &exec),
            start(scope, 1..2, &done),
            start(scope, 2..4, &polling),
            start(scope, 4..9, &client_go),
        ];
        let [exec, done, polling, client_go] = programs.map(join);
        Ok([exec?, done?, polling?, client_go?].map(|samples| samples.into_iter().collect()))
    })?;
    let rows = |what: &str, sample: &Sample, target: Option<f64>| {
        [(what, 50), ("the same, p99", 99)].map(|(what, percent)| {
            let row = Row::new(what, Unit::Milliseconds, sample.percentile(percent))
                .against("client-go", client_go.percentile(percent));
            match target {
                Some(target) if percent == 50 => row.target(target),
                Some(_) | None => row,
            }
        })
    };
    let kinds = [
        rows("SIGTERM to `baton exec`, to the successor's command, p50 of 50", &exec, Some(TARGET)),
        rows("SIGTERM and `/done`, to the successor's 200, p50 of 50", &done, Some(TARGET)),
        rows("SIGTERM right after an answer, to the successor's 200, p50 of 50", &polling, None),
    ];
    Ok(kinds.into_iter().flatten().collect())
}

/// The gaps between the commands of `baton exec`.
fn exec(rounds: u32) -> Result<Sample> {
    let contest = Exec { access: fresh(), pipe: Pipe::new()? };
    let mut gaps = Sample::default();
    let mut is_first = true;
    each_round(&contest, rounds, |election| {
        if std::mem::take(&mut is_first) {
            contest.pipe.await_command()?;
        }
        let mut leader = election.remove_leader()?;
        let left = Instant::now();
        leader.server.signal(Signal::TERM)?;
        gaps.push(contest.pipe.await_command()? - left);
        match leader.server.wait()?.code() {
            Some(143) => Ok(()),
            code => Err(format!("the old leader exited with {code:?}").into()),
        }
    })?;
    Ok(gaps)
}

/// The gaps of an application that asks, and reports that it is done as soon as it gets SIGTERM.
fn done(rounds: u32) -> Result<Sample> {
    leaving(&Baton(fresh()), rounds, Duration::ZERO, |leader| {
        let token = leader.connection.token()?;
        let left = Instant::now();
        leader.server.signal(Signal::TERM)?;
        leader.connection.post_done(&token)?;
        Ok(left)
    })
}

/// The gaps of an application that asks right before SIGTERM, and says nothing after it.
fn polling(rounds: u32) -> Result<Sample> {
    leaving(&Baton(fresh()), rounds, VALIDITY, |leader| {
        leader.connection.expect_leading()?;
        terminate(leader)
    })
}

/// The gaps of client-go, which stops its work and releases as soon as it gets SIGTERM.
fn client_go(rounds: u32) -> Result<Sample> {
    leaving(&ClientGo(fresh()), rounds, Duration::ZERO, terminate)
}

fn terminate(leader: &mut Candidate) -> Result<Instant> {
    let left = Instant::now();
    leader.server.signal(Signal::TERM)?;
    Ok(left)
}

/// Measures handoffs from the instant that `leave` returns to the successor's first answer
/// "leading". No successor leads within `at_least` of it.
fn leaving<C: Contest>(
    contest: &C,
    rounds: u32,
    at_least: Duration,
    leave: impl Fn(&mut Candidate) -> Result<Instant>,
) -> Result<Sample> {
    let mut gaps = Sample::default();
    each_round(contest, rounds, |election| {
        let mut leader = election.remove_leader()?;
        let left = leave(&mut leader)?;
        gaps.push(election.await_successor(left + at_least)? - left);
        let status = leader.server.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the old leader exited with {status}").into())
        }
    })?;
    Ok(gaps)
}
