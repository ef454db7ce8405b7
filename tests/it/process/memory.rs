//! The memory of the last end: a state directory that survives the restart of a container.

use crate::rig::{
    Candidate, Disk, ELECTION, Moment, Rig, Store, Timing, eventually, over_every_store, throughout,
};
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const PROMISES_RUN_OUT: Duration = Duration::from_secs(5);

over_every_store! {
    each_bad_end_doubles_the_wait_before_the_next_campaign,
    a_sidecar_that_was_replaced_alone_ends_with_75_once,
    an_application_that_was_left_behind_is_moved_also_by_a_sidecar_that_cannot_begin,
    a_follower_that_was_asked_to_stop_leaves_nothing_behind_that_matters,
    a_damaged_memory_is_a_warning,
}

fn each_bad_end_doubles_the_wait_before_the_next_campaign<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);
    let retry = rig.timing.retry_period;
    // 2ⁿ·retry after the nth, and never more than a lease.
    let waits = [0, 2, 4, 8, 16].map(|factor| (factor * retry).min(rig.timing.lease_duration));

    for (bad_ends, wait) in waits.into_iter().enumerate() {
        let begun = rig.now();
        let candidate = rig.candidate("a").state_directory(&state).start();
        let led = leads(&rig, &candidate);
        let took = led.since(begun);
        assert!(took >= wait, "after {bad_ends} bad ends it led after {took:?} already");
        assert!(
            took <= wait + 2 * S::NOISE,
            "after {bad_ends} bad ends it led only after {took:?}"
        );

        let logged = candidate.events("previous_end");
        assert_eq!(logged.len(), usize::from(bad_ends > 0), "{}", candidate.output());
        let series = format!(r#"baton_last_end_info{{election="{ELECTION}",reason="fault"}}"#);
        assert_eq!(candidate.metric(&series), Some(if bad_ends > 0 { 1.0 } else { 0.0 }));

        candidate.kill();
        // So that nothing but the damping holds up the next one.
        clear_away(&rig, &candidate);
    }
}

fn a_sidecar_that_was_replaced_alone_ends_with_75_once<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);

    let first = rig.candidate("a").state_directory(&state).start();
    leads(&rig, &first);
    first.terminate();
    assert_eq!(first.exit_code(), 0);

    // Its application was not moved, and may still act on what the first one said.
    let (code, output) = rig.candidate("a").state_directory(&state).ends();
    assert_eq!(code, 75, "{output}");
    assert!(output.contains("previous_end"), "it does not say why: {output}");

    // Now the application has been moved.
    let third = rig.candidate("a").state_directory(&state).start();
    leads(&rig, &third);
    rig.hear_enough();
}

/// An image that was replaced by one that refuses its settings, or cannot be served here.
fn an_application_that_was_left_behind_is_moved_also_by_a_sidecar_that_cannot_begin<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);
    let taken = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = taken.local_addr().expect("it is bound").to_string();
    for (flag, mistaken) in [("--log-level", "loud"), ("--listen", address.as_str())] {
        let leader = rig.candidate("a").state_directory(&state).start();
        leads(&rig, &leader);
        rig.hear_enough();
        leader.terminate();
        assert_eq!(leader.exit_code(), 0);
        for expected in [75, 2] {
            let (code, output) =
                rig.candidate("a").state_directory(&state).flag(flag, mistaken).ends();
            assert_eq!(code, expected, "{output}");
            assert!(output.contains(mistaken), "it does not name {mistaken}: {output}");
            assert_eq!(output.contains("previous_end"), expected == 75, "{output}");
        }
    }
}

#[test]
fn a_full_disk_forgets_no_application_left_behind() {
    let rig = Rig::new(Timing::FAST);
    let folder = rig.folder().join("disk");
    fs::create_dir(&folder).expect("the folder is new");
    let disk = Disk::mount(&folder, "size=64k");
    let leader = rig.candidate("a").state_directory(&disk.path).start();
    leads(&rig, &leader);
    rig.hear_enough();
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);

    // Once only, although there is no room to note it.
    for expected in [75, 2] {
        disk.fill();
        let (code, output) = rig.candidate("a").state_directory(&disk.path).ends();
        assert_eq!(code, expected, "{output}");
    }
    disk.free();
    let next = rig.candidate("a").state_directory(&disk.path).start();
    leads(&rig, &next);
    rig.hear_enough();
}

fn a_follower_that_was_asked_to_stop_leaves_nothing_behind_that_matters<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);
    let leader = rig.start_leader("a");

    for _ in 0..2 {
        let follower = rig.candidate("b").state_directory(&state).start();
        eventually(S::NOISE, "it follows", || rig.stands(&follower, "following"));
        follower.terminate();
        assert_eq!(follower.exit_code(), 0);
    }
    throughout(rig.timing.retry_period, "the leader leads on", || rig.stands(&leader, "leading"));
    rig.hear_enough();
}

fn a_damaged_memory_is_a_warning<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);
    let first = rig.candidate("a").state_directory(&state).start();
    leads(&rig, &first);
    first.kill();
    clear_away(&rig, &first);

    let memory = state.join(ELECTION).join("last-run");
    for damage in [b"".as_slice(), b"{\"half", b"\xff\xfe\x00"] {
        assert!(memory.exists(), "there is nothing to damage");
        fs::write(&memory, damage).expect("it is ours");

        let next = rig.candidate("a").state_directory(&state).start();
        leads(&rig, &next);
        throughout(rig.timing.retry_period, "it leads on", || rig.stands(&next, "leading"));
        let path = memory.to_str().expect("the paths of the rig are UTF-8");
        let output = next.output();
        assert!(
            output.lines().any(|line| line.contains("\"WARN\"") && line.contains(path)),
            "no warning names {path}: {output}"
        );
        next.kill();
        clear_away(&rig, &next);
    }
}

/// Waits until `candidate` leads: the moment.
#[track_caller]
fn leads<S: Store>(rig: &Rig<S>, candidate: &Arc<Candidate>) -> Moment {
    let leader = rig.leader();
    let led = rig.now();
    assert_eq!(leader.identity, candidate.identity);
    led
}

/// Removes the record of a leader that is dead, as soon as nobody can rely on it any more.
fn clear_away<S: Store>(rig: &Rig<S>, leader: &Candidate) {
    let until = rig.last_promise(leader);
    eventually(PROMISES_RUN_OUT, "its promises have run out", || rig.now() > until);
    rig.store.remove(ELECTION);
}

fn state_directory<S: Store>(rig: &Rig<S>) -> PathBuf {
    let directory = rig.folder().join("state");
    fs::create_dir(&directory).expect("the folder is new");
    directory
}
