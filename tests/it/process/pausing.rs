//! A leader that stands still while time goes on: paused, as a whole machine may be.

use crate::rig::{
    Candidate, ELECTION, Files, Moment, NOISE, Rig, Store, Timing, eventually, over_every_store,
    throughout, wait_for,
};
use std::time::Duration;

/// How long it may take to catch a process inside the lock.
const CAUGHT: Duration = Duration::from_secs(20);

over_every_store! {
    a_leader_that_is_paused_over_its_deadline_is_silent_and_ends_with_75,
    with_on_lost_stay_it_follows_instead_and_can_lead_again,
    a_pause_within_the_slack_changes_nothing,
}

fn a_leader_that_is_paused_over_its_deadline_is_silent_and_ends_with_75<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let old = rig.start_leader("a");
    rig.start_followers(["b", "c"]);
    let paused = old.pause();
    rig.must_be_silent(&old, paused + rig.timing.renew_deadline, "its deadline had passed");
    rig.takeover(&old, paused);

    let resumed = old.resume();
    old.loses(S::NOISE, "deadline");
    assert_eq!(old.exit_code(), 75);
    let lost = old.events("lost").pop().expect("it was heard");
    assert_eq!(lost["code"], 75, "{lost}");
    // A timer was due within a retry period of the pause, or a call's time-out.
    let pause = resumed.since(paused);
    let told =
        Duration::from_secs_f64(lost["paused_ms"].as_f64().expect("the pause is named") / 1000.0);
    assert!(
        told <= pause + S::NOISE
            && told + rig.timing.renew_deadline / 3 + rig.timing.retry_period >= pause,
        "{lost}"
    );
    assert!(
        lost["message"]
            .as_str()
            .unwrap()
            .contains("exiting with 75 (the process was paused for at least"),
        "{lost}"
    );
}

fn with_on_lost_stay_it_follows_instead_and_can_lead_again<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    for name in ["a", "b"] {
        rig.candidate(name).flag("--on-lost", "stay").start();
    }

    let old = rig.leader();
    let paused = old.pause();
    let new = rig.takeover(&old, paused);
    old.resume();
    eventually(S::NOISE, "it follows", || rig.stands(&old, "following"));
    throughout(rig.timing.retry_period, "it lives on", || old.is_healthy());
    let lost = old.events("lost").pop().expect("its term ended");
    assert!(
        lost["code"].is_null() && lost["message"].as_str().unwrap().contains("the process stays"),
        "{lost}"
    );

    let killed = new.kill();
    rig.takeover(&new, killed);
    assert_eq!(rig.tokens(ELECTION).len(), 3, "its second term has a token of its own");
}

fn a_pause_within_the_slack_changes_nothing<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let leader = rig.start_leader("a");
    rig.start_followers(["b"]);
    leader.pause();
    // Until the promises that it has given have run out: applications ask in vain for a while.
    let until = rig.last_promise(&leader) + rig.timing.retry_period;
    eventually(rig.timing.renew_deadline, "the pause is over", || rig.now() > until);
    leader.resume();

    assert_eq!(rig.leader().identity, leader.identity);
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

#[test]
fn a_leader_paused_inside_the_file_lock_keeps_everybody_out_and_nothing_else() {
    let rig = Rig::over(Files::on_disk(), Timing::FAST);
    let leader = rig.start_leader("a");
    let followers = rig.start_followers(["b", "c"]);

    let paused =
        wait_for(CAUGHT, "it is caught inside the lock", || pause_inside_lock(&rig, &leader));
    rig.must_be_silent(&leader, paused + rig.timing.renew_deadline, "its deadline had passed");

    let span = rig.timing.takeover() + NOISE;
    throughout(span, "nobody else leads, and all are well", || {
        !rig.succeeded(&leader, paused) && followers.iter().all(|follower| follower.is_healthy())
    });
    eventually(NOISE, "each says what keeps it out", || {
        let troubles = followers.iter().map(|follower| follower.events("store_unreachable"));
        troubles
            .into_iter()
            .all(|lines| lines.iter().any(|line| line.to_string().contains("still locked")))
    });

    let resumed = leader.resume();
    leader.loses(NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    // What it wrote last may count anew from now for those who follow.
    rig.successor(&leader, resumed, rig.timing.takeover() + NOISE);
}

/// Tries for a while to pause a process between the moments at which it takes the lock and frees it: some
/// hundred microseconds once a retry period.
fn pause_inside_lock(rig: &Rig, leader: &Candidate) -> Option<Moment> {
    let inside = || rig.store.inside_lock(ELECTION) == Some(leader.pid());
    (0..1000).find(|_| inside())?;
    let paused = leader.pause();
    if inside() {
        return Some(paused);
    }
    leader.resume();
    None
}
