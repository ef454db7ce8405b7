//! How long an election is without a leader when three candidates hand it over: asked to stop, and killed.
//!
//! After each round a new candidate takes the place of the old leader. A round begins when one candidate leads and
//! both others know it; what goes wrong in it ends the bench.

use crate::Result;
use crate::client::Connection;
use crate::server::{ELECTION, Server};
use crate::table::{Row, Sample, Unit};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ROUNDS: u32 = 50;
const CANDIDATES: usize = 3;

const LEASE: Duration = Duration::from_millis(1500);
const RETRY: Duration = Duration::from_millis(200);
const VALIDITY: Duration = Duration::from_millis(200);
#[rustfmt::skip]
const FLAGS: [&str; 8] = [
    "--lease-duration", "1500ms", "--renew-deadline", "1s", "--retry-period", "200ms", "--answer-validity", "200ms",
];

/// The pause between two questions to a candidate that may lead next: the figures are too long by so much at the most.
const BETWEEN_LOOKS: Duration = Duration::from_micros(500);
const PATIENCE: Duration = Duration::from_secs(10);

/// From the end of the old leader's last promise, which is the earliest instant at which it may release: so the
/// release is in the figure, and nothing of it is the application's time to act.
pub(crate) fn clean() -> Result<Vec<Row>> {
    let mut gaps = Sample::default();
    rounds(|election, _| {
        let mut leader = election.settle()?;
        let asked = Instant::now();
        leader.connection.ask_leader()?;
        leader.server.signal(Signal::TERM)?;
        let succeeded = election.succeeded()?;
        let gap = succeeded.checked_duration_since(asked + VALIDITY);
        gaps.push(gap.ok_or("the successor led while the last promise was good")?);
        let status = leader.server.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the old leader ended with {status}").into()) }
    })?;
    let row = |what: &str, percent| Row::new(what, Unit::Milliseconds, gaps.percentile(percent)).aim(20.0);
    Ok(vec![
        row("clean handoff, end of the last promise to the successor's 200, p50 of 50", 50),
        row("the same, p99", 99),
    ])
}

/// From SIGKILL, and from the end of the lease, which runs from the last renewal. The kills are spread over the time
/// between two renewals.
pub(crate) fn killed() -> Result<Vec<Row>> {
    let (mut whole, mut excess) = (Sample::default(), Sample::default());
    rounds(|election, round| {
        let mut leader = election.settle()?;
        thread::sleep(RETRY * round / ROUNDS);
        let killed = Instant::now();
        leader.server.signal(Signal::KILL)?;
        leader.server.wait()?;
        let renewed = election.last_written()?;
        let succeeded = election.succeeded()?;
        whole.push(succeeded - killed);
        let after_lease = succeeded.checked_duration_since(renewed + LEASE);
        excess.push(after_lease.ok_or("the successor led before the lease was over")?);
        Ok(())
    })?;
    let row = |what: &str, sample: &Sample, percent| Row::new(what, Unit::Milliseconds, sample.percentile(percent));
    Ok(vec![
        row(
            "killed handoff (lease 1.5s, renew 1s, retry 200ms), SIGKILL to the successor's 200, p50 of 50",
            &whole,
            50,
        ),
        row("the same, p99", &whole, 99),
        row("the same, from the end of the lease (last renewal + 1.5s), p50", &excess, 50),
        row("the same, p99", &excess, 99),
    ])
}

fn rounds(mut round: impl FnMut(&mut Election, u32) -> Result<()>) -> Result<()> {
    let mut election = Election { candidates: Vec::new(), folder: TempDir::with_prefix("baton-bench-")? };
    for number in 0..ROUNDS {
        if let Err(error) = round(&mut election, number) {
            let ends = election.candidates.iter_mut().map(|candidate| candidate.server.end());
            let ends: Vec<_> = ends.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
            return Err(format!("round {number}: {error}; candidates that have ended: {ends:#?}").into());
        }
    }
    Ok(())
}

/// Three candidates over one folder, less one while a round lasts.
struct Election {
    // Dropped before the folder, which can be removed only when nobody writes into it.
    candidates: Vec<Candidate>,
    folder: TempDir,
}

struct Candidate {
    server: Server,
    connection: Connection,
}

impl Election {
    /// Fills up the candidates, and waits until one leads and all others follow it. Takes the leader out.
    fn settle(&mut self) -> Result<Candidate> {
        while self.candidates.len() < CANDIDATES {
            let server = Server::candidate(self.folder.path(), &FLAGS)?;
            let connection = Connection::open(&server.address)?;
            self.candidates.push(Candidate { server, connection });
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let told = self.candidates.iter_mut().map(Candidate::leader).collect::<Result<Vec<_>>>()?;
            let leads = |candidate: &Candidate| told.iter().all(|told| *told == candidate.server.identity);
            if let Some(leader) = self.candidates.iter().position(leads) {
                return Ok(self.candidates.remove(leader));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err("the candidates do not agree on a leader".into())
    }

    /// The instant at which one of the candidates has answered that it leads.
    fn succeeded(&mut self) -> Result<Instant> {
        let found = AtomicBool::new(false);
        let answers = thread::scope(|scope| {
            let asking = self.candidates.iter_mut().map(|candidate| scope.spawn(|| candidate.until_it_leads(&found)));
            let asking: Vec<_> = asking.collect();
            asking.into_iter().map(|thread| thread.join().expect("asking does not panic")).collect::<Result<Vec<_>>>()
        })?;
        let mut leading = answers.into_iter().flatten();
        match (leading.next(), leading.next()) {
            (Some(at), None) => Ok(at),
            (Some(_), Some(_)) => Err("two candidates lead at once".into()),
            (None, _) => Err(format!("nobody leads after {PATIENCE:?}").into()),
        }
    }

    /// When the record was written that is there now. The kernel's stamp may be a few milliseconds too early.
    fn last_written(&self) -> Result<Instant> {
        let modified = fs::metadata(self.folder.path().join(ELECTION).join("record"))?.modified()?;
        let age = modified.elapsed()?;
        Instant::now().checked_sub(age).ok_or_else(|| "the record is older than the clock".into())
    }
}

impl Candidate {
    /// Who leads, as far as this candidate can say.
    fn leader(&mut self) -> Result<Option<String>> {
        let body: Value = serde_json::from_slice(self.connection.ask()?.body)?;
        Ok(body["leader"].as_str().map(str::to_owned))
    }

    /// Asks until it leads or, which is no instant, another one is `found` to.
    fn until_it_leads(&mut self, found: &AtomicBool) -> Result<Option<Instant>> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.connection.ask()?.status == b"200" {
                found.store(true, Ordering::Relaxed);
                return Ok(Some(Instant::now()));
            }
            if found.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(None)
    }
}
