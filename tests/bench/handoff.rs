//! How long an election of three candidates has no leader after the leader is stopped or killed.
//!
//! A round begins when one candidate leads and both others know it. After the round, a new
//! candidate replaces the old leader. Any failure ends the benchmark. A [`Contest`] defines the
//! store and program.

use crate::Result;
use crate::client::Connection;
use crate::server::Server;
use crate::table::Sample;
use rustix::process::Signal;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime};

const CANDIDATES: usize = 3;

/// How long candidates may take to agree, in addition to a lease duration.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two polls while candidates agree: many elections may do so at the same time.
const AGREEMENT_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long before a successor may lead the polling begins, to detect one that leads too early.
const HEAD_START: Duration = Duration::from_millis(20);

/// An election of one program over one store.
pub(crate) trait Contest {
    /// How long followers wait after the last renewal.
    const LEASE: Duration;
    /// How long an answer "leading" is valid. A leader that is stopped keeps its lease for this
    /// long.
    const VALIDITY: Duration;
    /// The pause between two polls of a candidate that may lead next, which is the error of the
    /// figures.
    const POLL_INTERVAL: Duration;
    /// Leaders are stopped at different times over this span, to cover the renewal interval evenly.
    const SPREAD: Duration;

    /// Starts a candidate.
    fn start(&self) -> Result<Server>;

    /// When the current record was written.
    fn last_written(&self) -> Result<Instant>;
}

/// Measures handoffs after SIGTERM. A gap counts from the end of the last promise, the earliest
/// instant at which the old leader may release. So it includes the release, but not the
/// application's time.
pub(crate) fn clean<C: Contest>(contest: &C, rounds: u32) -> Result<Sample> {
    let mut gaps = Sample::default();
    each_round(contest, rounds, |election| {
        let mut leader = election.remove_leader()?;
        let polled = Instant::now();
        leader.connection.expect_leading()?;
        leader.server.signal(Signal::TERM)?;
        let succeeded = election.await_successor(polled + C::VALIDITY)?;
        let gap = succeeded.checked_duration_since(polled + C::VALIDITY);
        gaps.push(gap.ok_or("the successor led before the last promise had expired")?);
        let status = leader.server.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the old leader exited with {status}").into())
        }
    })?;
    Ok(gaps)
}

/// The gaps after SIGKILL.
#[derive(Debug, Default)]
pub(crate) struct Killed {
    /// From SIGKILL.
    pub(crate) whole: Sample,
    /// From the end of the lease, which starts with the last renewal.
    pub(crate) excess: Sample,
}

/// Measures handoffs after SIGKILL.
pub(crate) fn killed<C: Contest>(contest: &C, rounds: u32) -> Result<Killed> {
    let mut figures = Killed::default();
    each_round(contest, rounds, |election| {
        let mut leader = election.remove_leader()?;
        let killed = Instant::now();
        leader.server.signal(Signal::KILL)?;
        leader.server.wait()?;
        let expired = contest.last_written()? + C::LEASE;
        let succeeded = election.await_successor(expired)?;
        figures.whole.push(succeeded - killed);
        let excess = succeeded.checked_duration_since(expired);
        figures.excess.push(excess.ok_or("the successor led before the lease had expired")?);
        Ok(())
    })?;
    Ok(figures)
}

/// Handoffs of each program in a comparison.
const HANDOFFS: u32 = 50;

/// The pause between the starts of two elections. Elections that start together stay in step, and
/// then all hand over at the same time.
const START_INTERVAL: Duration = Duration::from_millis(1400);

/// Runs elections of both programs in parallel, and returns the result of each. Each election
/// measures an equal share of its program's handoffs.
pub(crate) fn side_by_side<T: Send>(
    our_elections: u32,
    ours: impl Fn(u32) -> Result<T> + Sync,
    their_elections: u32,
    theirs: impl Fn(u32) -> Result<T> + Sync,
) -> Result<[Vec<T>; 2]> {
    let (ours, theirs) = (&ours, &theirs);
    thread::scope(|scope| {
        let all = our_elections + their_elections;
        let ours = start(scope, 0..our_elections, ours);
        let theirs = start(scope, our_elections..all, theirs);
        Ok([join(ours)?, join(theirs)?])
    })
}

/// Waits for the elections of one program.
pub(crate) fn join<T>(elections: Vec<ScopedJoinHandle<'_, Result<T>>>) -> Result<Vec<T>> {
    elections
        .into_iter()
        .map(|election| election.join().expect("a measurement does not panic"))
        .collect()
}

/// Starts one election of a program for each number, each a [`START_INTERVAL`] after the previous
/// one.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    numbers: Range<u32>,
    measure: &'scope (impl Fn(u32) -> Result<T> + Sync),
) -> Vec<ScopedJoinHandle<'scope, Result<T>>> {
    let rounds = HANDOFFS / u32::try_from(numbers.len()).expect("there are few elections");
    let election = |number| {
        scope.spawn(move || {
            thread::sleep(START_INTERVAL * number);
            measure(rounds)
        })
    };
    numbers.map(election).collect()
}

/// The instant of a past time of the wall clock.
pub(crate) fn instant(past: SystemTime) -> Result<Instant> {
    Instant::now()
        .checked_sub(past.elapsed()?)
        .ok_or_else(|| "the time is before the start of the monotonic clock".into())
}

/// Runs rounds of one election. Each begins when the candidates agree on a leader.
pub(crate) fn each_round<C: Contest>(
    contest: &C,
    rounds: u32,
    mut round: impl FnMut(&mut Election<'_, C>) -> Result<()>,
) -> Result<()> {
    let mut election = Election { candidates: Vec::new(), contest };
    for number in 0..rounds {
        let result = election.settle().and_then(|()| {
            thread::sleep(C::SPREAD * number / rounds);
            round(&mut election)
        });
        if let Err(error) = result {
            let exits = election.candidates.iter_mut().map(|candidate| candidate.server.exit());
            let exits: Vec<_> = exits.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
            return Err(format!(
                "round {number}: {error}; candidates that have exited: {exits:#?}"
            )
            .into());
        }
    }
    Ok(())
}

/// Three candidates between rounds, and two during a round.
pub(crate) struct Election<'a, C> {
    candidates: Vec<Candidate>,
    contest: &'a C,
}

pub(crate) struct Candidate {
    pub(crate) server: Server,
    pub(crate) connection: Connection,
}

impl<C: Contest> Election<'_, C> {
    /// Starts missing candidates, and waits until one leads and the others know it.
    fn settle(&mut self) -> Result<()> {
        while self.candidates.len() < CANDIDATES {
            let server = self.contest.start()?;
            let connection = Connection::open(&server.address)?;
            self.candidates.push(Candidate { server, connection });
        }
        self.await_agreement().map(drop)
    }

    /// Adds a candidate for the rest of the round.
    pub(crate) fn add(&mut self, server: Server) -> Result<()> {
        let connection = Connection::open(&server.address)?;
        self.candidates.push(Candidate { server, connection });
        Ok(())
    }

    /// Removes the candidate that was added last.
    pub(crate) fn remove_last(&mut self) {
        self.candidates.pop();
    }

    /// Removes the leader from the candidates.
    pub(crate) fn remove_leader(&mut self) -> Result<Candidate> {
        let leader = self.await_agreement()?;
        Ok(self.candidates.remove(leader))
    }

    /// Waits until all candidates name the same leader: its index.
    fn await_agreement(&mut self) -> Result<usize> {
        let started = Instant::now();
        loop {
            let named = self
                .candidates
                .iter_mut()
                .map(|candidate| candidate.connection.leader())
                .collect::<Result<Vec<_>>>()?;
            let leads = |candidate: &Candidate| {
                named.iter().all(|leader| *leader == candidate.server.identity)
            };
            if let Some(leader) = self.candidates.iter().position(leads) {
                return Ok(leader);
            }
            if started.elapsed() > PATIENCE + C::LEASE {
                return Err(format!("the candidates do not agree on a leader: {named:?}").into());
            }
            thread::sleep(AGREEMENT_POLL_INTERVAL);
        }
    }

    /// Waits for the first answer "leading" of a candidate. Polling begins shortly before
    /// `earliest`.
    pub(crate) fn await_successor(&mut self, earliest: Instant) -> Result<Instant> {
        thread::sleep(earliest.saturating_duration_since(Instant::now() + HEAD_START));
        let found = AtomicBool::new(false);
        let answers = thread::scope(|scope| {
            let polling = self
                .candidates
                .iter_mut()
                .map(|candidate| scope.spawn(|| candidate.poll_until_leading::<C>(&found)));
            let polling: Vec<_> = polling.collect();
            polling
                .into_iter()
                .map(|thread| thread.join().expect("polling does not panic"))
                .collect::<Result<Vec<_>>>()
        })?;
        let mut leading = answers.into_iter().flatten();
        match (leading.next(), leading.next()) {
            (Some(at), None) => Ok(at),
            (Some(_), Some(_)) => Err("two candidates lead at the same time".into()),
            (None, _) => Err(format!("no candidate leads after {PATIENCE:?}").into()),
        }
    }
}

impl Candidate {
    /// Polls until this candidate leads, or until another one is `found` to lead (`None`).
    fn poll_until_leading<C: Contest>(&mut self, found: &AtomicBool) -> Result<Option<Instant>> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if self.connection.get_leader()?.status == b"200" {
                found.store(true, Ordering::Relaxed);
                return Ok(Some(Instant::now()));
            }
            if found.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(C::POLL_INTERVAL);
        }
        Ok(None)
    }
}
