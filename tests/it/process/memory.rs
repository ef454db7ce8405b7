//! The state directory, which remembers the last end of a sidecar over a container restart.

use crate::rig::{
    Candidate, Disk, ELECTION, Moment, Rig, Store, Timing, eventually, over_every_store, throughout,
};
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const PROMISES_EXPIRE: Duration = Duration::from_secs(5);

over_every_store! {
    each_bad_end_doubles_the_next_backoff,
    sidecar_restarted_alone_ends_with_75_once,
    sidecar_with_invalid_settings_ends_with_75_first,
    stopped_follower_may_restart_alone,
    damaged_state_file_is_a_warning,
}

fn each_bad_end_doubles_the_next_backoff<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);
    let retry = rig.timing.retry_period;
    // 2ⁿ retry periods after the nth, at most a lease duration.
    let waits = [0, 2, 4, 8, 16].map(|factor| (factor * retry).min(rig.timing.lease_duration));

    for (bad_ends, wait) in waits.into_iter().enumerate() {
        let begun = rig.now();
        let candidate = rig.candidate("a").state_directory(&state).start();
        let led = await_leading(&rig, &candidate);
        let took = led.since(begun);
        assert!(took >= wait, "after {bad_ends} bad ends it led after only {took:?}");
        assert!(
            took <= wait + 2 * S::NOISE,
            "after {bad_ends} bad ends it led after {took:?}, too late"
        );

        let logged = candidate.events("previous_end");
        assert_eq!(logged.len(), usize::from(bad_ends > 0), "{}", candidate.output());
        let series = format!(r#"baton_last_end_info{{election="{ELECTION}",reason="fault"}}"#);
        assert_eq!(candidate.metric(&series), Some(if bad_ends > 0 { 1.0 } else { 0.0 }));

        candidate.kill();
        // So that only the backoff delays the next one.
        remove_record(&rig, &candidate);
    }
}

fn sidecar_restarted_alone_ends_with_75_once<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);

    let first = rig.candidate("a").state_directory(&state).start();
    await_leading(&rig, &first);
    first.terminate();
    assert_eq!(first.exit_code(), 0);

    // Its application was not restarted, and may still act on an answer of the first.
    let (code, output) = rig.candidate("a").state_directory(&state).ends();
    assert_eq!(code, 75, "{output}");
    assert!(output.contains("previous_end"), "it does not log why: {output}");

    // By now the application has been restarted.
    let third = rig.candidate("a").state_directory(&state).start();
    await_leading(&rig, &third);
    rig.wait_for_answers();
}

/// The new image has invalid settings, or cannot listen here.
fn sidecar_with_invalid_settings_ends_with_75_first<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);
    let taken = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = taken.local_addr().expect("it is bound").to_string();
    for (flag, mistaken) in [("--log-level", "loud"), ("--listen", address.as_str())] {
        let leader = rig.candidate("a").state_directory(&state).start();
        await_leading(&rig, &leader);
        rig.wait_for_answers();
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
fn full_disk_does_not_forget_the_application() {
    let rig = Rig::new(Timing::FAST);
    let folder = rig.folder().join("disk");
    fs::create_dir(&folder).expect("the folder is new");
    let disk = Disk::mount(&folder, "size=64k");
    let leader = rig.candidate("a").state_directory(&disk.path).start();
    await_leading(&rig, &leader);
    rig.wait_for_answers();
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);

    // Only once, although the disk has no room to record it.
    for expected in [75, 2] {
        disk.fill();
        let (code, output) = rig.candidate("a").state_directory(&disk.path).ends();
        assert_eq!(code, expected, "{output}");
    }
    disk.free();
    let next = rig.candidate("a").state_directory(&disk.path).start();
    await_leading(&rig, &next);
    rig.wait_for_answers();
}

fn stopped_follower_may_restart_alone<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);
    let leader = rig.start_leader("a");

    for _ in 0..2 {
        let follower = rig.candidate("b").state_directory(&state).start();
        eventually(S::NOISE, "it follows", || rig.has_standing(&follower, "following"));
        follower.terminate();
        assert_eq!(follower.exit_code(), 0);
    }
    throughout(rig.timing.retry_period, "the leader keeps leading", || {
        rig.has_standing(&leader, "leading")
    });
    rig.wait_for_answers();
}

fn damaged_state_file_is_a_warning<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    let state = state_directory(&rig);
    let first = rig.candidate("a").state_directory(&state).start();
    await_leading(&rig, &first);
    first.kill();
    remove_record(&rig, &first);

    let last_run = state.join(ELECTION).join("last-run");
    for damage in [b"".as_slice(), b"{\"half", b"\xff\xfe\x00"] {
        assert!(last_run.exists(), "there is no file to damage");
        fs::write(&last_run, damage).expect("it is ours");

        let next = rig.candidate("a").state_directory(&state).start();
        await_leading(&rig, &next);
        throughout(rig.timing.retry_period, "it keeps leading", || {
            rig.has_standing(&next, "leading")
        });
        let path = last_run.to_str().expect("the paths of the rig are UTF-8");
        let output = next.output();
        assert!(
            output.lines().any(|line| line.contains("\"WARN\"") && line.contains(path)),
            "no warning names {path}: {output}"
        );
        next.kill();
        remove_record(&rig, &next);
    }
}

/// Waits until `candidate` leads. Returns the moment.
#[track_caller]
fn await_leading<S: Store>(rig: &Rig<S>, candidate: &Arc<Candidate>) -> Moment {
    let leader = rig.leader();
    let led = rig.now();
    assert_eq!(leader.identity, candidate.identity);
    led
}

/// Removes the record of a dead leader, as soon as its last promise has expired.
fn remove_record<S: Store>(rig: &Rig<S>, leader: &Candidate) {
    let until = rig.last_promise(leader);
    eventually(PROMISES_EXPIRE, "its promises expire", || rig.now() > until);
    rig.store.remove(ELECTION);
}

fn state_directory<S: Store>(rig: &Rig<S>) -> PathBuf {
    let directory = rig.folder().join("state");
    fs::create_dir(&directory).expect("the folder is new");
    directory
}
