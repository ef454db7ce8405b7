//! The prober: one thread a candidate, which asks `GET /leader` from its start to the end of the test.

use super::candidate::Candidate;
use super::clock::Moment;
use super::history::{Answer, Heard, Said};
use super::journal::Journal;
use super::lock;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use ureq::Agent;

/// How long the prober waits for an answer.
const TIMEOUT: Duration = Duration::from_millis(500);
/// The pause between two questions to a candidate, and what it grows by with each: fifty candidates
/// must not cost more than ten do.
const PACE: Duration = Duration::from_millis(12);
const PACE_FOR_EACH: Duration = Duration::from_millis(2);
/// How long a candidate that has ended is still asked, to show that nobody answers for it. (No longer: another
/// process may get its port.)
const AFTERWARDS: Duration = Duration::from_millis(300);

/// A client that keeps its connection, and takes every status for an answer.
pub(crate) fn agent() -> Agent {
    let config = Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        // Not the time-out for everything: with that one ureq starts a thread for each request.
        .timeout_connect(Some(TIMEOUT))
        .timeout_recv_response(Some(TIMEOUT))
        .timeout_recv_body(Some(TIMEOUT));
    Agent::new_with_config(config.build())
}

/// Asks `candidate` until the journal is closed.
pub(crate) fn begin(journal: &Arc<Journal>, candidate: &Arc<Candidate>, crowd: &Arc<AtomicUsize>) -> JoinHandle<()> {
    let (journal, candidate, crowd) = (Arc::clone(journal), Arc::clone(candidate), Arc::clone(crowd));
    thread::spawn(move || {
        let (agent, clock) = (agent(), journal.clock);
        while !journal.is_closed() && candidate.ended().is_none_or(|end| clock.now() < end.seen + AFTERWARDS) {
            let answer = ask(&agent, &candidate, || clock.now());
            lock(&journal.answers).push(answer);
            let crowd = u32::try_from(crowd.load(Ordering::Relaxed)).expect("it is small");
            thread::sleep(PACE + PACE_FOR_EACH * crowd);
        }
    })
}

fn ask(agent: &Agent, candidate: &Candidate, now: impl Fn() -> Moment) -> Answer {
    let query = if candidate.unasked { "?promise=none" } else { "" };
    let request = agent.get(format!("http://{}/leader{query}", candidate.listen));
    let asked = now();
    let reply = request.call().and_then(|mut reply| Ok((reply.body_mut().read_to_string()?, reply)));
    let answered = now();

    let heard = match reply {
        Err(error) => Heard::Nothing(error.to_string()),
        Ok((body, reply)) => {
            let header = reply.headers().get("fencing-token");
            let fencing_token = header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            match serde_json::from_str(&body) {
                Ok(body) => Heard::Said(Said { status: reply.status().as_u16(), fencing_token, body }),
                Err(error) => Heard::Nonsense(format!("{} {body:?}: {error}", reply.status())),
            }
        }
    };
    Answer { candidate: candidate.label.clone(), asked, answered, relied_on: !candidate.unasked, heard }
}
