//! Handoffs after SIGKILL and a restart in the same place at once, as on a host with systemd, over a
//! Lease beside client-go and over ZooKeeper beside Curator.
//!
//! Touches processes, an API server, and ZooKeeper servers. Start with [`over_leases`]. Each
//! candidate of Baton has a state directory of its own. The leader has answered right before it is
//! killed, which is the worst case.

use crate::Result;
use crate::handoff::{Candidate, Contest, each_round, side_by_side};
use crate::lease::{ClientGo, fresh};
use crate::rig::Access;
use crate::server::Server;
use crate::table::{Row, Sample, Unit};
use crate::zookeeper::{Crash, Curator, servers};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Elections of each program in parallel. Most of a peer's handoff is waiting.
const ELECTIONS: u32 = 2;
const ELECTIONS_OF_A_PEER: u32 = 5;

/// The aim for the default durations, in milliseconds.
const TARGET: f64 = 2_500.0;

/// The store of an election of Baton.
enum Place {
    Lease(Access),
    ZooKeeper(Crash),
}

/// Candidates that remember their last run.
struct Remembering {
    place: Place,
    /// The state directory of each candidate, by its identity.
    states: Mutex<HashMap<Option<String>, TempDir>>,
}

impl Remembering {
    fn over(place: Place) -> Self {
        Self { place, states: Mutex::default() }
    }

    fn start_in(&self, state: TempDir) -> Result<Server> {
        let path = state.path().to_str().ok_or("temporary folders have names in UTF-8")?;
        let flags = ["--on-lost", "stay", "--state-directory", path];
        let server = match &self.place {
            Place::Lease(access) => Server::over_lease(access.kubeconfig(), &flags)?,
            Place::ZooKeeper(place) => Server::over_zookeeper(&place.servers, &place.path, &flags)?,
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

impl Contest for Remembering {
    const LEASE: Duration = Duration::from_secs(15);
    const VALIDITY: Duration = Duration::from_secs(2);
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    const SPREAD: Duration = Duration::from_secs(2);

    fn start(&self) -> Result<Server> {
        self.start_in(TempDir::with_prefix("baton-bench-")?)
    }

    /// Nothing is measured from it.
    fn last_written(&self) -> Result<Instant> {
        Ok(Instant::now())
    }
}

/// Over a Lease, beside client-go.
pub(crate) fn over_leases() -> Result<Vec<Row>> {
    let gaps = side_by_side(
        ELECTIONS,
        |rounds| ours(Place::Lease(fresh()), rounds),
        ELECTIONS_OF_A_PEER,
        |rounds| killed_and_restarted(&ClientGo(fresh()), rounds, |contest, _| contest.start()),
    )?;
    Ok(rows("a Lease", "client-go", gaps))
}

/// Over three ZooKeeper servers, beside Curator.
pub(crate) fn over_zookeeper() -> Result<Vec<Row>> {
    let ensemble = servers(3);
    let fresh = || Crash::fresh(&ensemble);
    let gaps = side_by_side(
        ELECTIONS,
        |rounds| ours(Place::ZooKeeper(fresh()), rounds),
        ELECTIONS_OF_A_PEER,
        |rounds| killed_and_restarted(&Curator(fresh()), rounds, |contest, _| contest.start()),
    )?;
    Ok(rows("ZooKeeper", "Curator", gaps))
}

fn rows(store: &str, peer: &'static str, gaps: [Vec<Sample>; 2]) -> Vec<Row> {
    let [baton, others] = gaps.map(|samples| samples.into_iter().collect::<Sample>());
    let first = format!("killed and restarted over {store}, SIGKILL to successor's 200, p50 of 50");
    [(first.as_str(), 50), ("the same, p99", 99)]
        .map(|(what, percent)| {
            let row = Row::new(what, Unit::Milliseconds, baton.percentile(percent));
            let row = row.against(peer, others.percentile(percent));
            if percent == 50 { row.target(TARGET) } else { row }
        })
        .into()
}

fn ours(place: Place, rounds: u32) -> Result<Sample> {
    killed_and_restarted(&Remembering::over(place), rounds, Remembering::restart)
}

/// Measures from SIGKILL to the successor's first answer "leading". `restart` starts the next run.
fn killed_and_restarted<C: Contest>(
    contest: &C,
    rounds: u32,
    restart: impl Fn(&C, &Candidate) -> Result<Server>,
) -> Result<Sample> {
    let mut gaps = Sample::default();
    each_round(contest, rounds, |election| {
        let mut leader = election.remove_leader()?;
        leader.connection.expect_leading()?;
        let killed = Instant::now();
        leader.server.signal(rustix::process::Signal::KILL)?;
        leader.server.wait()?;
        // It lives until the end of the round, and campaigns later than the others.
        let _next_run = restart(contest, &leader)?;
        gaps.push(election.await_successor(killed + C::VALIDITY)? - killed);
        Ok(())
    })?;
    Ok(gaps)
}
