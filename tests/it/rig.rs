//! The rig of the process tests: real sidecars, real signals, and a prober that hears every answer.
//!
//! A test makes a [`Rig`], starts candidates in it and does something to them. Whatever they answer to
//! `GET /leader` and whatever they log is kept on one clock. When the rig is dropped it ends every
//! process and judges the whole history ([`judge`]), so no test can forget to; where anything
//! failed it prints the story, one line an event. A process that ended and was not asked for its exit
//! code fails the test too.

mod apiserver;
mod assets;
mod candidate;
mod contender;
mod daemon;
mod disk;
mod fuse;
mod gateway;
mod inexcusable;
#[path = "../support/history/mod.rs"]
mod judge;
mod keys;
mod mortality;
mod name_server;
mod names;
mod peer;
mod pod;
mod prober;
mod process;
mod proxy;
#[path = "../support/witness/question.rs"]
mod question;
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
pub(crate) use candidate::Candidate;
pub(crate) use contender::{
    Contender, Handoff, Parting, Side, first_to_lead, medians_of_releases, side_by_side,
};
pub(crate) use daemon::Daemon;
pub(crate) use disk::Disk;
pub(crate) use fuse::Fuse;
pub(crate) use gateway::{Gateway, Page};
use judge::{Answer, History, Journal, Reply, Rule, Silence, judge, lock};
pub(crate) use judge::{Moment, Timing, eventually, succeeds, throughout, wait_for};
pub(crate) use keys::Authority;
pub(crate) use name_server::NameServer;
pub(crate) use names::Names;
pub(crate) use peer::{InZooKeeper, Peer};
pub(crate) use pod::Pod;
pub(crate) use process::processor_time;
pub(crate) use proxy::{Flow, Proxy, Way};
pub(crate) use start::Start;
use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
pub(crate) use store::{Files, Leases, Store, Znodes, over_every_record, over_every_store};
pub(crate) use strace::Delay;
pub(crate) use stranger::{Stranger, set_mode};
use tempfile::TempDir;
pub(crate) use zookeeper::{Ensemble, SECURE_PORT, Settings, connect_string, forgetful};

/// The election of every test that does not need several.
pub(crate) const ELECTION: &str = "orders";

/// Those of tests that do.
pub(crate) const ELECTIONS: [&str; 4] = [ELECTION, "orders.v2", "bills", "a"];

/// What upper bounds allow beyond the promised time: two cores run other tests (and compilers) beside
/// this one, and a process may have to wait for them. Exclusion is judged without any allowance.
pub(crate) const NOISE: Duration = Duration::from_millis(700);

/// What every case assumes of the machine; see `noise`. [`NOISE`] has room for it.
pub(crate) const ASSUMED: &[Assumption] = &[
    Assumption::LosesAtMost(Duration::from_millis(250)),
    Assumption::StoresStartWithin(Duration::from_secs(6)),
];

/// How long before its failure noise still excuses a case. A case misses a late leader or answer after
/// at most 30 seconds of waiting, and then its rig may take 15 more to end the processes.
pub(crate) const LOOK_BACK: Duration = Duration::from_secs(45);

/// How much of a long story is told: its end.
const LONGEST_STORY: usize = 400;

/// How long a leader may take to appear where a test is about something else.
const PATIENCE: Duration = Duration::from_secs(20);

/// Candidates of one store, with everything that was heard from them.
pub(crate) struct Rig<S: Store = Files> {
    pub(crate) timing: Timing,
    /// Where the candidates keep their elections.
    pub(crate) store: S,
    folder: TempDir,
    journal: Arc<Journal>,
    candidates: Mutex<Vec<Arc<Candidate>>>,
    probers: Mutex<Vec<JoinHandle<()>>>,
    silences: Mutex<Vec<Silence>>,
    /// Candidates of this rig that are probed; the prober slows down as they become many.
    crowd: Arc<AtomicUsize>,
}

impl Rig {
    /// A rig whose candidates meet in files of its own.
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
            crowd: Arc::default(),
        }
    }

    /// A folder for what a test keeps outside the store.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A candidate to be started, still open to other flags.
    pub(crate) fn candidate(&self, name: &str) -> Start<'_, S> {
        Start::new(self, name)
    }

    /// Starts a candidate with nothing special about it.
    pub(crate) fn start(&self, name: &str) -> Arc<Candidate> {
        self.candidate(name).start()
    }

    /// Starts the first candidate, and returns once it leads.
    #[track_caller]
    pub(crate) fn start_leader(&self, name: &str) -> Arc<Candidate> {
        let candidate = self.start(name);
        assert_eq!(self.leader().identity, candidate.identity, "there was another before it");
        candidate
    }

    /// Starts others beside it, and returns once they follow and name whom: from then on they know of its term.
    #[track_caller]
    pub(crate) fn start_followers<const N: usize>(&self, names: [&str; N]) -> [Arc<Candidate>; N] {
        let candidates = names.map(|name| self.start(name));
        for candidate in &candidates {
            eventually(PATIENCE, "it follows, and says whom", || {
                self.stands(candidate, "following") && self.names_holder(candidate)
            });
        }
        candidates
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Moment {
        self.journal.clock.now()
    }

    /// Waits for a candidate that answers "leading" from now on.
    #[track_caller]
    pub(crate) fn leader(&self) -> Arc<Candidate> {
        self.leader_of(ELECTION)
    }

    /// The same, of an election with a name of its own.
    #[track_caller]
    pub(crate) fn leader_of(&self, election: &str) -> Arc<Candidate> {
        let now = self.now();
        let leads = |answer: &Answer| answer.asked >= now && answer.leads_in(election);
        let answer = wait_for(PATIENCE, "a candidate leads", || self.journal.first_answer(leads));
        self.asked_in(&answer)
    }

    /// Waits for the first answer "leading" of another than `old` to a question asked after `since`, which has
    /// to come `within` that time: who gave it, and when.
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
        assert!(took <= within, "the successor took {took:?}, which is more than {within:?}");
        (self.asked_in(&answer), answer.answered)
    }

    /// Waits for the successor of a leader that went at `since` and released nothing: it has to wait out what was written
    /// last, and to lead within the bound that README promises.
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

    /// Whether anybody but `old` was heard leading in answer to a question asked after `since`.
    pub(crate) fn succeeded(&self, old: &Candidate, since: Moment) -> bool {
        let leads = |answer: &Answer| {
            answer.asked >= since
                && answer.leads_in(&old.election)
                && answer.identity() != Some(&old.identity)
        };
        self.journal.first_answer(leads).is_some()
    }

    /// Waits until the prober has heard enough for its judgement to mean something: for tests that would be over sooner.
    #[track_caller]
    pub(crate) fn hear_enough(&self) {
        let is_void = || judge(&self.history()).iter().any(|fault| fault.rule == Rule::Void);
        eventually(PATIENCE, "the prober hears enough", || !is_void());
    }

    /// Whether a candidate said this of itself when it was last heard.
    pub(crate) fn stands(&self, candidate: &Candidate, standing: &str) -> bool {
        self.last_said(candidate, |answer| answer.standing() == Some(standing))
    }

    /// Whether a candidate named who stands in the record when it was last heard.
    fn names_holder(&self, candidate: &Candidate) -> bool {
        let holder = self.store.holder(&candidate.election);
        self.last_said(candidate, |answer| answer.leader() == Some(&holder))
    }

    fn last_said(&self, candidate: &Candidate, holds: impl FnOnce(&Answer) -> bool) -> bool {
        let answers = lock(&self.journal.answers);
        let mut own =
            answers.iter().rev().filter(|answer| answer.identity() == Some(&candidate.identity));
        own.next().is_some_and(holds)
    }

    /// Whether the record names a candidate.
    pub(crate) fn holds(&self, candidate: &Candidate) -> bool {
        self.store.holder(&candidate.election) == candidate.identity
    }

    /// The moment at which the record was written that stands there now.
    pub(crate) fn written(&self, election: &str) -> Moment {
        let age = self.store.written(election).elapsed().expect("it was written in the past");
        let start = Moment::from_ms(0);
        start + self.now().since(start).saturating_sub(age)
    }

    /// Until when the last promise that was heard of a candidate is good.
    pub(crate) fn last_promise(&self, candidate: &Candidate) -> Moment {
        self.journal.last_promise(&candidate.identity).expect("it was heard leading")
    }

    /// When a candidate was first heard leading, if it was.
    pub(crate) fn first_promise(&self, candidate: &Candidate) -> Option<Moment> {
        let leads = |answer: &Answer| {
            answer.identity() == Some(&candidate.identity) && answer.leads_in(&candidate.election)
        };
        Some(self.journal.first_answer(leads)?.answered)
    }

    /// The moment at which another process told this time since boot.
    pub(crate) fn moment(&self, since_boot: Duration) -> Moment {
        self.journal.clock.moment(since_boot)
    }

    /// The tokens of all terms of an election that were heard of.
    pub(crate) fn tokens(&self, election: &str) -> BTreeSet<String> {
        self.journal.tokens(election)
    }

    /// From `since` on no answer of this candidate may say "leading": judged at the end.
    pub(crate) fn must_be_silent(&self, candidate: &Candidate, since: Moment, why: &str) {
        let silence = Silence { identity: candidate.identity.clone(), since, why: why.to_owned() };
        lock(&self.silences).push(silence);
    }

    /// The candidate that an answer came from.
    fn asked_in(&self, answer: &Answer) -> Arc<Candidate> {
        let candidates = lock(&self.candidates);
        let found =
            candidates.iter().find(|candidate| answer.identity() == Some(&candidate.identity));
        Arc::clone(found.expect("only candidates of this rig answer"))
    }

    /// Takes a candidate into the rig, and asks it from now on.
    fn admit(&self, candidate: Candidate) -> Arc<Candidate> {
        let candidate = Arc::new(candidate);
        lock(&self.candidates).push(Arc::clone(&candidate));
        lock(&self.probers).push(prober::begin(&self.journal, &candidate, &self.crowd));
        candidate
    }

    /// What the judge looks at: the answers, and from when on each candidate may not lead any more.
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

    /// Ends everything, and says what was wrong with it.
    fn finish(&self) -> Vec<String> {
        let candidates = lock(&self.candidates).clone();
        let mut faults: Vec<String> =
            candidates.iter().filter_map(|candidate| candidate.unexpected_end()).collect();
        self.journal.close();
        for candidate in &candidates {
            candidate.put_down();
        }
        for prober in lock(&self.probers).drain(..) {
            if prober.join().is_err() {
                never_excuse();
                faults.push("a prober panicked".to_owned());
            }
        }
        let panics = self.journal.panics();
        let broken = judge(&self.history());
        if !panics.is_empty() || broken.iter().any(|fault| fault.rule.is_timeless()) {
            never_excuse();
        }
        faults.extend(panics);
        faults.extend(broken.iter().map(ToString::to_string));
        faults
    }
}

impl<S: Store> Drop for Rig<S> {
    #[expect(clippy::print_stderr, reason = "libtest shows it with the failure that is on its way")]
    fn drop(&mut self) {
        let faults = self.finish();
        if thread::panicking() {
            eprintln!("{}", self.journal.story(&faults, LONGEST_STORY));
        } else {
            assert!(faults.is_empty(), "{}", self.journal.story(&faults, LONGEST_STORY));
        }
    }
}

/// In memory where there is room for it, since a busy disk may hold an fsync for longer than these tests wait.
fn folder_in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let around = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    TempDir::with_prefix_in("baton-", around).expect("temporary folders can be made")
}
