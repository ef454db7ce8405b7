//! The elector's side: starts a guard for each term, and keeps it informed.
//!
//! Touches the guard's process and channel, and the election through [`Reader`] and [`Control`].
//! Start with [`Runner::run`]. A promise is recorded before the guard hears of the deadline.

use crate::config::{ExecConfig, OnLost};
use crate::driver::Control;
use crate::driver::leadership::Reader;
use crate::exec::cgroup::Cgroup;
use crate::exec::channel::{self, Channel, Received};
use crate::exec::messages::{Containment, FromGuard, ToGuard};
use crate::exec::process_tree;
use crate::exec::terminal::Terminal;
use crate::process::children::AwaitedChild;
use crate::process::clock::Clock;
use crate::process::state_folder::StateLock;
use crate::telemetry::command_reporter::CommandReporter;
use baton_election::claim::FencingToken;
use baton_election::instant::Instant;
use baton_election::leadership::Loan;
use baton_election::withdrawals::Order;
use rustix::process::{Pid, Signal};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::watch;

/// How long before the deadline the elector kills everything itself, if the guard has not.
const GUARD_OVERDUE: Duration = Duration::from_millis(250);
/// How long to wait for killed processes before the next SIGKILL.
const KILL_PERIOD: Duration = Duration::from_millis(2);

/// Runs the command in every term of this candidate.
#[derive(Debug)]
pub struct Runner {
    /// The command.
    pub config: ExecConfig,
    /// The retry period of the election.
    pub retry_period: Duration,
    /// The reaction to a term that ends before the command does.
    pub on_lost: OnLost,
    /// Variables for the command besides the token.
    pub variables: Vec<(&'static str, String)>,
    /// The standing of the candidate.
    pub reader: Reader,
    /// Gives orders to the driver.
    pub control: Control,
    /// The lock of the state directory, if there is one. The guard holds it too.
    pub lock: Option<StateLock>,
    /// Logs and counts.
    pub reporter: CommandReporter,
    /// Whether the process stops.
    pub phase: watch::Receiver<Phase>,
}

/// Whether the process stops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// It takes part in the election.
    Running,
    /// It stops cleanly, so the exit code of the command is its own.
    Stopping,
    /// The command must be killed, and none started any more.
    Ending,
}

/// How the last command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandEnd {
    /// There was no command.
    NeverRan,
    /// It ended by itself, or because it was asked to.
    Ended {
        /// Its exit code, as a shell would give it.
        code: u8,
        /// Whether it ended so soon that starting it again at once would be a loop.
        was_short: bool,
        /// Whether it was asked to stop.
        was_asked: bool,
    },
    /// It was stopped because leadership was ending, so its work may be incomplete.
    Lapsed,
    /// The guard ended first, and everything was killed.
    GuardLost,
}

/// A guard and its command.
struct Guarded {
    process: AwaitedChild,
    channel: Channel,
    /// Tells when the channel has a message.
    readiness: UnixStream,
    token: FencingToken,
    /// The last deadline that the guard was told.
    deadline: Instant,
    /// When the command started.
    started: Option<(Instant, i32)>,
    /// Whether the command may have the terminal.
    has_terminal: bool,
    /// How the command is contained, once it has started.
    containment: Option<Containment>,
    was_asked: bool,
    was_killed: bool,
}

/// The result of one guard.
enum Round {
    TooLate,
    Over(CommandEnd),
}

impl Runner {
    /// Runs the command until it ends by itself, or until leadership ends and the process with it.
    pub async fn run(mut self) -> CommandEnd {
        let mut last = CommandEnd::NeverRan;
        let mut earliest = None;
        while let Some(loan) = self.next_loan(earliest).await {
            let deadline = loan.claim.deadline();
            let round = match self.start(loan) {
                Ok(guarded) => self.supervise(guarded).await,
                Err(error) => {
                    self.reporter.cannot_start(&format!("cannot start the guard: {error}"));
                    Round::Over(CommandEnd::GuardLost)
                }
            };
            self.reader.end_loan();
            // If the driver has ended, nothing waits for the promises.
            self.control.promises_voided().await.ok();
            match round {
                Round::TooLate => earliest = Some(deadline),
                Round::Over(end) => {
                    if !self.runs_again(end) {
                        return end;
                    }
                    // The end of an earlier term says nothing about the end of the process.
                    let is_last = *self.phase.borrow() != Phase::Running;
                    (last, earliest) = (if is_last { end } else { CommandEnd::NeverRan }, None);
                }
            }
        }
        last
    }

    /// Whether the next term runs the command again.
    fn runs_again(&self, end: CommandEnd) -> bool {
        match end {
            CommandEnd::NeverRan => true,
            CommandEnd::Ended { was_asked, .. } => was_asked,
            CommandEnd::Lapsed => self.on_lost == OnLost::Stay,
            CommandEnd::GuardLost => false,
        }
    }

    /// Waits for a claim, with a deadline after `later_than` if one is given. `None` when no command
    /// may start any more.
    async fn next_loan(&mut self, later_than: Option<Instant>) -> Option<Loan> {
        loop {
            let changed = self.reader.next_claim_change();
            if *self.phase.borrow_and_update() == Phase::Ending {
                return None;
            }
            let is_new = |loan: &Loan| later_than.is_none_or(|than| loan.claim.deadline() > than);
            match self.reader.lend(Clock.now()).filter(is_new) {
                Some(loan) => return Some(loan),
                None => self.reader.end_loan(),
            }
            tokio::select! {
                () = changed => {}
                changed = self.phase.changed() => changed.ok()?,
            }
        }
    }

    fn start(&self, loan: Loan) -> io::Result<Guarded> {
        let (ours, theirs) = channel::pair()?;
        let mut guard = Command::new("/proc/self/exe");
        guard.arg0("baton");
        let milliseconds = |duration: Duration| format!("{}ms", duration.as_millis());
        guard.arg("guard").arg("--kill-after").arg(milliseconds(self.config.kill_after));
        guard.arg("--retry-period").arg(milliseconds(self.retry_period));
        guard.arg("--nice").arg(self.config.nice.to_string());
        if rustix::process::getpid() == Pid::INIT {
            guard.arg("--owns-namespace");
        }
        guard.arg("--").args(&self.config.command).stdin(theirs);
        guard.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        guard.env("BATON_TOKEN", loan.claim.token().to_string());
        let has_terminal = Terminal::in_foreground().is_some();
        let process = AwaitedChild::spawn(&mut guard)?;
        drop(guard);
        let deadline = loan.claim.deadline();
        if let Some(lock) = &self.lock {
            ours.send(&ToGuard::Lock, Some(lock.as_fd()))?;
        }
        ours.send(&ToGuard::Deadline(deadline.into()), Some(io::stdin().as_fd()))?;
        Ok(Guarded {
            process,
            readiness: ours.readiness()?,
            channel: ours,
            token: loan.claim.token(),
            deadline,
            started: None,
            has_terminal,
            containment: None,
            was_asked: false,
            was_killed: false,
        })
    }

    /// Keeps the guard informed until it has ended.
    async fn supervise(&mut self, mut guarded: Guarded) -> Round {
        loop {
            let changed = self.reader.next_claim_change();
            if guarded.inform(self.reader.lend(Clock.now()), &self.config).is_err()
                || (*self.phase.borrow_and_update() == Phase::Ending && guarded.kill().is_err())
            {
                return self.guard_lost(guarded).await;
            }
            let overdue = guarded.deadline.elapsed_since_boot().saturating_sub(GUARD_OVERDUE);
            tokio::select! {
                // Messages come first: after a pause, the guard may have ended in time.
                biased;
                message = guarded.next_message() => match message {
                    Some(message) => if let Some(round) = self.handle(&mut guarded, message).await {
                        // It has sent its last message.
                        guarded.process.wait().ok();
                        return round;
                    },
                    None => return self.guard_lost(guarded).await,
                },
                () = changed => {}
                // An error means that the supervisor has gone, and the guard ends with the process.
                changed = self.phase.changed() => if changed.is_err() {
                    return self.guard_lost(guarded).await;
                },
                () = Clock.sleep_until(Instant::since_boot(overdue)) => {
                    return self.guard_lost(guarded).await;
                }
            }
        }
    }

    /// Handles a message of the guard. Returns the result after its last one.
    async fn handle(&self, guarded: &mut Guarded, message: FromGuard) -> Option<Round> {
        match message {
            FromGuard::TooLate => return Some(Round::TooLate),
            FromGuard::Started { pid, containment } => {
                guarded.started = Some((Clock.now(), pid));
                guarded.containment = Some(containment);
                self.reporter.started(guarded.token, pid, containment);
            }
            FromGuard::Failed(failure) => {
                self.reporter.cannot_start(&failure.message);
                let (code, was_asked) = (failure.code, false);
                return Some(Round::Over(CommandEnd::Ended { code, was_short: true, was_asked }));
            }
            FromGuard::Ending if guarded.was_asked => {}
            FromGuard::Ending => self.withdraw().await,
            FromGuard::Late(late) => self.reporter.late(late),
            FromGuard::Ended { code, lapsed } => {
                self.reporter.ended(
                    guarded.token,
                    guarded.started.map(|(_, pid)| pid),
                    code,
                    lapsed,
                );
                let ran = guarded.started.map(|(started, _)| Clock.now().since(started));
                let was_short = ran.is_none_or(|ran| ran < self.retry_period);
                let was_asked = guarded.was_asked || guarded.was_killed;
                return Some(Round::Over(if lapsed {
                    CommandEnd::Lapsed
                } else {
                    CommandEnd::Ended { code, was_short, was_asked }
                }));
            }
        }
        None
    }

    /// Withdraws, so that no promise is made any more. A driver that has ended makes none either.
    async fn withdraw(&self) {
        let mut phase = self.phase.clone();
        let order = Order::Resign { hold_off: Duration::ZERO };
        tokio::select! {
            withdrawn = self.control.withdraw(order) => drop(withdrawn),
            _ = phase.wait_for(|phase| *phase == Phase::Ending) => {}
        }
    }

    /// Kills everything that falls to this process without its guard, until the claim ends.
    async fn guard_lost(&self, mut guarded: Guarded) -> Round {
        self.reporter.guard_lost(guarded.token);
        guarded.process.kill().ok();
        loop {
            if let Some(cgroup) = guarded.left_cgroup() {
                // It may hold processes that this one may not signal.
                cgroup.kill().ok();
            }
            process_tree::signal_descendants(&[Signal::KILL]);
            if !process_tree::reap(|_, _| {}) || Clock.now() >= guarded.deadline {
                break;
            }
            tokio::time::sleep(KILL_PERIOD).await;
        }
        // Nothing is in it any more, so this removes it.
        drop(guarded.left_cgroup());
        if guarded.has_terminal {
            Terminal::restore_to_own_group();
        }
        Round::Over(CommandEnd::GuardLost)
    }
}

impl Guarded {
    /// Tells the guard what follows from `loan`. An error means that it does not listen any more.
    fn inform(&mut self, loan: Option<Loan>, config: &ExecConfig) -> io::Result<()> {
        let Some(loan) = loan.filter(|loan| loan.claim.token() == self.token) else {
            return self.kill();
        };
        if loan.claim.deadline() > self.deadline {
            self.deadline = loan.claim.deadline();
            self.send(ToGuard::Deadline(self.deadline.into()))?;
        }
        if loan.is_withdrawn && !self.was_asked {
            self.was_asked = true;
            self.send(ToGuard::Stop(config.stop_timeout))?;
        }
        Ok(())
    }

    /// The cgroup that the guard has left. Only its own: a guard with this number in another PID
    /// namespace may have made one of the same name.
    fn left_cgroup(&self) -> Option<Cgroup> {
        self.containment.filter(|containment| *containment == Containment::Cgroup)?;
        Cgroup::left_by(self.process.pid())
    }

    fn kill(&mut self) -> io::Result<()> {
        if self.was_killed {
            return Ok(());
        }
        self.was_killed = true;
        self.send(ToGuard::Kill)
    }

    /// Sends a message. A guard that has ended is no error: its last message is read next.
    fn send(&self, message: ToGuard) -> io::Result<()> {
        match self.channel.send(&message, None) {
            Err(error) if has_ended(&error) => Ok(()),
            sent => sent,
        }
    }

    /// The next message; `None` if the guard is gone.
    async fn next_message(&self) -> Option<FromGuard> {
        let receive = || match self.channel.receive()? {
            Received::Message(message, _) => Ok(Some(message)),
            Received::Nothing => Err(io::ErrorKind::WouldBlock.into()),
            Received::Closed => Ok(None),
        };
        // After a pause of this process, tokio may notice a timer before it notices the channel.
        let mut received: io::Result<_> = receive();
        loop {
            match received {
                Ok(received) => return received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
            self.readiness.readable().await.ok()?;
            received = self.readiness.try_io(Interest::READABLE, receive);
        }
    }
}

/// Whether sending failed because the guard has ended.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
