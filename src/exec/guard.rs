//! The guard: a process that ends the command before the claim does.
//!
//! Touches processes, signals, timers, and its channel to the elector. Start with [`run`]. It has
//! one thread, because a parent-death signal is sent when the thread that created a process ends,
//! and it blocks every signal, because systemd signals the whole control group.

use crate::cli::Guard;
use crate::exec::cgroup::Cgroup;
use crate::exec::channel::{self, Channel, Received};
use crate::exec::messages::{Containment, FromGuard, SpawnFailure, ToGuard};
use crate::exec::process_tree;
use crate::exec::terminal::Terminal;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::process::state_folder::StateLock;
use baton_election::command::{CommandPlan, CommandSignal};
use baton_election::instant::Instant;
use nix::sys::signal::{SigSet, Signal as BlockedSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitStatus, getpid, getppid, kill_process_group};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use rustix::time::{timerfd_create, timerfd_settime};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The link in `/proc/self/ns` to the PID namespace of the whole machine.
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";
/// How often the guard measures how late it runs, and looks for a suspended command.
const TICK: Duration = Duration::from_secs(1);
/// How long to wait for killed processes before the next SIGKILL.
const KILL_PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
/// The exit code of a command that a shell cannot execute.
const CANNOT_EXECUTE: u8 = 126;

/// Runs one command, and returns when no process of it is left.
pub fn run(arguments: &Guard) -> Exit {
    if SigSet::all().thread_block().is_err() {
        return Exit::Fault;
    }
    let Ok(channel) = Channel::from_stdin() else { return Exit::Usage };
    let Some(StartOrder { lock, deadline, stdin }) = StartOrder::receive(&channel) else {
        return Exit::Usage;
    };
    let plan = CommandPlan::start(
        deadline,
        arguments.kill_after.into(),
        arguments.retry_period.into(),
        Clock.now(),
    );
    let answer = match plan {
        None => FromGuard::TooLate,
        Some(plan) => match Running::start(arguments, plan, &stdin) {
            Ok(running) => return running.guard(channel, lock.as_ref()),
            Err(error) => FromGuard::Failed(SpawnFailure {
                message: format!("cannot start the command: {error}"),
                code: CANNOT_EXECUTE,
            }),
        },
    };
    channel.send(&answer, None).ok();
    Exit::Clean
}

/// The order to start the command.
struct StartOrder {
    /// The lock of the state directory. Holding it tells the next run that this one has not ended.
    lock: Option<StateLock>,
    deadline: Instant,
    stdin: OwnedFd,
}

impl StartOrder {
    /// Waits for the order. `None` if any other message arrives.
    fn receive(channel: &Channel) -> Option<Self> {
        let mut lock = None;
        loop {
            match channel.wait::<ToGuard>() {
                Ok(Received::Message(ToGuard::Lock, Some(held))) => {
                    lock = Some(StateLock::from_descriptor(held));
                }
                Ok(Received::Message(ToGuard::Deadline(deadline), Some(stdin))) => {
                    return Some(Self { lock, deadline: deadline.into(), stdin });
                }
                Ok(Received::Message(..) | Received::Nothing | Received::Closed) | Err(_) => {
                    return None;
                }
            }
        }
    }
}

/// The command and what watches it.
struct Running {
    plan: CommandPlan,
    command: Pid,
    /// The channel from the trampoline, until it has become the command.
    trampoline: Option<Channel>,
    failure: Option<SpawnFailure>,
    code: Option<u8>,
    contained: Contained,
    terminal: Option<Terminal>,
    children: SignalFd,
    timer: OwnedFd,
    next_tick: Instant,
    has_told_ending: bool,
}

/// The means by which every process of the command is killed.
enum Contained {
    PidNamespace,
    Cgroup(Cgroup),
    ProcessTree,
}

impl Contained {
    /// The strongest means that is available for `command`, which has started nothing yet.
    fn strongest(command: Pid, owns_namespace: bool) -> Self {
        // A guard whose elector was killed falls to PID 1, which may be that of the whole machine.
        if owns_namespace && getppid() == Some(Pid::INIT) && !is_in_initial_namespace() {
            return Self::PidNamespace;
        }
        let cgroup = Cgroup::create(getpid().as_raw_pid());
        let joined = cgroup.filter(|cgroup| cgroup.add(command.as_raw_pid()).is_ok());
        joined.map_or(Self::ProcessTree, Self::Cgroup)
    }

    const fn kind(&self) -> Containment {
        match self {
            Self::PidNamespace => Containment::PidNamespace,
            Self::Cgroup(_) => Containment::Cgroup,
            Self::ProcessTree => Containment::ProcessTree,
        }
    }

    /// Sends SIGKILL to every process once. New ones may appear meanwhile.
    fn kill(&self) {
        match self {
            // kill(2) with -1 reaches every process but the sender and PID 1.
            Self::PidNamespace => drop(kill_process_group(Pid::INIT, Signal::KILL)),
            Self::Cgroup(cgroup) => drop(cgroup.kill()),
            Self::ProcessTree => {}
        }
        process_tree::signal_descendants(&[Signal::KILL]);
    }
}

/// Whether this is the PID namespace of the whole machine, where `kill(-1)` would reach everything
/// that this user may signal. The kernel gives it a fixed number (`PROC_PID_INIT_INO`).
fn is_in_initial_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid")
        .map_or(true, |link| link == Path::new(INITIAL_NAMESPACE))
}

impl Running {
    fn start(arguments: &Guard, plan: CommandPlan, stdin: &OwnedFd) -> io::Result<Self> {
        process_tree::become_subreaper()?;
        let mut mask = SigSet::empty();
        mask.add(BlockedSignal::SIGCHLD);
        let children = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Boottime,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let terminal = Terminal::in_foreground();
        let (ours, theirs) = channel::pair()?;
        let mut trampoline = Command::new("/proc/self/exe");
        trampoline.arg0("baton");
        trampoline.arg("trampoline").arg("--parent").arg(getpid().as_raw_pid().to_string());
        trampoline.arg("--nice").arg(arguments.nice.to_string());
        if terminal.is_some() {
            trampoline.arg("--terminal");
        }
        trampoline.arg("--").args(&arguments.command).stdin(theirs);
        let child = trampoline.spawn()?;
        drop(trampoline);
        let command = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process ID");
        let contained = Contained::strongest(command, arguments.owns_namespace);
        ours.send(&(), Some(stdin.as_fd()))?;
        Ok(Self {
            plan,
            command,
            trampoline: Some(ours),
            failure: None,
            code: None,
            contained,
            terminal,
            children,
            timer,
            next_tick: Clock.now() + TICK,
            has_told_ending: false,
        })
    }

    /// Guards the command until no process of it is left.
    fn guard(mut self, channel: Channel, lock: Option<&StateLock>) -> Exit {
        let mut elector = Some(channel);
        loop {
            let now = Clock.now();
            self.tick(elector.as_ref(), now);
            self.plan.handle_timeout(now);
            self.signal(elector.as_ref());
            if !self.reap() {
                break;
            }
            self.wait(elector.as_ref());
            self.read_trampoline(elector.as_ref());
            self.read_elector(&mut elector);
        }
        // It may have failed and ended since the last turn.
        self.read_trampoline(elector.as_ref());
        if let Some(terminal) = &self.terminal {
            terminal.take_back();
        }
        let ended = self.failure.take().map_or_else(
            || FromGuard::Ended {
                code: self.code.unwrap_or(CANNOT_EXECUTE),
                lapsed: self.plan.lapses(),
            },
            FromGuard::Failed,
        );
        drop(self);
        match (&elector, lock) {
            (Some(channel), _) => tell(Some(channel), &ended),
            // Nothing else can tell the next run, which otherwise waits for the lease.
            (None, Some(lock)) => drop(lock.set_idle()),
            (None, None) => {}
        }
        Exit::Clean
    }

    /// At each tick, tells the elector how late it is, and looks after the command.
    fn tick(&mut self, elector: Option<&Channel>, now: Instant) {
        if now >= self.next_tick {
            tell(elector, &FromGuard::Late(now.since(self.next_tick)));
            self.next_tick = now + TICK;
            process_tree::continue_stopped_vfork(self.command);
        }
    }

    /// Sends the signals that are due.
    fn signal(&mut self, elector: Option<&Channel>) {
        match self.plan.poll_signal() {
            // A stopped process handles SIGTERM only after it continues.
            Some(CommandSignal::Terminate) => {
                process_tree::signal_descendants(&[Signal::TERM, Signal::CONT]);
            }
            Some(CommandSignal::Kill) | None => {}
        }
        if self.plan.is_killing() {
            self.contained.kill();
        }
        if self.plan.lapses() && !self.has_told_ending {
            self.has_told_ending = true;
            tell(elector, &FromGuard::Ending);
        }
    }

    /// Reaps every process that has ended. Returns whether one is left.
    fn reap(&mut self) -> bool {
        while let Ok(Some(_)) = self.children.read_signal() {}
        let (command, code) = (self.command, &mut self.code);
        let mut is_stopped = false;
        let is_left = process_tree::reap(|pid, status| {
            if pid == command {
                is_stopped = is_to_continue(status);
                *code = code.or_else(|| exit_code(status));
            }
        });
        if is_stopped {
            kill_process_group(self.command, Signal::CONT).ok();
        }
        if self.code.is_some() && is_left {
            self.plan.kill();
            self.contained.kill();
        }
        is_left
    }

    /// Waits for a message, a signal, or a timer.
    fn wait(&self, elector: Option<&Channel>) {
        let due = self.plan.poll_timeout().map_or(self.next_tick, |due| due.min(self.next_tick));
        arm(&self.timer, due);
        let mut watched = vec![
            PollFd::new(&self.children, PollFlags::IN),
            PollFd::new(&self.timer, PollFlags::IN),
        ];
        watched.extend(elector.map(|channel| PollFd::new(channel, PollFlags::IN)));
        watched.extend(self.trampoline.as_ref().map(|channel| PollFd::new(channel, PollFlags::IN)));
        let timeout = self.plan.is_killing().then_some(&KILL_PERIOD);
        // An interrupted wait only costs a turn.
        poll(&mut watched, timeout).ok();
    }

    /// Learns whether the trampoline has become the command.
    fn read_trampoline(&mut self, elector: Option<&Channel>) {
        let Some(trampoline) = &self.trampoline else { return };
        match trampoline.receive::<SpawnFailure>() {
            Ok(Received::Nothing) => return,
            Ok(Received::Message(failure, _)) => self.failure = Some(failure),
            Ok(Received::Closed) | Err(_) => {
                let pid = self.command.as_raw_pid();
                let containment = self.contained.kind();
                tell(elector, &FromGuard::Started { pid, containment });
            }
        }
        self.trampoline = None;
    }

    /// Handles every message of the elector.
    fn read_elector(&mut self, elector: &mut Option<Channel>) {
        while let Some(channel) = elector {
            let received = channel.receive::<ToGuard>();
            let now = Clock.now();
            match received {
                Ok(Received::Nothing) => return,
                Ok(Received::Message(ToGuard::Deadline(deadline), _)) => {
                    self.plan.extend(deadline.into(), now);
                }
                Ok(Received::Message(ToGuard::Stop(timeout), _)) => self.plan.stop(timeout, now),
                Ok(Received::Message(ToGuard::Kill, _)) => self.plan.kill(),
                Ok(Received::Message(ToGuard::Lock, _)) => {}
                Ok(Received::Closed) | Err(_) => {
                    self.plan.lose_elector(now);
                    *elector = None;
                }
            }
        }
    }
}

/// Whether a stopped process must continue: Ctrl-Z would leave a leader that does nothing. A
/// process in the background that uses the terminal would only stop again.
fn is_to_continue(status: WaitStatus) -> bool {
    let background = [Signal::TTIN, Signal::TTOU].map(|signal| Some(signal.as_raw()));
    status.stopped() && !background.contains(&status.stopping_signal())
}

/// Tells the elector, if it lives. If it does not read, the guard goes on without it.
fn tell(elector: Option<&Channel>, message: &FromGuard) {
    if let Some(channel) = elector {
        channel.send(message, None).ok();
    }
}

/// Makes `timer` expire at `due`. It counts the time that the machine is suspended.
fn arm(timer: &OwnedFd, due: Instant) {
    let due = due.elapsed_since_boot();
    let value = Timespec {
        tv_sec: i64::try_from(due.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: due.subsec_nanos().into(),
    };
    let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    let timespec = Itimerspec { it_interval: interval, it_value: value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &timespec).expect("a valid timer");
}

/// The exit code that a shell would give; `None` if the process lives.
fn exit_code(status: WaitStatus) -> Option<u8> {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => return None,
    };
    u8::try_from(code).ok()
}
