//! The prober: one thread a candidate, which asks `GET /leader` from its start to the end of the test.

use super::candidate::Candidate;
use super::judge::{Answer, Heard, Journal, Moment, eventually, lock};
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
/// How long a candidate that has ended is still asked, to show that it does not answer any more.
const AFTERWARDS: Duration = Duration::from_millis(300);
/// How long its end may be unheard of when another has its port already.
const UNHEARD: Duration = Duration::from_secs(5);

/// Asks `candidate` until the journal is closed.
pub(crate) fn begin(
    journal: &Arc<Journal>,
    candidate: &Arc<Candidate>,
    crowd: &Arc<AtomicUsize>,
) -> JoinHandle<()> {
    let (journal, candidate, crowd) =
        (Arc::clone(journal), Arc::clone(candidate), Arc::clone(crowd));
    crowd.fetch_add(1, Ordering::Relaxed);
    thread::spawn(move || {
        let (agent, clock) = (agent(), journal.clock);
        while !journal.is_closed()
            && candidate.ended().is_none_or(|end| clock.now() < end.seen + AFTERWARDS)
        {
            let has_ended = candidate.ended().is_some();
            let answer = listen_to(&candidate, &agent, || clock.now());
            if has_ended && matches!(answer.heard, Heard::Nonsense(_)) {
                // A program that is no candidate has its port.
                break;
            }
            if let Some(other) =
                answer.identity().filter(|identity| **identity != candidate.identity)
            {
                let taken =
                    format!("{} has ended, since {other} answers at its port", candidate.label);
                eventually(UNHEARD, &taken, || candidate.ended().is_some());
                break;
            }
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

mod tests {
    use super::AFTERWARDS;
    use crate::rig::{Files, Rig, Store as _};
    use std::io::Write as _;
    use std::net::TcpListener;

    #[test]
    fn who_has_the_port_of_one_that_ended_is_not_taken_for_it() {
        let rig = Rig::over(Files::fresh(), Files::CALM);
        let first = rig.start_leader("first");
        rig.hear_enough();
        let elsewhere = Rig::over(Files::fresh(), Files::CALM);
        first.kill();
        let second = elsewhere.candidate("second").flag("--listen", &first.listen).start();
        assert_eq!(elsewhere.leader().identity, second.identity);
        elsewhere.hear_enough();
    }

    #[test]
    fn a_program_that_is_no_candidate_is_not_taken_for_one_that_ended() {
        let rig = Rig::over(Files::fresh(), Files::CALM);
        let first = rig.start_leader("first");
        rig.hear_enough();
        first.kill();
        assert_eq!(first.exit_code(), 137);
        let listener = TcpListener::bind(&first.listen).expect("nobody has it yet");
        listener.set_nonblocking(true).expect("it is ours");
        // On a busy machine it may be asked no more.
        let until = rig.now() + AFTERWARDS;
        while rig.now() < until {
            let Ok((mut asker, _)) = listener.accept() else { continue };
            asker
                .write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}")
                .expect("it waits");
        }
    }
}
