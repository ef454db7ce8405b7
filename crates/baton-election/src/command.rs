//! When a command that may run only while its candidate leads receives a signal.
//!
//! Pure. Start with [`CommandPlan`]. A guard process runs it beside the command, on its own clock,
//! so that the command ends in time even if the elector hangs.
//!
//! ```text
//!              stop                      D − grace
//!  Running ───────────► Stopping ─────────────────────► Ending ──── D − margin ──► Killing
//!     │     SIGTERM        │  │                            ▲      or grace is over   ▲
//!     │                    │  └── timeout of the stop ──────────────────────────────┤
//!     ├────────────────── D − grace, or the elector is gone: SIGTERM ──┘             │
//!     └────────────────── the claim ended early, or a second request ────────────────┘
//! ```

use crate::instant::Instant;
use std::time::Duration;

/// How long before the deadline everything is killed: enough for a busy machine to schedule the
/// guard, deliver the signal, and reap.
pub const KILL_MARGIN: Duration = Duration::from_millis(500);

/// A signal to every process of the command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CommandSignal {
    /// SIGTERM.
    Terminate,
    /// SIGKILL, repeated until no process is left.
    Kill,
}

/// Decides when to signal a command that runs under one claim.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CommandPlan {
    deadline: Instant,
    grace: Duration,
    stage: Stage,
    lapses: bool,
    due: Option<CommandSignal>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    Running,
    /// SIGTERM was sent on request, while the claim is still renewed.
    Stopping {
        kill_at: Instant,
    },
    /// SIGTERM was sent because leadership ends. That is final: no later deadline counts.
    Ending {
        kill_at: Instant,
    },
    Killing,
}

impl CommandPlan {
    /// The plan for a command that starts at `now` under a claim until `deadline`. `grace` is the
    /// time between SIGTERM and the deadline, at least [`KILL_MARGIN`].
    ///
    /// Returns `None` if the command would be stopped before the claim could be renewed: less than
    /// `grace` and `retry_period` are left.
    pub fn start(
        deadline: Instant,
        grace: Duration,
        retry_period: Duration,
        now: Instant,
    ) -> Option<Self> {
        let grace = grace.max(KILL_MARGIN);
        let is_long_enough = deadline.since(now) >= grace.saturating_add(retry_period);
        let stage = Stage::Running;
        is_long_enough.then_some(Self { deadline, grace, stage, lapses: false, due: None })
    }

    /// The claim was renewed until `deadline`. Changes nothing once leadership ends.
    pub fn extend(&mut self, deadline: Instant, now: Instant) {
        self.handle_timeout(now);
        match self.stage {
            Stage::Running | Stage::Stopping { .. } => {
                self.deadline = self.deadline.max(deadline);
            }
            Stage::Ending { .. } | Stage::Killing => {}
        }
    }

    /// The command must stop within `timeout`, while the claim is renewed.
    pub fn stop(&mut self, timeout: Duration, now: Instant) {
        self.handle_timeout(now);
        if self.stage == Stage::Running {
            self.stage = Stage::Stopping { kill_at: now + timeout };
            self.due = Some(CommandSignal::Terminate);
        }
    }

    /// The elector is gone: nothing renews the claim, and nothing releases it.
    pub fn lose_elector(&mut self, now: Instant) {
        self.handle_timeout(now);
        match self.stage {
            Stage::Running => self.end(now),
            Stage::Stopping { kill_at } => {
                self.lapses = true;
                self.stage = Stage::Ending { kill_at: kill_at.min(now + self.grace) };
            }
            Stage::Ending { .. } | Stage::Killing => {}
        }
    }

    /// Kills at once: the claim ended early, or the operator asked again.
    pub fn kill(&mut self) {
        if self.stage != Stage::Killing {
            self.stage = Stage::Killing;
            self.due = Some(CommandSignal::Kill);
        }
    }

    /// Advances to `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let ending_at = before(self.deadline, self.grace);
        match self.stage {
            Stage::Running if ending_at <= now => self.end(now),
            Stage::Stopping { kill_at } if ending_at <= now => {
                self.lapses = true;
                self.stage = Stage::Ending { kill_at };
            }
            Stage::Running | Stage::Stopping { .. } | Stage::Ending { .. } | Stage::Killing => {}
        }
        if self.kill_at().is_some_and(|kill_at| kill_at <= now) {
            self.kill();
        }
    }

    /// When to call [`Self::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let ending_at = match self.stage {
            Stage::Running | Stage::Stopping { .. } => Some(before(self.deadline, self.grace)),
            Stage::Ending { .. } | Stage::Killing => None,
        };
        ending_at.into_iter().chain(self.kill_at()).min()
    }

    /// The next signal to send.
    pub fn poll_signal(&mut self) -> Option<CommandSignal> {
        self.due.take()
    }

    /// Whether the command is stopped because leadership ends, so that its work may be incomplete
    /// whatever it returns.
    pub const fn lapses(&self) -> bool {
        self.lapses
    }

    /// Whether everything must be killed until nothing is left.
    pub fn is_killing(&self) -> bool {
        self.stage == Stage::Killing
    }

    fn end(&mut self, now: Instant) {
        self.lapses = true;
        self.stage = Stage::Ending { kill_at: now + self.grace };
        self.due = Some(CommandSignal::Terminate);
    }

    fn kill_at(&self) -> Option<Instant> {
        let latest = before(self.deadline, KILL_MARGIN);
        match self.stage {
            Stage::Running => Some(latest),
            Stage::Stopping { kill_at } | Stage::Ending { kill_at } => Some(latest.min(kill_at)),
            Stage::Killing => None,
        }
    }
}

/// The instant `duration` before `instant`.
fn before(instant: Instant, duration: Duration) -> Instant {
    Instant::since_boot(instant.elapsed_since_boot().saturating_sub(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);
    const RETRY: Duration = Duration::from_secs(2);

    fn at(milliseconds: u64) -> Instant {
        Instant::since_boot(Duration::from_millis(milliseconds))
    }

    fn running() -> CommandPlan {
        CommandPlan::start(at(10_000), GRACE, RETRY, at(0)).unwrap()
    }

    /// Advances timeout by timeout until `until`, and returns each signal with its instant.
    fn signals(plan: &mut CommandPlan, until: Instant) -> Vec<(Instant, CommandSignal)> {
        let mut sent = Vec::new();
        let mut now = at(0);
        loop {
            plan.handle_timeout(now);
            sent.extend(plan.poll_signal().map(|signal| (now, signal)));
            match plan.poll_timeout() {
                Some(due) if due <= until => now = due.max(now),
                Some(_) | None => return sent,
            }
        }
    }

    #[test]
    fn lapse_terminates_and_then_kills_before_the_deadline() {
        let expected = [(at(8_000), CommandSignal::Terminate), (at(9_500), CommandSignal::Kill)];
        assert_eq!(signals(&mut running(), at(20_000)), expected);
    }

    #[test]
    fn renewal_moves_the_signals() {
        let mut plan = running();
        plan.extend(at(12_000), at(2_000));
        assert_eq!(signals(&mut plan, at(9_999)), []);
        assert_eq!(signals(&mut plan, at(10_000)), [(at(10_000), CommandSignal::Terminate)]);
    }

    #[test]
    fn renewal_after_the_last_warning_changes_nothing() {
        let mut plan = running();
        // The guard was late: the renewal arrives before it has handled the timeout.
        plan.extend(at(12_000), at(8_000));
        assert_eq!(plan.poll_signal(), Some(CommandSignal::Terminate));
        assert!(plan.lapses());
        assert_eq!(signals(&mut plan, at(20_000)), [(at(9_500), CommandSignal::Kill)]);
    }

    #[test]
    fn earlier_deadline_never_counts() {
        let mut plan = running();
        plan.extend(at(7_000), at(1_000));
        assert_eq!(plan.poll_timeout(), Some(at(8_000)));
    }

    #[test]
    fn stop_on_request_ends_by_its_timeout_while_renewed() {
        let mut plan = running();
        plan.stop(Duration::from_secs(20), at(1_000));
        assert_eq!(plan.poll_signal(), Some(CommandSignal::Terminate));
        plan.extend(at(40_000), at(2_000));
        assert_eq!(signals(&mut plan, at(30_000)), [(at(21_000), CommandSignal::Kill)]);
        assert!(!plan.lapses());
    }

    #[test]
    fn stop_that_nothing_renews_ends_before_the_deadline() {
        let mut plan = running();
        plan.stop(Duration::from_secs(20), at(1_000));
        plan.poll_signal();
        plan.handle_timeout(at(8_000));
        assert!(plan.lapses(), "its exit code does not count any more");
        assert_eq!(signals(&mut plan, at(20_000)), [(at(9_500), CommandSignal::Kill)]);
    }

    #[test]
    fn lost_elector_terminates_at_once() {
        let mut plan = running();
        plan.lose_elector(at(1_000));
        assert_eq!(plan.poll_signal(), Some(CommandSignal::Terminate));
        assert!(plan.lapses());
        assert_eq!(signals(&mut plan, at(20_000)), [(at(3_000), CommandSignal::Kill)]);
        let mut late = running();
        late.lose_elector(at(7_900));
        late.poll_signal();
        assert_eq!(signals(&mut late, at(20_000)), [(at(9_500), CommandSignal::Kill)]);
    }

    #[test]
    fn early_end_kills_once_and_at_once() {
        let mut plan = running();
        plan.kill();
        plan.kill();
        assert_eq!(plan.poll_signal(), Some(CommandSignal::Kill));
        assert_eq!((plan.poll_signal(), plan.poll_timeout()), (None, None));
        assert!(plan.is_killing());
    }

    #[test]
    fn command_starts_only_with_time_for_a_renewal() {
        let start = |deadline| CommandPlan::start(at(deadline), GRACE, RETRY, at(0));
        assert!(start(3_999).is_none());
        assert!(start(4_000).is_some());
    }
}
