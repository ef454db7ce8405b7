//! Leftovers: the cgroup of a killed guard, and orphans that fall to the elector.

use super::{TIMING, children, guard_of, signal};
use crate::rig::{Files, Ledger, NOISE, Rig, STUBBORN, Store as _, eventually, uptime, wait_for};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How long orphans that have ended may stay zombies on a busy machine.
const REAPED_WITHIN: Duration = Duration::from_secs(5);

const ORPHANS: usize = 20;

/// The folders of cgroups with this name.
fn cgroups(name: &str) -> Vec<PathBuf> {
    let found = Command::new("find").args(["/sys/fs/cgroup", "-type", "d", "-name", name]).output();
    let text = String::from_utf8(found.expect("find runs").stdout).expect("paths are UTF-8");
    text.lines().map(PathBuf::from).collect()
}

#[test]
fn cgroup_of_a_killed_guard_is_removed() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", STUBBORN).start();
    let token = ledger.next_token(&[]);
    let guard = guard_of(&only);
    let left = || cgroups(&format!("baton-{guard}"));
    if !only.output().contains("contained by its cgroup") {
        eprintln!("skipped: only root can make a cgroup");
        only.terminate();
        only.exit_code();
        return;
    }
    assert_eq!(left().len(), 1);
    let killed = uptime();
    signal(guard, "-KILL");
    assert_eq!(only.exit_code(), 75);
    ledger.is_silent_within(NOISE);
    assert!(ledger.last(token).saturating_sub(killed) < NOISE);
    let left = left();
    for folder in &left {
        fs::remove_dir(folder).expect("it is empty");
    }
    assert!(left.is_empty(), "{left:?} is left");
}

/// The children of a process that have ended and were not reaped.
fn zombies(parent: u32) -> usize {
    let is_zombie = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'))
    };
    children(parent).iter().filter(|pid| is_zombie(pid)).count()
}

#[test]
fn orphans_that_fall_to_the_elector_are_reaped() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let leader = ledger.candidate("a", "note").start();
    let first = ledger.next_token(&[]);
    let candidate = ledger.candidate("b", STUBBORN).first_of_a_namespace().start();
    let elector = *children(candidate.pid()).first().expect("unshare has a child");

    // As `kubectl exec` leaves them.
    let leave_orphans = |round: &str| {
        let ended = rig.folder().join(round);
        let orphan = format!("(sh -c 'sleep 0.1; echo >> {}' &)", ended.display());
        let entered = Command::new("nsenter")
            .args(["--target", &elector.to_string(), "--user", "--preserve-credentials"])
            .args(["--pid", "--mount", "sh", "-c"])
            .arg(vec![orphan; ORPHANS].join("; "))
            .status();
        assert!(entered.expect("util-linux is installed").success());
        eventually(10 * NOISE, "the orphans have ended", || {
            fs::read_to_string(&ended).is_ok_and(|text| text.lines().count() == ORPHANS)
        });
        eventually(REAPED_WITHIN, "the orphans are reaped", || zombies(elector) == 0);
    };
    leave_orphans("following");
    leader.terminate();
    leader.exit_code();
    ledger.next_token(&[first]);
    let guard = wait_for(NOISE, "it has a guard", || children(elector).first().copied());
    leave_orphans("leading");
    assert_eq!(children(elector), [guard], "its guard is left alone");

    signal(elector, "-TERM");
    assert_eq!(candidate.exit_code(), 137, "it got the end of its guard");
    ledger.check();
}
