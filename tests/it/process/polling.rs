//! `--require-polling`: an application that no longer asks does not keep the others from leading.

use crate::rig::{ELECTION, Rig, Store, over_every_store, throughout, wait_for};
use std::time::Duration;

over_every_store! {
    a_leader_that_nobody_asks_gives_up_until_it_is_asked_again,
}

fn a_leader_that_nobody_asks_gives_up_until_it_is_asked_again<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    // The shortest that is accepted.
    let unasked = rig.timing.answer_validity + rig.timing.retry_period;
    let hung =
        rig.candidate("a").unasked().flag("--require-polling", format!("{unasked:?}")).start();
    let begun = rig.now();
    rig.leader();

    // Nobody relies on it, so nothing has to be waited for.
    let released = wait_for(unasked + S::NOISE, "it releases", || {
        rig.store.holder(ELECTION).is_empty().then(|| rig.now())
    });
    let took = released.since(begun);
    assert!(took + S::NOISE >= unasked, "it gave up after {took:?} already");
    let resigned = wait_for(S::NOISE, "it says so", || hung.events("resigned").pop());
    assert_eq!(resigned["reason"], "unasked");
    throughout(2 * rig.timing.retry_period, "it lives on, and holds nothing", || {
        hung.is_healthy() && rig.store.holder(ELECTION).is_empty()
    });

    // Another, whose application asks, leads as long as it is asked.
    let asking = rig.candidate("b").flag("--require-polling", format!("{unasked:?}")).start();
    rig.leader();
    throughout(2 * unasked, "who is asked leads on", || rig.holds(&asking));

    // One question, and the first is a candidate again.
    hung.ask();
    let stopped = asking.terminate();
    rig.successor(
        &asking,
        stopped,
        rig.timing.answer_validity + Duration::from_millis(100) + S::NOISE,
    );
    assert_eq!(asking.exit_code(), 0);
}
