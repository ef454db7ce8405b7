//! One run of a peer's candidate: its process and its terms.
//!
//! Touches processes. Start with [`Run::start`].

use super::super::injection::Victim;
use super::super::spans::{Span, terms};
use super::super::stores::Tortured;
use super::programs::{Place, Program};
use crate::rig::{Moment, Peer, Rig, lock};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

pub(super) struct Run {
    identity: String,
    pid: u32,
    peer: Mutex<Peer>,
}

impl Run {
    /// Starts the run with this number of the candidate at a seat.
    pub(super) fn start<S: Tortured>(
        program: &Program<S>,
        rig: &Rig<S>,
        seat: usize,
        number: usize,
        proxy: SocketAddr,
    ) -> Self {
        let name = program.name.replace(' ', "-");
        let identity = format!("{name}-{seat}-{number}");
        let peer = (program.start)(rig, &Place { election: &name, identity: &identity, proxy });
        Self { identity, pid: peer.process.pid(), peer: Mutex::new(peer) }
    }

    pub(super) fn kill(&self) {
        lock(&self.peer).process.kill();
    }

    /// When it logged each beginning and end of a term, as the time since boot.
    fn changes(&self) -> Vec<(bool, Duration)> {
        let change = |event: &serde_json::Value| {
            let begins = match event["event"].as_str()? {
                "started_leading" => true,
                "work_cancelled" => false,
                _ => return None,
            };
            Some((begins, Duration::from_nanos(event["boottime_ns"].as_u64()?)))
        };
        lock(&self.peer).events().iter().filter_map(change).collect()
    }

    /// The beginning of the present term, if there is one.
    pub(super) fn leads_since(&self) -> Option<Duration> {
        self.changes().last().filter(|(begins, _)| *begins).map(|(_, at)| *at)
    }

    /// The spans of this run up to `end`, when it ended or is checked.
    pub(super) fn spans<S: Tortured>(&self, rig: &Rig<S>, end: Moment) -> Vec<Span> {
        let changes = self.changes().into_iter().map(|(begins, at)| (begins, rig.moment(at)));
        terms(&self.identity, changes, end)
    }
}

impl Victim for Run {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn try_signal(&self, signal: Signal) -> bool {
        lock(&self.peer).process.try_signal(signal)
    }

    fn is_alive(&self) -> bool {
        !lock(&self.peer).process.has_ended()
    }
}
