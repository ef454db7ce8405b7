//! The loops of README's section "Ask before you act", run word for word.
//!
//! A loop prints `work TOKEN` for each step, and these lines are all that is judged: beside the built program,
//! which leads, hangs, is gone and is back; and beside a stub of it, whose answers no loop may act on but the last.

mod program;
mod stub;

use crate::rig::{NOISE, Rig, Timing, throughout, wait_for};
use program::{GO, JAVA, Language, NODE, PYTHON, Program, SHELL};
use std::thread;
use std::time::{Duration, Instant};

/// The answer validity is the default one: the shell's loop is right for no shorter.
const TIMING: Timing = Timing::of_ms(6000, 4500, 1000, 2000);

/// In this time every loop asks at least once: it waits for a second, and for half a second at the most for an answer.
const ROUND: Duration = Duration::from_millis(1600);

/// How long the first step may take: the loop has to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn the_loop_in_python_is_right() {
    is_right(&PYTHON);
}

#[test]
fn the_loop_in_go_is_right() {
    is_right(&GO);
}

#[test]
fn the_loop_in_java_is_right() {
    is_right(&JAVA);
}

#[test]
fn the_loop_in_node_is_right() {
    is_right(&NODE);
}

#[test]
fn the_loop_in_shell_is_right() {
    is_right(&SHELL);
}

fn is_right(language: &'static Language) {
    let program = Program::prepare(language);
    thread::scope(|scope| {
        scope.spawn(|| acts_on_the_good_answer_only(&program));
        works_only_while_its_sidecar_leads(&program);
    });
}

fn works_only_while_its_sidecar_leads(program: &Program) {
    let rig = Rig::new(TIMING);
    let first = rig.candidate("first").flag("--listen", program.language.address).start();
    let work = |token: Option<String>| format!("work {}", token.expect("it was heard leading"));
    let the_loop = program.start(&first.listen);
    wait_for(PATIENCE, "the loop works more than once", || the_loop.steps().get(1).cloned());
    let first_work = work(rig.tokens(&first.election).pop_first());

    first.pause();
    let worthless = Instant::now() + TIMING.answer_validity + NOISE;
    throughout(TIMING.answer_validity + NOISE + ROUND, "it works on no old answer", || {
        the_loop.last_step_at() < worthless && the_loop.is_alive()
    });
    first.kill();
    throughout(ROUND, "it does not work, and asks on", || {
        the_loop.last_step_at() < worthless && the_loop.is_alive()
    });

    // The other election is free at once: nobody's lease has to run out first.
    let second = rig.candidate("second").election("bills").flag("--listen", &first.listen).start();
    rig.leader_of(&second.election);
    let second_work = work(rig.tokens(&second.election).pop_first());
    wait_for(ROUND + NOISE, "it works for the second sidecar", || {
        the_loop.steps().into_iter().find(|step| *step == second_work)
    });
    let mut steps = the_loop.steps();
    steps.dedup();
    assert_eq!(steps, [first_work, second_work], "what it worked for");
}

fn acts_on_the_good_answer_only(program: &Program) {
    let answers = stub::answers(program.language.reads_validity);
    let good = format!("work {}", answers.len());
    let rounds = u32::try_from(answers.len()).expect("they are few");
    let stub = stub::start(answers);
    let the_loop = program.start(&stub);
    let step = wait_for(PATIENCE + ROUND * rounds, "the loop works", || the_loop.steps().pop());
    assert_eq!(step, good, "the answer that it worked on");
}
