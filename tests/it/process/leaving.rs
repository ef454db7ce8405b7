//! The end of a leader, by SIGKILL or by one or two stop signals, and how long its successor waits.

use crate::rig::{
    Candidate, ELECTION, Moment, NOISE, Rig, Store, eventually, over_every_store, throughout,
    wait_for,
};
use std::time::Duration;

/// How soon another candidate leads after a release: docs/concepts/guarantees.md.
const AFTER_A_RELEASE: Duration = Duration::from_millis(100);

/// The time after which a second signal counts as a second request: docs/reference/exit-codes.md.
const SECOND_REQUEST: Duration = Duration::from_millis(1100);

over_every_store! {
    killed_leader_is_succeeded_within_the_bound,
    stopping_leader_releases_after_its_last_promise,
    signal_after_baton_stopping_releases_at_once,
    leader_that_was_not_asked_for_long_stops_cleanly,
    second_signal_ends_the_process_without_a_release,
    two_signals_within_a_second_are_one_request,
    sighup_asks_for_a_clean_stop,
    stopping_follower_changes_nothing,
}

fn killed_leader_is_succeeded_within_the_bound<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let old = rig.start_leader("a");
    rig.start_followers(["b", "c"]);
    let killed = old.kill();
    rig.takeover(&old, killed);
}

fn stopping_leader_releases_after_its_last_promise<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW);
    let old = rig.start_leader("a");
    rig.start_followers(["b", "c"]);
    let signaled = old.terminate();
    let released = release(&rig, &old);
    let (_, succeeded) =
        rig.successor(&old, signaled, rig.timing.answer_validity + AFTER_A_RELEASE + S::NOISE);

    assert_eq!(old.exit_code(), 0);
    let last_promise = rig.last_promise(&old);
    assert!(last_promise > signaled, "no promise was open, so this run proves nothing");
    assert!(released >= last_promise, "released at {released:?}, promised until {last_promise:?}");
    let took = succeeded.since(released);
    assert!(took <= AFTER_A_RELEASE + S::NOISE, "the successor led {took:?} after the release");
    assert_eq!(resign_reasons(&old), ["shutdown"]);
    assert_eq!(release_outcomes(&old), ["confirmed"]);
}

fn signal_after_baton_stopping_releases_at_once<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST.valid_for(Duration::from_millis(500)));
    let old = rig.start_leader("a");
    rig.start_followers(["b", "c"]);
    let requested = rig.now();
    let stopping = old.baton("stopping");
    let returned = rig.now();
    assert!(stopping.status.success(), "{stopping:?}");
    let last_promise = rig.last_promise(&old);
    assert!(last_promise > requested, "no promise was open, so this run proves nothing");
    assert!(returned >= last_promise, "returned at {returned:?}, promised until {last_promise:?}");
    rig.must_not_lead(&old, returned, "`baton stopping` had returned");

    // It holds the election until its application has ended, which the signal announces.
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

/// The last promise is older than the time that a release may take.
fn leader_that_was_not_asked_for_long_stops_cleanly<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let leader = rig.candidate("a").unpolled().start();
    rig.leader();
    assert_eq!(leader.ask().status, 200);
    let long = rig.timing.answer_validity + 3 * rig.timing.call_timeout();
    throughout(long, "it keeps leading", || rig.holds(&leader));
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    assert_eq!(release_outcomes(&leader), ["confirmed"]);
    assert!(rig.store.holder(ELECTION).is_empty());
    rig.start_leader("b");
    rig.wait_for_answers();
}

fn second_signal_ends_the_process_without_a_release<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW.valid_for(Duration::from_millis(2500)));
    let old = rig.start_leader("a");
    rig.start_followers(["b"]);
    let signaled = old.terminate();
    eventually(S::NOISE, "it withdraws", || rig.has_standing(&old, "resigning"));
    eventually(SECOND_REQUEST + NOISE, "a signal counts as a second request", || {
        rig.now() > signaled + SECOND_REQUEST
    });
    old.terminate();
    assert_eq!(old.exit_code(), 75, "it led and did not stop cleanly");
    assert!(old.events("stopped").is_empty(), "it logs no clean stop");
    let held = || rig.holds(&old);
    throughout(rig.timing.retry_period, "the record is not released", held);
}

fn stopping_follower_changes_nothing<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let leader = rig.start_leader("a");
    let [b, c] = rig.start_followers(["b", "c"]);

    b.terminate();
    c.interrupt();
    assert_eq!(b.exit_code(), 0);
    assert_eq!(c.exit_code(), 0);
    throughout(rig.timing.retry_period, "the leader keeps leading", || rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

/// Waits until the record no longer names `old`. Returns a moment shortly after the release.
#[track_caller]
fn release<S: Store>(rig: &Rig<S>, old: &Candidate) -> Moment {
    let within = rig.timing.answer_validity + 2 * S::NOISE;
    wait_for(within, "the leader releases", || (!rig.holds(old)).then(|| rig.now()))
}

/// coreutils' `timeout` signals the process and then its group.
fn two_signals_within_a_second_are_one_request<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW);
    let old = rig.start_leader("a");
    let signaled = old.terminate();
    let again = old.interrupt();
    assert!(
        again.since(signaled) < Duration::from_millis(900),
        "the machine stalled, so this run proves nothing"
    );
    assert_eq!(old.exit_code(), 0);
    assert_eq!(release_outcomes(&old), ["confirmed"]);
}

fn sighup_asks_for_a_clean_stop<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW);
    let old = rig.start_leader("a");
    old.hang_up();
    assert_eq!(old.exit_code(), 0);
    assert_eq!(release_outcomes(&old), ["confirmed"]);
}

fn release_outcomes(candidate: &Candidate) -> Vec<String> {
    let events = candidate.events("stopped");
    events.iter().filter_map(|event| event["release"].as_str().map(str::to_owned)).collect()
}

fn resign_reasons(candidate: &Candidate) -> Vec<String> {
    let events = candidate.events("resigned");
    events.iter().filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect()
}
