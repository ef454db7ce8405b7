//! `--require-polling`: an application that no longer asks does not keep the others from leading.

use crate::rig::{ELECTION, NOISE, Rig, Timing, throughout, wait_for};
use std::time::Duration;

const UNASKED: Duration = Duration::from_secs(1);

#[test]
fn a_leader_that_nobody_asks_gives_up_until_it_is_asked_again() {
    let rig = Rig::new(Timing::CALM);
    let hung = rig.candidate("a").unasked().flag("--require-polling", format!("{UNASKED:?}")).start();
    let begun = rig.now();
    rig.leader();

    // Nobody relies on it, so nothing has to be waited for.
    let released =
        wait_for(UNASKED + NOISE, "it releases", || rig.store.holder(ELECTION).is_empty().then(|| rig.now()));
    let took = released.since(begun);
    assert!(took + NOISE >= UNASKED, "it gave up after {took:?} already");
    let resigned = wait_for(NOISE, "it says so", || hung.events("resigned").pop());
    assert_eq!(resigned["reason"], "unasked");
    throughout(2 * rig.timing.retry_period, "it lives on, and holds nothing", || {
        hung.is_healthy() && rig.store.holder(ELECTION).is_empty()
    });

    // Another, whose application asks, leads as long as it is asked.
    let asking = rig.candidate("b").flag("--require-polling", format!("{UNASKED:?}")).start();
    rig.leader();
    throughout(2 * UNASKED, "who is asked leads on", || rig.holds(&asking));

    // One question, and the first is a candidate again.
    hung.ask();
    let stopped = asking.terminate();
    rig.successor(&asking, stopped, rig.timing.answer_validity + Duration::from_millis(100) + NOISE);
    assert_eq!(asking.exit_code(), 0);
}
