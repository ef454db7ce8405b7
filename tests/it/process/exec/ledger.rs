//! The ledger of a command: every process of it notes the time and its fencing token, every few
//! milliseconds.
//!
//! Touches one file and `/proc`. Start with [`Ledger`]. `/proc/uptime` is the clock of all
//! processes: it counts hundredths of seconds since boot.

use crate::rig::{NOISE, Rig, Start, Timing, eventually, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const TIMING: Timing = Timing {
    lease_duration: Duration::from_millis(4500),
    renew_deadline: Duration::from_secs(3),
    retry_period: Duration::from_millis(400),
    answer_validity: Duration::from_millis(400),
};
pub(super) const KILL_AFTER: Duration = Duration::from_secs(1);

/// A process that notes itself until it is killed.
const NOTE: &str = "note() { while :; do read now rest < /proc/uptime; \
                    echo $BATON_TOKEN $now >> $LEDGER; sleep 0.02; done; };";

/// A tree that resists: it ignores signals, detaches, starts sessions, closes its descriptors,
/// writes into a full pipe, and goes on starting processes.
pub(super) const STUBBORN: &str = "trap '' TERM HUP INT; note & (note &); \
     setsid sh -c \"$NOTE note\" & \
     (setsid sh -c \"$NOTE note\" & ) ; \
     (exec 0<&- 1>&- 2>&-; note) & \
     (while :; do sleep 1000 & sleep 0.03; done) & \
     (yes | sleep 1000) & \
     note";

/// One line of the ledger: the token, and the time since boot.
type Noted = (u128, Duration);

pub(super) struct Ledger<'a> {
    rig: &'a Rig,
    path: PathBuf,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(rig: &'a Rig) -> Self {
        let path = rig.folder().join("ledger");
        fs::write(&path, "").expect("the folder is ours");
        let mut mode = fs::metadata(&path).expect("it was written").permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o666);
        fs::set_permissions(&path, mode).expect("the file is ours");
        Self { rig, path }
    }

    /// `script` with a function `note`, which notes its process.
    pub(super) fn script(&self, script: &str) -> String {
        let ledger = self.path.display();
        let note = NOTE.replace('\'', "'\\''");
        format!("export LEDGER={ledger} NOTE='{note}'; {NOTE} {script}")
    }

    /// A candidate whose command is `script`, which can call `note`.
    pub(super) fn candidate(&self, name: &str, script: &str) -> Start<'a> {
        self.rig
            .candidate(name)
            .flag("--kill-after", format!("{KILL_AFTER:?}"))
            .flag("--stop-timeout", "1s")
            .running(&self.script(script))
    }

    fn lines(&self) -> Vec<Noted> {
        let text = fs::read_to_string(&self.path).expect("the file is ours");
        let line = |line: &str| {
            let (token, now) = line.split_once(' ')?;
            Some((token.parse().ok()?, Duration::from_secs_f64(now.parse().ok()?)))
        };
        text.lines().filter_map(line).collect()
    }

    /// Waits until a command runs under a token that is not in `known`.
    pub(super) fn next_token(&self, known: &[u128]) -> u128 {
        let takeover = TIMING.lease_duration + TIMING.retry_period;
        let token = wait_for(2 * takeover + NOISE, "a command runs", || {
            self.lines().iter().map(|(token, _)| *token).find(|token| !known.contains(token))
        });
        if known.is_empty() {
            self.rig.wait_for_answers();
        }
        token
    }

    /// When a process under `token` noted itself last.
    pub(super) fn last(&self, token: u128) -> Duration {
        let lines = self.lines();
        lines.iter().filter(|line| line.0 == token).map(|line| line.1).max().expect("it ran")
    }

    /// Waits until no process of the ledger is left.
    pub(super) fn is_silent_within(&self, bound: Duration) {
        eventually(bound, "every process has ended", || self.processes().is_empty());
    }

    /// The processes of the commands that live.
    pub(super) fn processes(&self) -> BTreeSet<i32> {
        let ledger = format!("LEDGER={}", self.path.display());
        let is_ours = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_baton = command.starts_with(b"baton\0") || find(&command, b"/baton\0");
            !is_baton
                && (find(&environment, ledger.as_bytes()) || find(&command, ledger.as_bytes()))
        };
        let all = fs::read_dir("/proc").expect("there is /proc");
        let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).collect()
    }

    /// Fails if two commands ran at once, or if tokens went back.
    pub(super) fn check(&self) {
        let mut terms: BTreeMap<u128, (Duration, Duration)> = BTreeMap::new();
        for (token, at) in self.lines() {
            let term = terms.entry(token).or_insert((at, at));
            *term = (term.0.min(at), term.1.max(at));
        }
        let terms: Vec<_> = terms.into_iter().collect();
        for pair in terms.windows(2) {
            let [(_, (_, ended)), (_, (began, _))] = pair else { unreachable!("two of them") };
            assert!(ended <= began, "two commands ran at once: {terms:?}");
        }
    }
}

fn find(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// The time since boot, on the clock of the ledger.
pub(super) fn uptime() -> Duration {
    let text = fs::read_to_string("/proc/uptime").expect("there is /proc");
    let seconds = text.split(' ').next().and_then(|now| now.parse().ok()).expect("a number");
    Duration::from_secs_f64(seconds)
}
