//! How long an election is without a leader when three candidates hand it over: asked to stop, and killed.
//!
//! After each round a new candidate takes the place of the old leader. A round begins when one candidate leads and
//! both others know it; what goes wrong in it ends the bench. Where and by which program is up to a [`Ground`].

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

/// How long candidates may take to agree; a successor is given a lease more.
const PATIENCE: Duration = Duration::from_secs(30);

/// Many elections may settle at once.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);

/// For so long before a successor may lead it is asked already, so that one which leads too early is found out.
const BEFORE: Duration = Duration::from_millis(20);

/// Where candidates of one program meet.
pub(crate) trait Ground {
    /// The time that the others have to wait after the last renewal.
    const LEASE: Duration;
    /// For how long an answer "leading" is good: so long a leader that is asked to stop keeps its lease.
    const VALIDITY: Duration;
    /// The pause between two questions to a candidate that may lead next: the figures are too long by so much at the most.
    const BETWEEN_LOOKS: Duration;
    /// The ends of leaders are spread over this time, so that none has a favourable one.
    const SPREAD: Duration;

    /// Starts a candidate.
    fn start(&self) -> Result<Server>;

    /// When the record was written that is there now.
    fn last_written(&self) -> Result<Instant>;
}

/// From the end of the old leader's last promise, which is the earliest instant at which it may release: so the
/// release is in the figure, and nothing of it is the application's time to act.
pub(crate) fn clean<G: Ground>(ground: &G, rounds: u32) -> Result<Sample> {
    let mut gaps = Sample::default();
    each_round(ground, rounds, |election| {
        let mut leader = election.leader()?;
        let asked = Instant::now();
        leader.connection.ask_leader()?;
        leader.server.signal(Signal::TERM)?;
        let succeeded = election.succeeded(asked + G::VALIDITY)?;
        let gap = succeeded.checked_duration_since(asked + G::VALIDITY);
        gaps.push(gap.ok_or("the successor led while the last promise was good")?);
        let status = leader.server.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the old leader ended with {status}").into())
        }
    })?;
    Ok(gaps)
}

/// How long it took from SIGKILL, and from the end of the lease, which runs from the last renewal.
#[derive(Debug, Default)]
pub(crate) struct Killed {
    pub(crate) whole: Sample,
    pub(crate) excess: Sample,
}

pub(crate) fn killed<G: Ground>(ground: &G, rounds: u32) -> Result<Killed> {
    let mut figures = Killed::default();
    each_round(ground, rounds, |election| {
        let mut leader = election.leader()?;
        let killed = Instant::now();
        leader.server.signal(Signal::KILL)?;
        leader.server.wait()?;
        let lapsed = ground.last_written()? + G::LEASE;
        let succeeded = election.succeeded(lapsed)?;
        figures.whole.push(succeeded - killed);
        let excess = succeeded.checked_duration_since(lapsed);
        figures.excess.push(excess.ok_or("the successor led before the lease was over")?);
        Ok(())
    })?;
    Ok(figures)
}

/// Of each program, in a measurement of two.
const HANDOFFS: u32 = 50;

/// The pause between the starts of two elections: those that begin together stay in step, and then all hand over at once.
const BETWEEN_ELECTIONS: Duration = Duration::from_millis(1400);

/// What each election of ours showed, and each of the others', with so many of each at a time. A measurement is told its
/// share of the handoffs.
pub(crate) fn side_by_side<T: Send>(
    our_elections: u32,
    ours: impl Fn(u32) -> Result<T> + Sync,
    their_elections: u32,
    theirs: impl Fn(u32) -> Result<T> + Sync,
) -> Result<[Vec<T>; 2]> {
    let (ours, theirs) = (&ours, &theirs);
    thread::scope(|scope| {
        let all = our_elections + their_elections;
        let ours = begin(scope, 0..our_elections, ours);
        let theirs = begin(scope, our_elections..all, theirs);
        let end = |elections: Vec<ScopedJoinHandle<'_, _>>| -> Result<Vec<T>> {
            elections
                .into_iter()
                .map(|election| election.join().expect("a measurement does not panic"))
                .collect()
        };
        Ok([end(ours)?, end(theirs)?])
    })
}

/// One election of a program at each of these places in the order of their starts.
fn begin<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    places: Range<u32>,
    measure: &'scope (impl Fn(u32) -> Result<T> + Sync),
) -> Vec<ScopedJoinHandle<'scope, Result<T>>> {
    let rounds = HANDOFFS / u32::try_from(places.len()).expect("they are few");
    let election = |place| {
        scope.spawn(move || {
            thread::sleep(BETWEEN_ELECTIONS * place);
            measure(rounds)
        })
    };
    places.map(election).collect()
}

/// The instant at which the wall clock showed this.
pub(crate) fn instant(past: SystemTime) -> Result<Instant> {
    Instant::now().checked_sub(past.elapsed()?).ok_or_else(|| "that was before the clock".into())
}

fn each_round<G: Ground>(
    ground: &G,
    rounds: u32,
    mut round: impl FnMut(&mut Election<'_, G>) -> Result<()>,
) -> Result<()> {
    let mut election = Election { candidates: Vec::new(), ground };
    for number in 0..rounds {
        let done = election.settle().and_then(|()| {
            thread::sleep(G::SPREAD * number / rounds);
            round(&mut election)
        });
        if let Err(error) = done {
            let ends = election.candidates.iter_mut().map(|candidate| candidate.server.end());
            let ends: Vec<_> = ends.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
            return Err(
                format!("round {number}: {error}; candidates that have ended: {ends:#?}").into()
            );
        }
    }
    Ok(())
}

/// Three candidates, less one while a round lasts.
struct Election<'a, G> {
    candidates: Vec<Candidate>,
    ground: &'a G,
}

struct Candidate {
    server: Server,
    connection: Connection,
}

impl<G: Ground> Election<'_, G> {
    /// Fills up the candidates, and waits until one leads and all others follow it.
    fn settle(&mut self) -> Result<()> {
        while self.candidates.len() < CANDIDATES {
            let server = self.ground.start()?;
            let connection = Connection::open(&server.address)?;
            self.candidates.push(Candidate { server, connection });
        }
        self.agreed().map(drop)
    }

    /// Takes the leader out.
    fn leader(&mut self) -> Result<Candidate> {
        let leader = self.agreed()?;
        Ok(self.candidates.remove(leader))
    }

    /// Waits until all candidates say the same of who leads: its place among them.
    fn agreed(&mut self) -> Result<usize> {
        let begun = Instant::now();
        loop {
            let told = self
                .candidates
                .iter_mut()
                .map(|candidate| candidate.connection.leader())
                .collect::<Result<Vec<_>>>()?;
            let leads =
                |candidate: &Candidate| told.iter().all(|told| *told == candidate.server.identity);
            if let Some(leader) = self.candidates.iter().position(leads) {
                return Ok(leader);
            }
            if begun.elapsed() > PATIENCE + G::LEASE {
                return Err(format!("the candidates do not agree on a leader: {told:?}").into());
            }
            thread::sleep(BETWEEN_QUESTIONS);
        }
    }

    /// The instant at which one of the candidates has answered that it leads, which none may do before `earliest`.
    fn succeeded(&mut self, earliest: Instant) -> Result<Instant> {
        thread::sleep(earliest.saturating_duration_since(Instant::now() + BEFORE));
        let found = AtomicBool::new(false);
        let answers = thread::scope(|scope| {
            let asking = self
                .candidates
                .iter_mut()
                .map(|candidate| scope.spawn(|| candidate.until_it_leads::<G>(&found)));
            let asking: Vec<_> = asking.collect();
            asking
                .into_iter()
                .map(|thread| thread.join().expect("asking does not panic"))
                .collect::<Result<Vec<_>>>()
        })?;
        let mut leading = answers.into_iter().flatten();
        match (leading.next(), leading.next()) {
            (Some(at), None) => Ok(at),
            (Some(_), Some(_)) => Err("two candidates lead at once".into()),
            (None, _) => Err(format!("nobody leads after {PATIENCE:?}").into()),
        }
    }
}

impl Candidate {
    /// Asks until it leads or, which is no instant, another one is `found` to.
    fn until_it_leads<G: Ground>(&mut self, found: &AtomicBool) -> Result<Option<Instant>> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.connection.ask()?.status == b"200" {
                found.store(true, Ordering::Relaxed);
                return Ok(Some(Instant::now()));
            }
            if found.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(G::BETWEEN_LOOKS);
        }
        Ok(None)
    }
}
