//! Handoffs after SIGKILL and an immediate restart, as under systemd: Baton beside client-go over a
//! Lease, beside Curator over ZooKeeper, and alone over files.
//!
//! Touches processes, an API server, and ZooKeeper servers. Start with [`over_leases`]. Each
//! candidate of Baton has a state directory of its own. The leader has answered right before it is
//! killed, which is the worst case.

use crate::Result;
use crate::handoff::{Candidate, Contest, Election, each_round, join, side_by_side, start};
use crate::lease::{ClientGo, fresh};
use crate::rig::Access;
use crate::server::Server;
use crate::table::{Row, Sample, Unit};
use crate::zookeeper::{Crash, Curator, servers};
use rustix::process::Signal;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Elections of each program in parallel. Most of a peer's handoff is waiting.
const ELECTIONS: u32 = 2;
const ELECTIONS_OF_A_PEER: u32 = 5;

/// The aim for the default durations, in milliseconds.
const TARGET: f64 = 2_500.0;

/// The store of an election of Baton.
enum BatonStore {
    Lease(Access),
    ZooKeeper(Crash),
    File(TempDir),
}

/// Candidates of Baton with a state directory.
struct BatonWithState {
    store: BatonStore,
    /// The state directory of each candidate, by its identity.
    states: Mutex<HashMap<Option<String>, TempDir>>,
}

impl BatonWithState {
    fn over(store: BatonStore) -> Self {
        Self { store, states: Mutex::default() }
    }

    fn start_in(&self, state: TempDir) -> Result<Server> {
        let path = state.path().to_str().ok_or("temporary folders have names in UTF-8")?;
        let flags = ["--on-lost", "stay", "--state-directory", path];
        let server = match &self.store {
            BatonStore::Lease(access) => Server::over_lease(access.kubeconfig(), &flags)?,
            BatonStore::ZooKeeper(place) => {
                Server::over_zookeeper(&place.servers, &place.path, &flags)?
            }
            BatonStore::File(directory) => Server::over_files(directory.path(), &flags)?,
        };
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(server.identity.clone(), state);
        Ok(server)
    }

    /// Starts the next run of a candidate that was killed.
    fn restart(&self, killed: &Candidate) -> Result<Server> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.remove(&killed.server.identity).ok_or("it has a state directory")?;
        drop(states);
        self.start_in(state)
    }
}

impl Contest for BatonWithState {
    const LEASE: Duration = Duration::from_secs(15);
    const VALIDITY: Duration = Duration::from_secs(2);
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    const SPREAD: Duration = Duration::from_secs(2);

    fn start(&self) -> Result<Server> {
        self.start_in(TempDir::with_prefix("baton-bench-")?)
    }

    /// Unused: the handoff is measured from SIGKILL.
    fn last_written(&self) -> Result<Instant> {
        Ok(Instant::now())
    }
}

/// Over a Lease, beside client-go.
pub(crate) fn over_leases() -> Result<Vec<Row>> {
    let gaps = side_by_side(
        ELECTIONS,
        |rounds| ours(BatonStore::Lease(fresh()), rounds),
        ELECTIONS_OF_A_PEER,
        |rounds| killed(&ClientGo(fresh()), rounds, |contest, _| contest.start(), |_| {}),
    )?;
    Ok(rows("a Lease", "client-go", gaps))
}

/// Over three ZooKeeper servers, beside Curator.
pub(crate) fn over_zookeeper() -> Result<Vec<Row>> {
    let ensemble = servers(3);
    let fresh = || Crash::fresh(&ensemble);
    let gaps = side_by_side(
        ELECTIONS,
        |rounds| ours(BatonStore::ZooKeeper(fresh()), rounds),
        ELECTIONS_OF_A_PEER,
        |rounds| killed(&Curator(fresh()), rounds, |contest, _| contest.start(), |_| {}),
    )?;
    Ok(rows("ZooKeeper", "Curator", gaps))
}

/// Over files. No peer uses files.
pub(crate) fn over_files() -> Result<Vec<Row>> {
    let ours = |rounds| ours(BatonStore::File(TempDir::with_prefix("baton-bench-")?), rounds);
    let gaps = thread::scope(|scope| join(start(scope, 0..ELECTIONS, &ours)))?;
    let percentiles = percentiles("files", &gaps.into_iter().collect());
    Ok(percentiles.map(|(_, row)| row).into())
}

fn rows(store: &str, peer: &'static str, gaps: [Vec<Sample>; 2]) -> Vec<Row> {
    let [baton, others] = gaps.map(|samples| samples.into_iter().collect::<Sample>());
    let beside = |(percent, row): (usize, Row)| row.against(peer, others.percentile(percent));
    percentiles(store, &baton).map(beside).into()
}

/// The median and the 99th percentile of Baton.
fn percentiles(store: &str, gaps: &Sample) -> [(usize, Row); 2] {
    let first = format!("killed and restarted over {store}, SIGKILL to successor's 200, p50 of 50");
    [(50, first.as_str()), (99, "the same, p99")].map(|(percent, what)| {
        let row = Row::new(what, Unit::Milliseconds, gaps.percentile(percent));
        (percent, if percent == 50 { row.target(TARGET) } else { row })
    })
}

/// Each round replaces the candidate that was restarted, because the next kill in the same place
/// would delay it longer.
fn ours(store: BatonStore, rounds: u32) -> Result<Sample> {
    let contest = BatonWithState::over(store);
    killed(&contest, rounds, BatonWithState::restart, |election| {
        election.remove_last();
    })
}

/// Measures from SIGKILL to the successor's first answer "leading". `restart` starts the next run,
/// and `end` ends the round.
fn killed<C: Contest>(
    contest: &C,
    rounds: u32,
    restart: impl Fn(&C, &Candidate) -> Result<Server>,
    end: impl Fn(&mut Election<'_, C>),
) -> Result<Sample> {
    let mut gaps = Sample::default();
    each_round(contest, rounds, |election| {
        let mut leader = election.remove_leader()?;
        leader.connection.expect_leading()?;
        let killed = Instant::now();
        leader.server.signal(Signal::KILL)?;
        leader.server.wait()?;
        election.add(restart(contest, &leader)?)?;
        gaps.push(election.await_successor(killed + C::VALIDITY)? - killed);
        end(election);
        Ok(())
    })?;
    Ok(gaps)
}
