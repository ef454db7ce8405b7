//! Many terms, at short durations and in elections beside each other: leaders resign, stop, are
//! killed, and are paused, one term after the other.
//!
//! `make torture STORE=etcd TERMS=10000` says how many; a test run has few. The rig checks exclusion
//! and tokens. Start with [`terms_follow_each_other_without_an_overlap`].

use super::schedule::Random;
use crate::noise::never_excuse;
use crate::rig::{
    Candidate, ELECTIONS, Moment, Rig, Store, Timing, over_every_store, side_by_side, wait_for,
};
use std::env;
use std::sync::Arc;
use std::time::Duration;

over_every_store!(terms_follow_each_other_without_an_overlap);

/// A term lasts about as long as an answer. A session of ZooKeeper cannot be shorter.
const TIMING: Timing = Timing::of_ms(6000, 4400, 500, 250);

const TERMS: &str = "BATON_TORTURE_TERMS";

/// The terms of a test run.
const FEW: usize = 60;

/// The most terms of one rig, so that its history stays small.
const MOST: usize = 600;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How often of a hundred a term ends by each, apart from a resignation.
const STOPS: u64 = 6;
const KILLS: u64 = 1;
const PAUSES: u64 = 1;

#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn terms_follow_each_other_without_an_overlap<S: Store>() {
    let wanted = env::var(TERMS).ok().and_then(|text| text.parse().ok()).unwrap_or(FEW);
    let mut seen = 0;
    let mut longest = Duration::ZERO;
    for seed in 0.. {
        if seen >= wanted {
            break;
        }
        let rig = Rig::over(S::fresh(), TIMING);
        let each = (wanted - seen).min(MOST).div_ceil(ELECTIONS.len());
        let seeds = [0, 1, 2, 3].map(|election| seed * 4 + election);
        let gaps = side_by_side(seeds, |seed| {
            let election = ELECTIONS[usize::try_from(seed % 4).expect("it is small")];
            Election::begin(&rig, election, Random::of(seed)).run(each)
        });
        longest = gaps.into_iter().chain([longest]).max().unwrap_or_default();
        seen += ELECTIONS.iter().map(|election| rig.tokens(election).len()).sum::<usize>();
        drop(rig); // which checks the history
        println!("{seen} terms, no overlap, longest time without a leader {longest:.1?}");
    }
}

struct Election<'a, S: Store> {
    rig: &'a Rig<S>,
    name: &'static str,
    candidates: [Arc<Candidate>; 3],
    random: Random,
    token: String,
    promised: Moment,
}

impl<'a, S: Store> Election<'a, S> {
    fn begin(rig: &'a Rig<S>, name: &'static str, random: Random) -> Self {
        let candidates = NAMES.map(|candidate| started(rig, candidate, name));
        Self { rig, name, candidates, random, token: String::new(), promised: Moment::from_ms(0) }
    }

    /// Ends so many terms. Returns the longest time without a leader.
    fn run(mut self, terms: usize) -> Duration {
        let mut longest = Duration::ZERO;
        let mut paused = None;
        for term in 0..=terms {
            let (at, gap) = self.next_leader();
            if term > 0 {
                longest = longest.max(gap);
            }
            if let Some(old) = paused.take() {
                let old: &Arc<Candidate> = &self.candidates[old];
                old.resume();
            }
            if term == terms {
                break;
            }
            let drawn = self.random.below(100);
            if drawn < PAUSES {
                self.candidates[at].pause();
                paused = Some(at);
            } else if drawn < PAUSES + KILLS {
                self.candidates[at].kill();
            } else if drawn < PAUSES + KILLS + STOPS {
                self.candidates[at].terminate();
                assert_eq!(self.candidates[at].exit_code(), 0);
            } else {
                self.candidates[at].post("/resign?hold_off=100ms");
            }
        }
        longest
    }

    /// Waits for the next term, within the documented bound. Returns its leader, and the time
    /// without one.
    fn next_leader(&mut self) -> (usize, Duration) {
        let within = self.rig.store.takeover(self.rig.timing) + S::NOISE + TIMING.answer_validity;
        let promise = wait_for(within, "the next term begins", || {
            self.restart_ended();
            let latest = self.rig.latest_promise(self.name)?;
            (latest.token != self.token).then_some(latest)
        });
        let gap = self.rig.now().since(self.promised);
        (self.token, self.promised) = (promise.token, promise.until);
        let is_leader = |candidate: &Arc<Candidate>| candidate.identity == promise.identity;
        (self.candidates.iter().position(is_leader).expect("it is ours"), gap)
    }

    fn restart_ended(&mut self) {
        for (candidate, name) in self.candidates.iter_mut().zip(NAMES) {
            let Some(end) = candidate.explained_end() else { continue };
            if let Err(unexplained) = end {
                never_excuse();
                panic!("{unexplained}, which no fault explains");
            }
            *candidate = started(self.rig, name, self.name);
        }
    }
}

/// Starts a candidate whose application is declared to ask, so that it may resign.
fn started<S: Store>(rig: &Rig<S>, name: &str, election: &str) -> Arc<Candidate> {
    rig.candidate(name).election(election).flag("--on-lost", "stay").start()
}
