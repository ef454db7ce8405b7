//! Commands that are hard to contain: every process of them is dead before the claim ends.
//!
//! Start with [`is_dead_in_time`]. As root, the means of containment is a cgroup.

use super::{TIMING, children, signal, was_killed_in_time};
use crate::rig::{Candidate, Files, Ledger, NOISE, Rig, STUBBORN, Store as _, Stranger};
use crate::rig::{eventually, uptime};
use std::fs;
use std::time::Duration;

/// Notes itself with its fencing token, without a process of its own for each line.
const NOTE_ONCE: &str = "read now rest < /proc/uptime; echo $BATON_TOKEN $now >> $LEDGER";

/// Stops the elector, and checks that no process of its command notes itself after the claim.
fn is_dead_in_time(elector: &Candidate, ledger: &Ledger<'_>, token: u128, store: &Files) {
    signal(elector.pid(), "-STOP");
    ledger.is_silent_within(TIMING.renew_deadline + NOISE);
    was_killed_in_time(ledger, token, store);
    signal(elector.pid(), "-CONT");
    assert_eq!(elector.exit_code(), 75);
}

/// The name of a process; empty if it has ended.
fn name(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let living = |name: &str, rest: &str| (!rest.starts_with('Z')).then(|| name.to_owned());
    let named = stat.split_once(" (").and_then(|(_, rest)| rest.rsplit_once(") "));
    named.and_then(|(name, rest)| living(name, rest)).unwrap_or_default()
}

#[test]
fn process_tree_contains_without_privileges() {
    let Some(user) = Stranger::with_uid(65_531) else { return };
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let folder = user.directory("elections", user.uid, 0o700);
    let only = ledger.candidate("a", STUBBORN).directory(&folder).run_by(&user).start();
    let first = ledger.next_token(&[]);
    assert!(only.output().contains("process tree"), "{}", only.output());
    is_dead_in_time(&only, &ledger, first, &Files::at(&folder));
}

#[test]
fn first_process_of_a_namespace_contains_everything() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", STUBBORN).first_of_a_namespace().start();
    let first = ledger.next_token(&[]);
    assert!(only.output().contains("PID namespace"), "{}", only.output());
    let elector = *children(only.pid()).first().expect("unshare has a child");
    let stopped = uptime();
    signal(elector, "-TERM");
    assert_eq!(only.exit_code(), 137);
    ledger.is_silent_within(NOISE);
    assert!(ledger.last(first).saturating_sub(stopped) < Duration::from_secs(1) + NOISE);
}

/// As with `shareProcessNamespace`: a PID namespace does not contain the command, since it has
/// other processes.
#[test]
fn bystander_in_a_shared_namespace_survives() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", STUBBORN).in_a_shared_namespace().start();
    let first = ledger.next_token(&[]);
    assert!(only.output().contains("contained by its process tree"), "{}", only.output());
    let first_process = *children(only.pid()).first().expect("unshare has a child");
    let named = |wanted: &str| {
        children(first_process).into_iter().find(|pid| name(*pid) == wanted).expect("it runs")
    };
    let (elector, bystander) = (named("baton"), named("sleep"));
    signal(elector, "-STOP");
    ledger.is_silent_within(TIMING.renew_deadline + NOISE);
    was_killed_in_time(&ledger, first, &rig.store);
    assert_eq!(name(bystander), "sleep", "the bystander was killed");
    signal(elector, "-CONT");
    assert_eq!(only.exit_code(), 75);
}

/// As `gosu` and `su-exec` do it: the command itself becomes another user.
#[test]
fn command_that_changes_its_user_is_contained() {
    let Some(user) = Stranger::with_uid(65_529) else { return };
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let become_user = format!("setpriv --reuid={0} --regid={0} --clear-groups", user.uid);
    let script =
        format!("{become_user} sh -c \"$NOTE note\" & exec {become_user} sh -c \"$NOTE note\"");
    let only = ledger.candidate("a", &script).start();
    let first = ledger.next_token(&[]);
    is_dead_in_time(&only, &ledger, first, &rig.store);
}

/// Each process forks up to its user's limit, and each failed fork ends a process.
#[test]
fn command_that_forks_without_end_is_contained() {
    let Some(user) = Stranger::with_uid(65_530) else { return };
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let folder = user.directory("elections", user.uid, 0o700);
    let bomb = format!("bomb() {{ while :; do {NOTE_ONCE}; bomb & done; }}; bomb");
    let script = format!("BOMB='{bomb}'; prlimit --nproc=40 sh -c \"$BOMB\" 2> /dev/null & note");
    let only = ledger.candidate("a", &script).directory(&folder).run_by(&user).start();
    let first = ledger.next_token(&[]);
    is_dead_in_time(&only, &ledger, first, &Files::at(&folder));
}

/// The kernel frees the memory of a killed process before the process has ended.
#[test]
fn command_that_holds_a_gibibyte_is_contained() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    // tail keeps the last line in memory, and this line never ends.
    let script = "(head -c 1G /dev/zero; sleep 1000) | tail & note";
    let only = ledger.candidate("a", script).start();
    let first = ledger.next_token(&[]);
    let holds = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kilobytes.is_some_and(|held: u32| held > 1 << 20)
    };
    eventually(10 * NOISE, "the command holds 1 GiB", || ledger.processes().iter().any(holds));
    is_dead_in_time(&only, &ledger, first, &rig.store);
}
