//! `--require-polling`: an application that stops polling does not keep other candidates from
//! leading.

use crate::rig::{ELECTION, Rig, Store, over_every_store, throughout, wait_for};
use std::time::Duration;

over_every_store! {
    unpolled_leader_resigns_until_it_is_polled,
}

fn unpolled_leader_resigns_until_it_is_polled<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    // The shortest duration that is accepted.
    let limit = rig.timing.answer_validity + rig.timing.retry_period;
    let hung =
        rig.candidate("a").unpolled().flag("--require-polling", format!("{limit:?}")).start();
    let begun = rig.now();
    rig.leader();

    // No application relies on it, so there is nothing to wait for.
    let released = wait_for(limit + S::NOISE, "it releases", || {
        rig.store.holder(ELECTION).is_empty().then(|| rig.now())
    });
    let took = released.since(begun);
    assert!(took + S::NOISE >= limit, "it resigned after only {took:?}");
    let resigned = wait_for(S::NOISE, "it logs why", || hung.events("resigned").pop());
    assert_eq!(resigned["reason"], "unasked");
    throughout(2 * rig.timing.retry_period, "it is healthy and holds nothing", || {
        hung.is_healthy() && rig.store.holder(ELECTION).is_empty()
    });

    // Another candidate leads as long as its application polls.
    let polled = rig.candidate("b").flag("--require-polling", format!("{limit:?}")).start();
    rig.leader();
    throughout(2 * limit, "it keeps leading", || rig.holds(&polled));

    // One request makes the first a candidate again.
    hung.ask();
    let stopped = polled.terminate();
    rig.successor(
        &polled,
        stopped,
        rig.timing.answer_validity + Duration::from_millis(100) + S::NOISE,
    );
    assert_eq!(polled.exit_code(), 0);
}
