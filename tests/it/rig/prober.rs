//! The prober: one thread a candidate, which asks `GET /leader` from its start to the end of the test.

use super::candidate::Candidate;
use super::judge::{Answer, Heard, Journal, Moment, lock};
use super::question::{agent, ask};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use ureq::Agent;

/// The pause between two questions to a candidate, and what it grows by with each: fifty candidates
/// must not cost more than ten do.
const PACE: Duration = Duration::from_millis(12);
const PACE_FOR_EACH: Duration = Duration::from_millis(2);
/// How long a candidate that has ended is still asked, to show that nobody answers for it. (No longer: another
/// process may get its port.)
const AFTERWARDS: Duration = Duration::from_millis(300);

/// Asks `candidate` until the journal is closed.
pub(crate) fn begin(journal: &Arc<Journal>, candidate: &Arc<Candidate>, crowd: &Arc<AtomicUsize>) -> JoinHandle<()> {
    let (journal, candidate, crowd) = (Arc::clone(journal), Arc::clone(candidate), Arc::clone(crowd));
    crowd.fetch_add(1, Ordering::Relaxed);
    thread::spawn(move || {
        let (agent, clock) = (agent(), journal.clock);
        while !journal.is_closed() && candidate.ended().is_none_or(|end| clock.now() < end.seen + AFTERWARDS) {
            let answer = listen_to(&candidate, &agent, || clock.now());
            lock(&journal.answers).push(answer);
            let count = u32::try_from(crowd.load(Ordering::Relaxed)).expect("it is small");
            thread::sleep(PACE + PACE_FOR_EACH * count);
        }
        crowd.fetch_sub(1, Ordering::Relaxed);
    })
}

fn listen_to(candidate: &Candidate, agent: &Agent, now: impl Fn() -> Moment) -> Answer {
    let query = if candidate.unasked { "?promise=none" } else { "" };
    let url = format!("http://{}/leader{query}", candidate.listen);
    let asked = now();
    let reply = ask(agent, &url);
    let answered = now();
    let (candidate, relied_on) = (candidate.label.clone(), !candidate.unasked);
    Answer { candidate, asked, answered, relied_on, heard: Heard::of(reply) }
}
