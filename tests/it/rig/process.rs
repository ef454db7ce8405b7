//! One process under test: its output, its signals, its end. It never outlives the test.

use super::history::{Journal, Moment, eventually, wait_for};
use super::{lock, starter};
use crate::noise::never_excuse;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the kernel may take to stop or reap a process. Closing an inotify waits for a grace
/// period of the whole machine; three seconds were measured. So tests time a process by its logs
/// and writes, not by its end.
const REAP: Duration = Duration::from_secs(15);

pub(crate) struct Process {
    /// Its name in the timeline: unique in a rig, even if a candidate restarts under its name.
    pub(crate) label: String,
    pid: Pid,
    journal: Arc<Journal>,
    running: Mutex<Running>,
    /// Whether the test has read the exit code; every test must.
    end_expected: AtomicBool,
    /// Every signal that the test has sent.
    signals: Mutex<Vec<Signal>>,
}

struct Running {
    child: Child,
    output: Option<JoinHandle<()>>,
    end: Option<End>,
}

#[derive(Clone, Copy)]
pub(crate) struct End {
    /// As a shell reports it: 128 plus the signal number if a signal ended the process.
    pub(crate) code: i32,
    pub(crate) seen: Moment,
}

impl Process {
    /// Starts a [`starter::mortal`] command.
    pub(crate) fn spawn(name: &str, mut command: Command, journal: &Arc<Journal>) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = starter::start(command);
        let label = format!("{name}[{}]", child.id());
        let errors = child.stderr.take().expect("it is piped");
        Self {
            pid: Pid::from_child(&child),
            running: Mutex::new(Running {
                child,
                output: Some(journal.follow(&label, errors)),
                end: None,
            }),
            journal: Arc::clone(journal),
            end_expected: AtomicBool::new(false),
            signals: Mutex::default(),
            label,
        }
    }

    /// Sends SIGKILL and waits for the end. Returns the moment before the signal.
    pub(crate) fn kill(&self) -> Moment {
        let before = self.signal(Signal::KILL);
        assert_eq!(self.exit_code(), 128 + 9);
        before
    }

    /// Sends SIGTERM, as kubelet does. Returns the moment before it.
    pub(crate) fn terminate(&self) -> Moment {
        self.signal(Signal::TERM)
    }

    /// Sends SIGINT, as Ctrl-C does. Returns the moment before it.
    pub(crate) fn interrupt(&self) -> Moment {
        self.signal(Signal::INT)
    }

    /// Sends SIGHUP, as a closing terminal does. Returns the moment before it.
    pub(crate) fn hang_up(&self) -> Moment {
        self.signal(Signal::HUP)
    }

    /// Sends SIGSTOP. Returns a moment at which every thread has stopped.
    pub(crate) fn pause(&self) -> Moment {
        self.signal(Signal::STOP);
        eventually(REAP, "every thread has stopped", || self.is_stopped());
        self.journal.clock.now()
    }

    /// Sends SIGCONT. Returns the moment before it.
    pub(crate) fn resume(&self) -> Moment {
        self.signal(Signal::CONT)
    }

    /// Waits until it logs that it lost its term for this reason.
    #[track_caller]
    pub(crate) fn loses(&self, within: Duration, reason: &str) {
        let what = format!("{} loses its term", self.label);
        let lost = wait_for(within, &what, || self.events("lost").pop());
        assert_eq!(lost["reason"], reason);
    }

    /// Waits for its end and returns the exit code.
    #[track_caller]
    pub(crate) fn exit_code(&self) -> i32 {
        let what = format!("{} ends", self.label);
        let end = wait_for(REAP, &what, || self.ended());
        self.end_expected.store(true, Ordering::Relaxed);
        end.code
    }

    /// How it ended, or `None` while it runs. After the end, its whole output is in the journal.
    pub(crate) fn ended(&self) -> Option<End> {
        let mut running = lock(&self.running);
        if running.end.is_none() {
            let status = running.child.try_wait().expect("it is our child")?;
            let code =
                status.code().or_else(|| Some(128 + status.signal()?)).expect("it has ended");
            let seen = self.journal.note(&self.label, format!("ended with {code}"));
            running.end = Some(End { code, seen });
            if let Some(output) = running.output.take() {
                let what = format!("every process that has the output of {} ends", self.label);
                eventually(REAP, &what, || output.is_finished());
                output.join().expect("reading lines does not panic");
            }
        }
        running.end
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.ended().is_none()
    }

    /// Its exit code, if it has ended; an error if neither a delay nor a signal of the test explains
    /// that code.
    pub(crate) fn explained_end(&self) -> Option<Result<i32, String>> {
        let code = self.ended()?.code;
        self.end_expected.store(true, Ordering::Relaxed);
        let is_explained = is_explained(code, &lock(&self.signals));
        Some(if is_explained { Ok(code) } else { Err(format!("{} ended with {code}", self.label)) })
    }

    /// Describes an end that no test expected. Unless a delay explains it, no noise excuses it.
    pub(crate) fn unexpected_end(&self) -> Option<String> {
        let end = self.ended().filter(|_| !self.end_expected.load(Ordering::Relaxed))?;
        if !is_explained(end.code, &lock(&self.signals)) {
            never_excuse();
        }
        Some(format!("{} ended with {}, which no test expected", self.label, end.code))
    }

    /// Kills it if it is running.
    pub(crate) fn ensure_killed(&self) {
        let mut running = lock(&self.running);
        running.child.kill().expect("it is our child");
        running.child.wait().expect("it is our child");
    }

    /// Its standard error.
    pub(crate) fn output(&self) -> String {
        self.journal.text(&self.label)
    }

    /// When it first logged this event, if it did.
    pub(crate) fn first_logged(&self, event: &str) -> Option<Moment> {
        self.journal.first_logged(&self.label, event)
    }

    /// The log lines with this event.
    pub(crate) fn events(&self, event: &str) -> Vec<Value> {
        self.journal.events(&self.label, event)
    }

    /// The processor time that it has used.
    pub(crate) fn processor_time(&self) -> Duration {
        processor_time(self.pid())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Sends a signal unless it has ended. Returns the moment before it.
    pub(crate) fn try_signal(&self, signal: Signal) -> Option<Moment> {
        // Under this lock the process is not reaped, so its PID is not reused.
        let running = lock(&self.running);
        if running.end.is_some() {
            return None;
        }
        let before = self.journal.note(&self.label, format!("receives {signal:?}"));
        lock(&self.signals).push(signal);
        kill_process(self.pid, signal).expect("it is not reaped");
        Some(before)
    }

    fn signal(&self, signal: Signal) -> Moment {
        let sent = self.try_signal(signal);
        sent.unwrap_or_else(|| panic!("{} ended before it received {signal:?}", self.label))
    }

    /// Whether every thread has stopped: SIGSTOP reaches them one by one.
    fn is_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it is alive");
        let mut states = tasks.flatten().map(|task| {
            let id = task.file_name().into_string().expect("a number");
            proc_fields(self.pid(), &format!("task/{id}/stat")).swap_remove(0)
        });
        states.all(|state| state == "T")
    }
}

/// Whether a slow machine or a signal of the test explains this exit code of a sidecar.
fn is_explained(code: i32, sent: &[Signal]) -> bool {
    match code {
        // A claim expired, or refusals lasted a lease duration.
        75 | 77 => true,
        // A clean stop. A command of `baton exec` gets SIGTERM, whichever signal its elector got.
        0 | 143 => {
            sent.iter().any(|signal| [Signal::TERM, Signal::INT, Signal::HUP].contains(signal))
        }
        code => sent.iter().any(|signal| code == 128 + signal.as_raw()),
    }
}

/// The processor time that a living process has used.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let fields = proc_fields(pid, "stat");
    // User and kernel mode, in hundredths of a second (USER_HZ on every Linux).
    let ticks = |field: &String| field.parse::<u64>().expect("a count");
    Duration::from_millis(10 * fields[11..13].iter().map(ticks).sum::<u64>())
}

/// The fields of a stat file from the state on; the fields before may contain spaces.
fn proc_fields(pid: u32, file: &str) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("it is alive");
    let (_, fields) = stat.rsplit_once(") ").expect("the format of proc(5)");
    fields.split(' ').map(str::to_owned).collect()
}

impl Drop for Process {
    fn drop(&mut self) {
        self.ensure_killed();
    }
}

mod tests {
    use super::{Signal, is_explained};

    #[test]
    fn delays_and_signals_explain_exit_codes() {
        let stops = [Signal::STOP, Signal::TERM];
        for (code, sent) in
            [(75, &[][..]), (77, &[]), (0, &stops), (143, &[Signal::INT]), (137, &[Signal::KILL])]
        {
            assert!(is_explained(code, sent), "{code} after {sent:?}");
        }
        for (code, sent) in [
            (70, &[][..]),
            (70, &stops),
            (2, &[]),
            (101, &[]),
            (0, &[]),
            (143, &[]),
            (137, &stops),
            (139, &[]),
        ] {
            assert!(!is_explained(code, sent), "{code} after {sent:?}");
        }
    }
}
