//! The rig of the process tests: real sidecars, real signals, and a prober that records answers.
//!
//! A test creates a [`Rig`] and starts candidates in it. Their answers to `GET /leader` and their
//! logs share one clock. When the rig is dropped, it ends every process and checks the whole
//! history ([`check`]), so no test can forget to. If anything failed, it prints the timeline. A
//! process that ended without the test asking for its exit code fails the test too.

mod apiserver;
mod assets;
mod candidate;
mod contender;
mod daemon;
mod descriptors;
mod disk;
mod etcd;
mod freezer;
mod fuse;
mod gateway;
#[path = "../support/history/mod.rs"]
mod history;
mod inexcusable;
mod keys;
mod ledger;
mod mortality;
mod name_server;
mod names;
mod observations;
mod peer;
mod pod;
mod prober;
mod process;
mod proxy;
#[path = "../support/witness/question.rs"]
mod question;
mod quota;
mod scratch;
mod standstill;
mod start;
mod starter;
mod store;
mod strace;
mod stranger;
mod zookeeper;

use crate::noise::{Assumption, never_excuse};
pub(crate) use apiserver::{Access, Account, ApiServer, Namespace};
pub(crate) use assets::EtcdVersion;
pub(crate) use candidate::Candidate;
pub(crate) use contender::{
    Contender, Departure, Handoff, Side, first_to_lead, medians_of_releases, side_by_side,
};
pub(crate) use daemon::Daemon;
pub(crate) use descriptors::FewDescriptors;
pub(crate) use disk::Disk;
pub(crate) use etcd::{Etcd, EtcdSettings};
pub(crate) use freezer::Freezer;
pub(crate) use fuse::Fuse;
pub(crate) use gateway::{Gateway, Page};
pub(crate) use history::Answer;
pub(crate) use history::lock;
use history::{History, Journal, Property, Reply, Silence, check};
pub(crate) use history::{Moment, Timing, eventually, succeeds, throughout, wait_for};
pub(crate) use keys::{Authority, pair};
pub(crate) use ledger::{KILL_AFTER, Ledger, STUBBORN, uptime};
pub(crate) use name_server::NameServer;
pub(crate) use names::Names;
pub(crate) use peer::{InZooKeeper, Peer};
pub(crate) use pod::Pod;
pub(crate) use process::processor_time;
pub(crate) use proxy::{Direction, Flow, Proxy};
pub(crate) use quota::CpuQuota;
pub(crate) use scratch::Scratch;
pub(crate) use start::Start;
use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
pub(crate) use store::{
    EtcdKeys, Files, Leases, Store, Znodes, over_every_record, over_every_store,
};
pub(crate) use strace::{Delay, may_trace_a_sidecar};
pub(crate) use stranger::{Stranger, set_mode};
use tempfile::TempDir;
pub(crate) use zookeeper::{Ensemble, SECURE_PORT, Settings, connect_string, strip_sessions};

/// The election of every test that does not need several.
pub(crate) const ELECTION: &str = "orders";

/// The elections of tests that need several.
pub(crate) const ELECTIONS: [&str; 4] = [ELECTION, "orders.v2", "bills", "a"];

/// The allowance of upper bounds beyond the promised time: other tests and compilers share the two
/// cores. Exclusion is checked without any allowance.
pub(crate) const NOISE: Duration = Duration::from_millis(700);

/// The assumptions of every case about the machine; see `noise`. [`NOISE`] leaves room for it.
pub(crate) const ASSUMED: &[Assumption] = &[
    Assumption::LosesAtMost(Duration::from_millis(250)),
    Assumption::StoresStartWithin(Duration::from_secs(6)),
];

/// How long before a failure noise still excuses it. A case waits at most 30 seconds for a late
/// leader or answer, and its rig may then take another 15 to end the processes.
pub(crate) const LOOK_BACK: Duration = Duration::from_secs(45);

/// The number of events that a timeline shows: the last ones.
const TIMELINE_EVENTS: usize = 400;

/// How long a leader may take to appear in a test about something else.
const PATIENCE: Duration = Duration::from_secs(20);

/// Candidates of one store, with everything they answered and logged.
pub(crate) struct Rig<S: Store = Files> {
    pub(crate) timing: Timing,
    /// The store that holds the elections.
    pub(crate) store: S,
    folder: TempDir,
    journal: Arc<Journal>,
    candidates: Mutex<Vec<Arc<Candidate>>>,
    probers: Mutex<Vec<JoinHandle<()>>>,
    silences: Mutex<Vec<Silence>>,
    /// How many candidates are probed; the prober slows down as the number grows.
    probed: Arc<AtomicUsize>,
}

impl Rig {
    /// A rig whose candidates use a store of files of its own.
    pub(crate) fn new(timing: Timing) -> Self {
        Self::over(Files::fresh(), timing)
    }
}

impl<S: Store> Rig<S> {
    pub(crate) fn over(store: S, timing: Timing) -> Self {
        Self {
            timing,
            store,
            folder: folder_in_memory(),
            journal: Arc::new(Journal::begin()),
            candidates: Mutex::default(),
            probers: Mutex::default(),
            silences: Mutex::default(),
            probed: Arc::default(),
        }
    }

    /// A folder for files that the test keeps outside the store.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A candidate that is not started yet, so that the test can set flags.
    pub(crate) fn candidate(&self, name: &str) -> Start<'_, S> {
        Start::new(self, name)
    }

    /// Starts a candidate with the default flags.
    pub(crate) fn start(&self, name: &str) -> Arc<Candidate> {
        self.candidate(name).start()
    }

    /// Starts the first candidate and waits until it leads.
    #[track_caller]
    pub(crate) fn start_leader(&self, name: &str) -> Arc<Candidate> {
        let candidate = self.start(name);
        assert_eq!(self.leader().identity, candidate.identity, "another candidate leads");
        candidate
    }

    /// Starts more candidates and waits until they follow and name the leader, so that they know
    /// its term.
    #[track_caller]
    pub(crate) fn start_followers<const N: usize>(&self, names: [&str; N]) -> [Arc<Candidate>; N] {
        let candidates = names.map(|name| self.start(name));
        for candidate in &candidates {
            eventually(PATIENCE, "it follows and names the leader", || {
                self.has_standing(candidate, "following") && self.names_holder(candidate)
            });
        }
        candidates
    }

    /// The current moment.
    pub(crate) fn now(&self) -> Moment {
        self.journal.clock.now()
    }

    /// Waits for a candidate that answers "leading" to a new request.
    #[track_caller]
    pub(crate) fn leader(&self) -> Arc<Candidate> {
        self.leader_of(ELECTION)
    }

    /// Like [`Self::leader`], for another election.
    #[track_caller]
    pub(crate) fn leader_of(&self, election: &str) -> Arc<Candidate> {
        let now = self.now();
        let leads = |answer: &Answer| answer.asked >= now && answer.leads_in(election);
        let answer = wait_for(PATIENCE, "a candidate leads", || self.journal.first_answer(leads));
        self.candidate_of(&answer)
    }

    /// Waits for the first answer "leading" by a candidate other than `old` to a request sent after
    /// `since`. Returns the candidate and the moment of its answer; panics if it is not `within`
    /// time.
    #[track_caller]
    pub(crate) fn successor(
        &self,
        old: &Candidate,
        since: Moment,
        within: Duration,
    ) -> (Arc<Candidate>, Moment) {
        let leads = |answer: &Answer| {
            answer.asked >= since
                && answer.leads_in(&old.election)
                && answer.identity() != Some(&old.identity)
        };
        let answer =
            wait_for(PATIENCE, "another candidate leads", || self.journal.first_answer(leads));
        let took = answer.answered.since(since);
        assert!(took <= within, "the successor took {took:?}, more than {within:?}");
        (self.candidate_of(&answer), answer.answered)
    }

    /// Waits for the successor of a leader that stopped at `since` without a release. The successor
    /// must wait out the last write, and lead within the documented bound.
    #[track_caller]
    pub(crate) fn takeover(&self, old: &Candidate, since: Moment) -> Arc<Candidate> {
        let written = self.written(&old.election);
        let (new, led) = self.successor(old, since, self.store.takeover(self.timing));
        let waited = led.since(written);
        assert!(
            waited >= self.timing.lease_duration,
            "it waited {waited:?} after the last renewal"
        );
        new
    }

    /// Whether a candidate other than `old` answered "leading" to a request sent after `since`.
    pub(crate) fn has_successor(&self, old: &Candidate, since: Moment) -> bool {
        let leads = |answer: &Answer| {
            answer.asked >= since
                && answer.leads_in(&old.election)
                && answer.identity() != Some(&old.identity)
        };
        self.journal.first_answer(leads).is_some()
    }

    /// Waits until there are enough answers for a meaningful check. Short tests need it.
    #[track_caller]
    pub(crate) fn wait_for_answers(&self) {
        let is_void =
            || check(&self.history()).iter().any(|violation| violation.property == Property::Void);
        eventually(PATIENCE, "the prober has enough answers", || !is_void());
    }

    /// Whether this is the candidate's standing in its last answer.
    pub(crate) fn has_standing(&self, candidate: &Candidate, standing: &str) -> bool {
        self.last_answer_is(candidate, |answer| answer.standing() == Some(standing))
    }

    /// Whether the candidate's last answer names the holder in the record.
    fn names_holder(&self, candidate: &Candidate) -> bool {
        let holder = self.store.holder(&candidate.election);
        self.last_answer_is(candidate, |answer| answer.leader() == Some(&holder))
    }

    fn last_answer_is(&self, candidate: &Candidate, holds: impl FnOnce(&Answer) -> bool) -> bool {
        let answers = lock(&self.journal.answers);
        let mut own =
            answers.iter().rev().filter(|answer| answer.identity() == Some(&candidate.identity));
        own.next().is_some_and(holds)
    }

    /// Whether the record names a candidate.
    pub(crate) fn holds(&self, candidate: &Candidate) -> bool {
        self.store.holder(&candidate.election) == candidate.identity
    }

    /// The moment of the last write to the record.
    pub(crate) fn written(&self, election: &str) -> Moment {
        let age = self.store.written(election).elapsed().expect("the write is in the past");
        let start = Moment::from_ms(0);
        start + self.now().since(start).saturating_sub(age)
    }

    /// The end of the candidate's last promise.
    pub(crate) fn last_promise(&self, candidate: &Candidate) -> Moment {
        self.journal.last_promise(&candidate.identity).expect("it has led")
    }

    /// When the candidate first answered "leading", if it did.
    pub(crate) fn first_promise(&self, candidate: &Candidate) -> Option<Moment> {
        let leads = |answer: &Answer| {
            answer.identity() == Some(&candidate.identity) && answer.leads_in(&candidate.election)
        };
        Some(self.journal.first_answer(leads)?.answered)
    }

    /// Converts a time since boot, as another process reported it.
    pub(crate) fn moment(&self, since_boot: Duration) -> Moment {
        self.journal.clock.moment(since_boot)
    }

    /// The tokens of all observed terms of an election.
    pub(crate) fn tokens(&self, election: &str) -> BTreeSet<String> {
        self.journal.tokens(election)
    }

    /// Forbids this candidate to answer "leading" to requests sent after `since`. Checked at the
    /// end.
    pub(crate) fn must_not_lead(&self, candidate: &Candidate, since: Moment, why: &str) {
        let silence = Silence { identity: candidate.identity.clone(), since, why: why.to_owned() };
        lock(&self.silences).push(silence);
    }

    /// The candidate that gave an answer.
    fn candidate_of(&self, answer: &Answer) -> Arc<Candidate> {
        let candidates = lock(&self.candidates);
        let found =
            candidates.iter().find(|candidate| answer.identity() == Some(&candidate.identity));
        Arc::clone(found.expect("only candidates of this rig answer"))
    }

    /// Adds a candidate to the rig and starts to probe it.
    fn add(&self, candidate: Candidate) -> Arc<Candidate> {
        let candidate = Arc::new(candidate);
        lock(&self.candidates).push(Arc::clone(&candidate));
        lock(&self.probers).push(prober::begin(&self.journal, &candidate, &self.probed));
        candidate
    }

    /// The input of the checker: all answers, and when each candidate must have stopped leading.
    fn history(&self) -> History {
        let candidates = lock(&self.candidates);
        let ends = candidates.iter().filter_map(|candidate| {
            let since = candidate.ended()?.seen;
            Some(Silence {
                identity: candidate.identity.clone(),
                since,
                why: "it had ended".to_owned(),
            })
        });
        History {
            elections: candidates.iter().map(|candidate| candidate.election.clone()).collect(),
            answers: lock(&self.journal.answers).clone(),
            silences: lock(&self.silences).iter().cloned().chain(ends).collect(),
        }
    }

    /// Ends every process and returns everything that failed.
    fn finish(&self) -> Vec<String> {
        let candidates = lock(&self.candidates).clone();
        let mut failures: Vec<String> =
            candidates.iter().filter_map(|candidate| candidate.unexpected_end()).collect();
        self.journal.close();
        for candidate in &candidates {
            candidate.ensure_killed();
        }
        for prober in lock(&self.probers).drain(..) {
            if prober.join().is_err() {
                never_excuse();
                failures.push("a prober panicked".to_owned());
            }
        }
        let panics = self.journal.panics();
        let violations = check(&self.history());
        if !panics.is_empty()
            || violations.iter().any(|violation| violation.property.is_timing_independent())
        {
            never_excuse();
        }
        failures.extend(panics);
        failures.extend(violations.iter().map(ToString::to_string));
        failures
    }
}

impl<S: Store> Drop for Rig<S> {
    #[expect(clippy::print_stderr, reason = "libtest prints it with the failure of the test")]
    fn drop(&mut self) {
        let failures = self.finish();
        if thread::panicking() {
            eprintln!("{}", self.journal.timeline(&failures, TIMELINE_EVENTS));
        } else {
            assert!(failures.is_empty(), "{}", self.journal.timeline(&failures, TIMELINE_EVENTS));
        }
    }
}

/// A folder in memory if possible: on a busy disk, an fsync can outlast these tests' bounds.
fn folder_in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    TempDir::with_prefix_in("baton-", parent).expect("temporary folders can be made")
}
