//! The prober: one thread per candidate that polls `GET /leader` from its start to the test's end.

use super::candidate::Candidate;
use super::history::{Answer, Journal, Moment, Outcome, eventually, lock};
use super::question::{agent, ask};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use ureq::Agent;

/// The pause between two requests to a candidate, and what it grows by with each candidate: fifty
/// candidates must not cost more than ten.
const PAUSE: Duration = Duration::from_millis(12);
const PAUSE_PER_CANDIDATE: Duration = Duration::from_millis(2);
/// How long an ended candidate is still polled, to show that it no longer answers.
const AFTERWARDS: Duration = Duration::from_millis(300);
/// How long its end may go unnoticed after another process has taken its port.
const UNNOTICED: Duration = Duration::from_secs(5);

/// Probes `candidate` until the journal is closed.
pub(crate) fn begin(
    journal: &Arc<Journal>,
    candidate: &Arc<Candidate>,
    probed: &Arc<AtomicUsize>,
) -> JoinHandle<()> {
    let (journal, candidate, probed) =
        (Arc::clone(journal), Arc::clone(candidate), Arc::clone(probed));
    probed.fetch_add(1, Ordering::Relaxed);
    thread::spawn(move || {
        let (agent, clock) = (agent(), journal.clock);
        while !journal.is_closed()
            && candidate.ended().is_none_or(|end| clock.now() < end.seen + AFTERWARDS)
        {
            let has_ended = candidate.ended().is_some();
            let answer = probe(&candidate, &agent, || clock.now());
            if has_ended && matches!(answer.outcome, Outcome::Malformed(_)) {
                // A program that is no candidate has taken its port.
                break;
            }
            if let Some(other) =
                answer.identity().filter(|identity| **identity != candidate.identity)
            {
                let taken =
                    format!("{} has ended, since {other} answers on its port", candidate.label);
                eventually(UNNOTICED, &taken, || candidate.ended().is_some());
                break;
            }
            lock(&journal.answers).push(answer);
            let count = u32::try_from(probed.load(Ordering::Relaxed)).expect("it is small");
            thread::sleep(PAUSE + PAUSE_PER_CANDIDATE * count);
        }
        probed.fetch_sub(1, Ordering::Relaxed);
    })
}

fn probe(candidate: &Candidate, agent: &Agent, now: impl Fn() -> Moment) -> Answer {
    let query = if candidate.unpolled { "?promise=none" } else { "" };
    let url = format!("http://{}/leader{query}", candidate.listen);
    let asked = now();
    let reply = ask(agent, &url);
    let answered = now();
    let (candidate, relied_on) = (candidate.label.clone(), !candidate.unpolled);
    Answer { candidate, asked, answered, relied_on, outcome: Outcome::of(reply) }
}

mod tests {
    use super::AFTERWARDS;
    use crate::rig::{Files, Rig, Store as _};
    use std::io::Write as _;
    use std::net::TcpListener;

    #[test]
    fn new_owner_of_a_port_is_not_taken_for_the_old() {
        let rig = Rig::over(Files::fresh(), Files::CALM);
        let first = rig.start_leader("first");
        rig.wait_for_answers();
        let elsewhere = Rig::over(Files::fresh(), Files::CALM);
        first.kill();
        let second = elsewhere.candidate("second").flag("--listen", &first.listen).start();
        assert_eq!(elsewhere.leader().identity, second.identity);
        elsewhere.wait_for_answers();
    }

    #[test]
    fn other_program_is_not_taken_for_a_candidate() {
        let rig = Rig::over(Files::fresh(), Files::CALM);
        let first = rig.start_leader("first");
        rig.wait_for_answers();
        first.kill();
        assert_eq!(first.exit_code(), 137);
        let listener = TcpListener::bind(&first.listen).expect("the port is free again");
        listener.set_nonblocking(true).expect("it is ours");
        // On a busy machine, the prober may have stopped polling.
        let until = rig.now() + AFTERWARDS;
        while rig.now() < until {
            let Ok((mut client, _)) = listener.accept() else { continue };
            client
                .write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}")
                .expect("the prober waits");
        }
    }
}
