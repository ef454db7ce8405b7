//! The loops without a library of the guide "Ask before you act", run word for word.
//!
//! Touches processes and loopback sockets. A loop prints `work TOKEN` for each step, and the tests
//! check these lines. They run it beside the built program, which leads, hangs, stops, and returns,
//! and beside a stub, where it may act on the last answer only.

mod program;
mod stub;

use crate::rig::{NOISE, Rig, Timing, throughout, wait_for};
use program::{Language, PYTHON, Program, SHELL};
use std::thread;
use std::time::{Duration, Instant};

/// The default answer validity: the shell's loop is correct for no shorter one.
const TIMING: Timing = Timing::of_ms(6000, 4500, 1000, 2000);

/// Each loop asks at least once in this time: it sleeps 1 s, and waits up to 0.5 s for an answer.
const ROUND: Duration = Duration::from_millis(1600);

/// The loop has to start, perhaps on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn python_loop_acts_only_while_leading() {
    acts_only_while_leading(&PYTHON);
}

#[test]
fn shell_loop_acts_only_while_leading() {
    acts_only_while_leading(&SHELL);
}

fn acts_only_while_leading(language: &'static Language) {
    let program = Program::prepare(language);
    thread::scope(|scope| {
        scope.spawn(|| acts_on_the_good_answer_only(&program));
        works_only_while_its_sidecar_leads(&program);
    });
}

fn works_only_while_its_sidecar_leads(program: &Program) {
    let rig = Rig::new(TIMING);
    let first = rig.candidate("first").flag("--listen", program.language.address).start();
    let work = |token: Option<String>| format!("work {}", token.expect("a leader has a token"));
    let the_loop = program.start(&first.listen);
    wait_for(PATIENCE, "the loop to work twice", || the_loop.steps().get(1).cloned());
    let first_work = work(rig.tokens(&first.election).pop_first());

    first.pause();
    let expired_by = Instant::now() + TIMING.answer_validity + NOISE;
    throughout(
        TIMING.answer_validity + NOISE + ROUND,
        "the loop acts on no expired answer",
        || the_loop.last_step_at() < expired_by && the_loop.is_alive(),
    );
    first.kill();
    throughout(ROUND, "the loop keeps asking and does not work", || {
        the_loop.last_step_at() < expired_by && the_loop.is_alive()
    });

    // Another election is free at once, without a lease that has to expire.
    let second = rig.candidate("second").election("bills").flag("--listen", &first.listen).start();
    rig.leader_of(&second.election);
    let second_work = work(rig.tokens(&second.election).pop_first());
    wait_for(ROUND + NOISE, "the loop to work for the second sidecar", || {
        the_loop.steps().into_iter().find(|step| *step == second_work)
    });
    let mut steps = the_loop.steps();
    steps.dedup();
    assert_eq!(steps, [first_work, second_work], "the tokens that the loop worked with");
}

fn acts_on_the_good_answer_only(program: &Program) {
    let answers = stub::answers(program.language.reads_validity);
    let good = format!("work {}", answers.len());
    let rounds = u32::try_from(answers.len()).expect("a stub has few answers");
    let stub = stub::start(answers);
    let the_loop = program.start(&stub);
    let step = wait_for(PATIENCE + ROUND * rounds, "the loop to work", || the_loop.steps().pop());
    assert_eq!(step, good, "the loop must act on the last answer only");
}
