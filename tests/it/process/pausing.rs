//! A leader that is paused, as a whole machine may be.

use crate::rig::{
    Candidate, ELECTION, Files, Moment, NOISE, Rig, Store, Timing, eventually, over_every_store,
    throughout, wait_for,
};
use std::time::Duration;

/// How long it may take to pause a process while it holds the lock.
const PATIENCE: Duration = Duration::from_secs(40);

over_every_store! {
    leader_paused_over_its_deadline_ends_with_75,
    on_lost_stay_makes_it_follow_and_lead_again,
    pause_within_the_slack_has_no_effect,
}

fn leader_paused_over_its_deadline_ends_with_75<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let old = rig.start_leader("a");
    rig.start_followers(["b", "c"]);
    let paused = old.pause();
    rig.must_not_lead(&old, paused + rig.timing.renew_deadline, "its deadline had passed");
    rig.takeover(&old, paused);

    let resumed = old.resume();
    old.loses(S::NOISE, "deadline");
    assert_eq!(old.exit_code(), 75);
    let lost = old.events("lost").pop().expect("it logged the loss");
    assert_eq!(lost["code"], 75, "{lost}");
    // A timer, or a call's timeout, was due within a retry period of the pause.
    let pause = resumed.since(paused);
    let reported =
        Duration::from_secs_f64(lost["paused_ms"].as_f64().expect("it names the pause") / 1000.0);
    assert!(
        reported <= pause + S::NOISE
            && reported + rig.timing.renew_deadline / 3 + rig.timing.retry_period >= pause,
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

fn on_lost_stay_makes_it_follow_and_lead_again<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    for name in ["a", "b"] {
        rig.candidate(name).flag("--on-lost", "stay").start();
    }

    let old = rig.leader();
    let paused = old.pause();
    let new = rig.takeover(&old, paused);
    old.resume();
    eventually(S::NOISE, "it follows", || rig.has_standing(&old, "following"));
    throughout(rig.timing.retry_period, "it stays healthy", || old.is_healthy());
    let lost = old.events("lost").pop().expect("it logged the loss");
    assert!(
        lost["code"].is_null()
            && lost["message"].as_str().unwrap().contains("staying as a follower"),
        "{lost}"
    );

    let killed = new.kill();
    rig.takeover(&new, killed);
    assert_eq!(rig.tokens(ELECTION).len(), 3, "its second term has a new token");
}

fn pause_within_the_slack_has_no_effect<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let leader = rig.start_leader("a");
    rig.start_followers(["b"]);
    leader.pause();
    // Until its promises have expired, so that applications get no answer for a while.
    let until = rig.last_promise(&leader) + rig.timing.retry_period;
    eventually(rig.timing.renew_deadline, "the pause is over", || rig.now() > until);
    leader.resume();

    assert_eq!(rig.leader().identity, leader.identity);
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

#[test]
fn lock_of_a_paused_leader_blocks_the_followers() {
    // An fsync on a busy disk can take longer than the fast durations leave.
    let rig = Rig::over(Files::on_disk(), Timing::CALM);
    let leader = rig.start_leader("a");
    let followers = rig.start_followers(["b", "c"]);

    let paused =
        wait_for(PATIENCE, "it is paused inside the lock", || pause_inside_lock(&rig, &leader));
    rig.must_not_lead(&leader, paused + rig.timing.renew_deadline, "its deadline had passed");

    let span = rig.timing.takeover() + NOISE;
    throughout(span, "no other leads, and all are healthy", || {
        !rig.has_successor(&leader, paused)
            && followers.iter().all(|follower| follower.is_healthy())
    });
    eventually(NOISE, "each logs that the file is locked", || {
        let events = followers.iter().map(|follower| follower.events("store_unreachable"));
        events
            .into_iter()
            .all(|lines| lines.iter().any(|line| line.to_string().contains("still locked")))
    });

    let resumed = leader.resume();
    leader.loses(NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    // Its last write may restart the followers' wait.
    rig.successor(&leader, resumed, rig.timing.takeover() + NOISE);
}

/// Tries to pause a process while it holds the lock, which it does for some hundred microseconds in
/// each retry period.
fn pause_inside_lock(rig: &Rig, leader: &Candidate) -> Option<Moment> {
    let inside = || rig.store.lock_holder(ELECTION) == Some(leader.pid());
    (0..1000).find(|_| inside())?;
    let paused = leader.pause();
    if inside() {
        return Some(paused);
    }
    leader.resume();
    None
}
