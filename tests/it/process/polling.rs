//! `--require-polling`: an application that stops asking does not keep others from leading.

use crate::rig::{ELECTION, Rig, Store, over_every_store, throughout, wait_for};
use std::time::Duration;

over_every_store! {
    unasked_leader_resigns_until_it_is_asked_again,
}

fn unasked_leader_resigns_until_it_is_asked_again<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    // The shortest duration that is accepted.
    let unasked = rig.timing.answer_validity + rig.timing.retry_period;
    let hung =
        rig.candidate("a").unasked().flag("--require-polling", format!("{unasked:?}")).start();
    let begun = rig.now();
    rig.leader();

    // No application relies on it, so there is nothing to wait for.
    let released = wait_for(unasked + S::NOISE, "it releases", || {
        rig.store.holder(ELECTION).is_empty().then(|| rig.now())
    });
    let took = released.since(begun);
    assert!(took + S::NOISE >= unasked, "it resigned after only {took:?}");
    let resigned = wait_for(S::NOISE, "it logs why", || hung.events("resigned").pop());
    assert_eq!(resigned["reason"], "unasked");
    throughout(2 * rig.timing.retry_period, "it is healthy and holds nothing", || {
        hung.is_healthy() && rig.store.holder(ELECTION).is_empty()
    });

    // Another candidate leads as long as its application asks.
    let asking = rig.candidate("b").flag("--require-polling", format!("{unasked:?}")).start();
    rig.leader();
    throughout(2 * unasked, "it keeps leading", || rig.holds(&asking));

    // One request makes the first a candidate again.
    hung.ask();
    let stopped = asking.terminate();
    rig.successor(
        &asking,
        stopped,
        rig.timing.answer_validity + Duration::from_millis(100) + S::NOISE,
    );
    assert_eq!(asking.exit_code(), 0);
}
