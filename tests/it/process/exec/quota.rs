//! A command that uses up a CPU quota, which it shares with its elector and its guard.
//!
//! Start with the only case. The quota is that of the cgroup's parent: a systemd unit has its own
//! cgroup, and its slice may have the quota.

use super::signal;
use crate::noise::{Assumption, assume};
use crate::rig::{Candidate, CpuQuota, ELECTION, Files, Ledger, Rig, STUBBORN, Store as _, Timing};
use crate::rig::{eventually, uptime, wait_for};
use std::str::FromStr;
use std::time::Duration;
use ureq::Agent;

/// The default durations.
const TIMING: Timing = Timing::of_ms(15_000, 10_000, 2000, 2000);

/// The command loads the machine, and a guard without a processor is the point.
const STILL_AWAKE: &[Assumption] = &[Assumption::LosesAtMost(Duration::from_millis(1500))];

const PATIENCE: Duration = Duration::from_secs(90);

/// How late a guard may be under this quota, and how long the killed processes may take to end.
const LATENESS: Duration = Duration::from_secs(3);

/// How long after a renewal the command is killed: 500 ms before the claim ends.
const KILLED_AFTER: Duration = Duration::from_millis(9500);

/// Competes with the guard for the quota.
const BUSY: &str = "for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do while :; do :; done & done;";

/// The lateness of the guard, as its elector has counted it.
struct Lateness {
    count: usize,
    /// How many of them are to be logged: 250 ms or more.
    logged: usize,
    sum: f64,
}

impl Lateness {
    fn of(candidate: &Candidate) -> Self {
        // The elector shares the quota, too.
        let config = Agent::config_builder().proxy(None).timeout_global(Some(PATIENCE));
        let request = Agent::new_with_config(config.build());
        let answer = request.get(format!("http://{}/metrics", candidate.probe_listen)).call();
        let text = answer.expect("it answers").body_mut().read_to_string().expect("it is text");
        let (count, below) = (value(&text, "count", ""), value(&text, "bucket", ",le=\"0.25\""));
        let logged = usize::saturating_sub(count, below);
        Self { count, logged, sum: value(&text, "sum", "") }
    }
}

fn value<T: FromStr>(metrics: &str, name: &str, label: &str) -> T {
    let series = format!("baton_guard_lateness_seconds_{name}{{election=\"{ELECTION}\"{label}}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok());
    line.unwrap_or_else(|| panic!("{series} is missing: {metrics}"))
}

#[test]
fn late_guard_is_reported_and_still_kills() {
    assume(STILL_AWAKE);
    let Some(quota) = CpuQuota::tenth() else { return };
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let script = format!("{BUSY} {STUBBORN}");
    let only = ledger.candidate("a", &script).flag("--kill-after", "2s").under(&quota).start();
    let warned = wait_for(PATIENCE, "it warns", || only.events("cpu_quota").pop());
    let message = warned["message"].as_str().unwrap_or_default();
    assert!(message.contains("the CPU quota is 0.10 processors"), "{message}");

    let first = ledger.next_token(&[]);
    let logged = || only.events("guard_late").len();
    eventually(PATIENCE, "the guard is late", || logged() > 0);
    let lateness = wait_for(PATIENCE, "what is logged is counted", || {
        let before = logged();
        let lateness = Lateness::of(&only);
        (before == lateness.logged && logged() == before).then_some(lateness)
    });
    assert!(lateness.sum >= 0.25, "one was 250 ms late, and all {} s", lateness.sum);

    signal(only.pid(), "-STOP");
    ledger.is_silent_within(TIMING.renew_deadline + LATENESS);
    let age = rig.store.written(ELECTION).elapsed().expect("the write is in the past");
    let ran_on = ledger.last(first).saturating_sub(uptime().saturating_sub(age));
    println!(
        "{} of {} timers were 250 ms late, and all {:.1} s; the command ended {ran_on:?} after the \
         last renewal",
        lateness.logged, lateness.count, lateness.sum
    );
    assert!(ran_on < KILLED_AFTER + LATENESS, "it ran for {ran_on:?} after the last renewal");
    signal(only.pid(), "-CONT");
    assert_eq!(only.exit_code(), 75);
}
