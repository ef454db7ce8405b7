//! A client of the Service that routes to the leader. It runs on the control-plane node, which no
//! fault affects.
//!
//! It sends a request on a new connection every 20 ms. Start with [`Case::visit`].

use super::case::Case;
use super::history::{Moment, eventually, lock};
use super::record::Visit;
use super::{PATIENCE, TIMING};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long conntrack remembers an attempt to connect: `nf_conntrack_tcp_timeout_syn_sent`.
const SYN_SENT: Duration = Duration::from_mins(2);

/// The client, which stops when it is dropped.
pub(crate) struct Visitor<'a> {
    case: &'a Case,
    child: Child,
    visits: Arc<Mutex<Vec<Visit>>>,
}

/// How long the client reached nothing, or a candidate that did not lead.
#[derive(Debug, Default)]
struct Misses {
    unanswered: Duration,
    misled: Duration,
    /// The part of this time that conntrack explains.
    remembered: Duration,
}

impl Case {
    /// Sends requests to the port of a Service until the result is dropped.
    #[track_caller]
    pub(crate) fn visit(&self, service: &str, port: u16) -> Visitor<'_> {
        let address =
            self.kubectl(&["get", "service", service, "--output=jsonpath={.spec.clusterIP}"]);
        let node = self.cluster.control_plane();
        let address = format!("{}:{port}", address.trim());
        let mut command = Command::new(&node.engine);
        command.args(["exec", &node.name, "witness", "visit", &address]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the engine that created the node runs");
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let visits = Arc::<Mutex<Vec<Visit>>>::default();
        let visitor = Visitor { case: self, child, visits: Arc::clone(&visits) };
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let visit = serde_json::from_str(&line).expect("the witness prints JSON");
                lock(&visits).push(visit);
            }
        });
        visitor
    }
}

impl Visitor<'_> {
    /// Waits until a leader has answered a request of `since` or later.
    #[track_caller]
    pub(crate) fn wait_for_leader(&self, since: Moment) -> Moment {
        let first = || {
            let visits = self.since(since);
            visits.into_iter().find(|visit| visit.is_leader == Ok(true))
        };
        eventually(PATIENCE, "the Service leads to the leader", || first().is_some());
        first().map(|visit| self.moment(visit.answered)).expect("it was found")
    }

    /// Notes how long the requests since `since` missed the leader.
    pub(crate) fn note_misses(&self, since: Moment, what: &str) {
        self.misses(since, what);
    }

    /// Panics unless only leaders answer for a lease duration. Ignores misses that conntrack
    /// explains.
    #[track_caller]
    pub(crate) fn must_reach_leaders(&self, why: &str) {
        let since = self.case.now();
        eventually(TIMING.lease_duration * 2, "requests were sent for a lease duration", || {
            self.case.now().since(since) > TIMING.lease_duration
        });
        let misses = self.misses(since, why);
        let is_reached = misses.unanswered + misses.misled == misses.remembered;
        assert!(is_reached && self.since(since).len() > 10, "{why}: {misses:?}");
    }

    fn misses(&self, since: Moment, what: &str) -> Misses {
        let mut misses = Misses::default();
        let visits = self.since(since);
        for pair in visits.windows(2) {
            let [visit, next] = pair else { unreachable!("a window of two") };
            let lasted = next.asked.saturating_sub(visit.asked);
            match &visit.is_leader {
                Ok(true) => {}
                Ok(false) => misses.misled += lasted,
                Err(_) => misses.unanswered += lasted,
            }
            if visit.is_leader != Ok(true) && self.is_remembered(visit) {
                misses.remembered += lasted;
            }
        }
        self.case.note(&format!("{what}: of {} requests, {misses:?}", visits.len()));
        misses
    }

    /// Whether an earlier attempt from the same port got no answer. Then conntrack still translates
    /// the Service's address, for this port, to the endpoint of that attempt.
    fn is_remembered(&self, visit: &Visit) -> bool {
        let visits = lock(&self.visits);
        visits.iter().any(|earlier| {
            let age = visit.asked.saturating_sub(earlier.asked);
            let is_recent = !age.is_zero() && age < SYN_SENT;
            earlier.port == visit.port && earlier.is_leader.is_err() && is_recent
        })
    }

    fn since(&self, since: Moment) -> Vec<Visit> {
        let visits = lock(&self.visits);
        visits.iter().filter(|visit| self.moment(visit.asked) >= since).cloned().collect()
    }

    fn moment(&self, since_boot: Duration) -> Moment {
        self.case.journal.clock.moment(since_boot)
    }
}

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        // The witness ends at its next line, since its reader is gone.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
