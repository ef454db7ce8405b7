//! How a leader goes: killed, asked to stop, asked twice; and what its successor waits for.

use crate::rig::{
    Candidate, ELECTION, Moment, NOISE, Rig, Store, eventually, over_every_store, throughout,
    wait_for,
};
use std::time::Duration;

/// A release is heard of at once: README, "What is promised".
const AFTER_A_RELEASE: Duration = Duration::from_millis(100);

/// The shortest time between signals that count as two requests: README, "Command line".
const ANOTHER_CAUSE: Duration = Duration::from_millis(1100);

over_every_store! {
    a_killed_leader_is_succeeded_within_the_bound,
    a_leader_that_is_asked_to_stop_releases_after_its_last_promise,
    after_baton_stopping_the_signal_releases_at_once,
    a_second_signal_ends_at_once_and_leaves_the_record_alone,
    two_signals_within_a_second_are_one_request,
    a_terminal_that_goes_away_asks_for_a_clean_stop,
    a_follower_that_is_asked_to_stop_ends_at_once_and_moves_nothing,
}

fn a_killed_leader_is_succeeded_within_the_bound<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let old = rig.start_leader("a");
    rig.start_followers(["b", "c"]);
    let killed = old.kill();
    rig.takeover(&old, killed);
}

fn a_leader_that_is_asked_to_stop_releases_after_its_last_promise<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW);
    let old = rig.start_leader("a");
    rig.start_followers(["b", "c"]);
    let asked = old.terminate();
    let released = release(&rig, &old);
    let (_, succeeded) =
        rig.successor(&old, asked, rig.timing.answer_validity + AFTER_A_RELEASE + S::NOISE);

    assert_eq!(old.exit_code(), 0);
    let last_promise = rig.last_promise(&old);
    assert!(last_promise > asked, "no promise was open: this run shows nothing");
    assert!(released >= last_promise, "released at {released:?}, promised until {last_promise:?}");
    let took = succeeded.since(released);
    assert!(took <= AFTER_A_RELEASE + S::NOISE, "the successor led {took:?} after the release");
    assert_eq!(resigned_because(&old), ["shutdown"]);
    assert_eq!(stopped_with(&old), ["confirmed"]);
}

fn after_baton_stopping_the_signal_releases_at_once<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST.valid_for(Duration::from_millis(500)));
    let old = rig.start_leader("a");
    rig.start_followers(["b", "c"]);
    let asked = rig.now();
    let stopping = old.baton("stopping");
    let returned = rig.now();
    assert!(stopping.status.success(), "{stopping:?}");
    let last_promise = rig.last_promise(&old);
    assert!(last_promise > asked, "no promise was open: this run shows nothing");
    assert!(returned >= last_promise, "returned at {returned:?}, promised until {last_promise:?}");
    rig.must_be_silent(&old, returned, "`baton stopping` had returned");

    // It keeps the election until its application has ended, of which the signal tells.
    let held = || rig.holds(&old);
    throughout(rig.timing.lease_duration, "the election is not released before the signal", held);
    let signalled = old.terminate();
    let released = release(&rig, &old);
    let took = released.since(signalled);
    assert!(
        took <= rig.timing.answer_validity.min(S::NOISE),
        "the release took {took:?} after the signal"
    );
    rig.successor(&old, signalled, AFTER_A_RELEASE + S::NOISE);
    assert_eq!(old.exit_code(), 0);
}

fn a_second_signal_ends_at_once_and_leaves_the_record_alone<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW.valid_for(Duration::from_millis(2500)));
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);
    let asked = old.terminate();
    eventually(S::NOISE, "it has withdrawn", || rig.stands(&old, "resigning"));
    eventually(ANOTHER_CAUSE + NOISE, "a signal has a cause of its own", || {
        rig.now() > asked + ANOTHER_CAUSE
    });
    old.terminate();
    assert_eq!(old.exit_code(), 75, "it led, and did not stop cleanly");
    assert!(old.events("stopped").is_empty(), "no clean stop is told of");
    let held = || rig.holds(&old);
    throughout(rig.timing.retry_period, "the record is held, to run out", held);
}

fn a_follower_that_is_asked_to_stop_ends_at_once_and_moves_nothing<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let leader = rig.start_leader("a");
    let [b, c] = rig.start_followers(["b", "c"]);

    b.terminate();
    c.interrupt();
    assert_eq!(b.exit_code(), 0);
    assert_eq!(c.exit_code(), 0);
    throughout(rig.timing.retry_period, "the leader leads on", || rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

/// Waits until the record names `old` no longer: a moment after its release, and hardly so.
#[track_caller]
fn release<S: Store>(rig: &Rig<S>, old: &Candidate) -> Moment {
    let within = rig.timing.answer_validity + 2 * S::NOISE;
    wait_for(within, "the leader releases", || (!rig.holds(old)).then(|| rig.now()))
}

/// coreutils' `timeout` signals the process, and then its group.
fn two_signals_within_a_second_are_one_request<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW);
    let old = rig.start_leader("a");
    let asked = old.terminate();
    let again = old.interrupt();
    assert!(
        again.since(asked) < Duration::from_millis(900),
        "the machine stood still: this run shows nothing"
    );
    assert_eq!(old.exit_code(), 0);
    assert_eq!(stopped_with(&old), ["confirmed"]);
}

fn a_terminal_that_goes_away_asks_for_a_clean_stop<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW);
    let old = rig.start_leader("a");
    old.hang_up();
    assert_eq!(old.exit_code(), 0);
    assert_eq!(stopped_with(&old), ["confirmed"]);
}

fn stopped_with(candidate: &Candidate) -> Vec<String> {
    let events = candidate.events("stopped");
    events.iter().filter_map(|event| event["release"].as_str().map(str::to_owned)).collect()
}

fn resigned_because(candidate: &Candidate) -> Vec<String> {
    let events = candidate.events("resigned");
    events.iter().filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect()
}
