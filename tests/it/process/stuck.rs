//! A sidecar with a blocked thread: strace holds it in a system call, or its log is not read.

use crate::rig::{Delay, Rig, Store, Timing, may_trace_a_sidecar, over_every_store, throughout};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The watchdog's delay after the deadline: two checks, half a second apart.
const TWO_CHECKS: Duration = Duration::from_millis(500);

/// Blocks the main thread of a process for a minute, from its next wait for events.
fn hold(pid: u32) -> Delay {
    Delay::of_main_thread(pid, "epoll_wait", Duration::from_mins(1))
}

over_every_store! {
    leader_with_a_blocked_thread_is_ended_by_the_watchdog,
    follower_with_a_blocked_thread_is_not_ended,
}

fn leader_with_a_blocked_thread_is_ended_by_the_watchdog<S: Store>() {
    if !may_trace_a_sidecar() {
        return;
    }
    let rig = Rig::over(S::fresh(), S::FAST);
    let leader = rig.start_leader("a");
    rig.start_followers(["b"]);
    let since = rig.now();
    let held = hold(leader.pid());
    let bound = rig.timing.renew_deadline + TWO_CHECKS + S::NOISE;
    leader.loses(bound, "fault");
    // The kernel reports the end to the tracer first, and strace is asleep.
    drop(held);
    assert_eq!(leader.exit_code(), 75);
    rig.successor(&leader, since, rig.store.takeover(rig.timing));
}

fn follower_with_a_blocked_thread_is_not_ended<S: Store>() {
    if !may_trace_a_sidecar() {
        return;
    }
    let rig = Rig::over(S::fresh(), S::FAST);
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    let _held = hold(follower.pid());
    // A blocked follower claims nothing, so its application need not restart.
    let beyond = rig.timing.lease_duration + TWO_CHECKS;
    throughout(beyond, "both are alive, and the leader leads", || {
        follower.is_alive() && leader.is_alive() && rig.holds(&leader)
    });
}

#[test]
fn leader_whose_log_is_not_read_leads_on() {
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    let (reader, mut writer) = std::io::pipe().expect("there are pipes");
    let mut leader = Command::new(env!("CARGO_BIN_EXE_baton"))
        .env_clear()
        .args(["--election=stuck", "--backend=file", "--listen=127.0.0.1:0", "--probe-listen=none"])
        .args([
            "--lease-duration=1500ms",
            "--renew-deadline=1s",
            "--retry-period=200ms",
            "--log-level=debug",
        ])
        .arg(format!("--directory={}", folder.path().display()))
        .stderr(writer.try_clone().expect("descriptors can be copied"))
        .spawn()
        .expect("the program is built");
    let mut log = BufReader::with_capacity(1, reader).lines();
    let leads = log.by_ref().map_while(Result::ok).find(|line| line.contains("\"leading\""));
    assert!(leads.is_some(), "it leads");
    // Fills the pipe and blocks on it until the reader is dropped.
    let filler = thread::spawn(move || writer.write_all(&vec![b'\n'; 1 << 20]).is_ok());
    throughout(3 * Timing::FAST.renew_deadline, "it leads on", || {
        leader.try_wait().expect("it is our child").is_none()
    });
    assert!(!filler.is_finished(), "the pipe was full to the end");
    leader.kill().expect("it is our child");
    leader.wait().expect("it is our child");
    drop(log);
    assert!(!filler.join().expect("writing does not panic"));
}
