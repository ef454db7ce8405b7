//! The ledger of a command: every process of it notes the time and its fencing token, every few
//! milliseconds.
//!
//! Touches one file and `/proc`. Start with [`Ledger`]. `/proc/uptime` is the clock of all
//! processes: it counts hundredths of seconds since boot.

use super::{Files, NOISE, Rig, Start, Store, eventually, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process;
use std::thread;
use std::time::Duration;

pub(crate) const KILL_AFTER: Duration = Duration::from_secs(1);

/// A process that notes itself until it is killed, or until the command `$LIFELINE` fails.
const NOTE: &str = "note() { while ${LIFELINE:-:}; do read now rest < /proc/uptime; \
                    echo $BATON_TOKEN $now >> $LEDGER; sleep 0.02; done; };";

/// The pause between two attempts to kill what is left.
const KILL_INTERVAL: Duration = Duration::from_millis(10);

/// A tree that resists: it ignores signals, detaches, starts sessions, closes its descriptors,
/// writes into a full pipe, and goes on starting processes.
pub(crate) const STUBBORN: &str = "trap '' TERM HUP INT; note & (note &); \
     setsid sh -c \"$NOTE note\" & \
     (setsid sh -c \"$NOTE note\" & ) ; \
     (exec 0<&- 1>&- 2>&-; note) & \
     (while :; do sleep 1000 & sleep 0.03; done) & \
     (yes | sleep 1000) & \
     note";

/// One line of the ledger: the token, and the time since boot.
type Noted = (u128, Duration);

pub(crate) struct Ledger<'a, S: Store = Files> {
    rig: &'a Rig<S>,
    path: PathBuf,
}

impl<'a, S: Store> Ledger<'a, S> {
    pub(crate) fn new(rig: &'a Rig<S>) -> Self {
        let path = rig.folder().join("ledger");
        fs::write(&path, "").expect("the folder is ours");
        let mut mode = fs::metadata(&path).expect("it was written").permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o666);
        fs::set_permissions(&path, mode).expect("the file is ours");
        Self { rig, path }
    }

    /// A candidate whose command is `script`, which can call `note`.
    pub(crate) fn candidate(&self, name: &str, script: &str) -> Start<'a, S> {
        self.rig
            .candidate(name)
            .flag("--kill-after", format!("{KILL_AFTER:?}"))
            .flag("--stop-timeout", "1s")
            .running(&self.script(script))
    }

    /// The same script for `etcdctl lock`: the revision of the lock is its token. Nothing but the
    /// test supervises it, so it also ends when the test binary has ended.
    pub(crate) fn script_under_lock(&self, script: &str) -> String {
        let tests = process::id();
        let script = self.script(script);
        format!("export BATON_TOKEN=$ETCD_LOCK_REV LIFELINE='test -d /proc/{tests}'; {script}")
    }

    /// `script` with a function `note`, which notes its process.
    pub(crate) fn script(&self, script: &str) -> String {
        let ledger = self.path.display();
        let note = NOTE.replace('\'', "'\\''");
        format!("export LEDGER={ledger} NOTE='{note}'; {NOTE} {script}")
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
    pub(crate) fn next_token(&self, known: &[u128]) -> u128 {
        let takeover = self.rig.timing.lease_duration + self.rig.timing.retry_period;
        let token = wait_for(2 * takeover + NOISE, "a command runs", || {
            self.lines().iter().map(|(token, _)| *token).find(|token| !known.contains(token))
        });
        if known.is_empty() {
            self.rig.wait_for_answers();
        }
        token
    }

    /// When a process under `token` noted itself first.
    pub(crate) fn first(&self, token: u128) -> Duration {
        self.noted(token).into_iter().min().expect("it ran")
    }

    /// When a process under `token` noted itself last.
    pub(crate) fn last(&self, token: u128) -> Duration {
        self.noted(token).into_iter().max().expect("it ran")
    }

    fn noted(&self, token: u128) -> Vec<Duration> {
        self.lines().into_iter().filter(|line| line.0 == token).map(|line| line.1).collect()
    }

    /// Waits until no process of the ledger is left.
    pub(crate) fn is_silent_within(&self, bound: Duration) {
        eventually(bound, "every process has ended", || self.processes().is_empty());
    }

    /// The processes of the commands that live.
    pub(crate) fn processes(&self) -> BTreeSet<i32> {
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
    pub(crate) fn check(&self) {
        let overlap = self.overlap();
        assert!(overlap.is_none(), "{}", overlap.unwrap_or_default());
    }

    /// Whether two commands ran at once, or tokens went back.
    pub(crate) fn overlap(&self) -> Option<String> {
        let mut terms: BTreeMap<u128, (Duration, Duration)> = BTreeMap::new();
        for (token, at) in self.lines() {
            let term = terms.entry(token).or_insert((at, at));
            *term = (term.0.min(at), term.1.max(at));
        }
        let terms: Vec<_> = terms.into_iter().collect();
        let found = terms.windows(2).find(|pair| pair[0].1.1 > pair[1].1.0)?;
        Some(format!("two commands ran at once: {found:?}"))
    }
}

/// Kills what a command has left, so that a failed test leaves nothing behind.
impl<S: Store> Drop for Ledger<'_, S> {
    fn drop(&mut self) {
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            for pid in left.into_iter().filter_map(Pid::from_raw) {
                // One that has just ended needs no signal.
                kill_process(pid, Signal::KILL).ok();
            }
            thread::sleep(KILL_INTERVAL);
        }
    }
}

fn find(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// The time since boot, on the clock of the ledger.
pub(crate) fn uptime() -> Duration {
    let text = fs::read_to_string("/proc/uptime").expect("there is /proc");
    let seconds = text.split(' ').next().and_then(|now| now.parse().ok()).expect("a number");
    Duration::from_secs_f64(seconds)
}
