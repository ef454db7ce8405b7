//! One process under test: its output, its signals, its end. It never outlives the test.

use super::judge::{Journal, Moment, eventually, wait_for};
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

/// How long the kernel may take to stop or to bury a process: closing an inotify alone waits for a grace period of
/// the whole machine, and three seconds of it were seen. So what a process does in time is judged by what it logs and
/// writes, and not by its end.
const BURIAL: Duration = Duration::from_secs(15);

pub(crate) struct Process {
    /// Its name in the story: unique in a rig, also where a candidate is started again under its name.
    pub(crate) label: String,
    pid: Pid,
    journal: Arc<Journal>,
    running: Mutex<Running>,
    /// Whether the test has asked for the exit code, which no test may leave out.
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
    /// As a shell counts it: 128 and the signal where one ended the process.
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

    /// SIGKILL. Returns the moment before it; afterwards the process is gone.
    pub(crate) fn kill(&self) -> Moment {
        let before = self.signal(Signal::KILL);
        assert_eq!(self.exit_code(), 128 + 9);
        before
    }

    /// SIGTERM, as kubelet sends it. Returns the moment before it.
    pub(crate) fn terminate(&self) -> Moment {
        self.signal(Signal::TERM)
    }

    /// SIGINT, as Ctrl-C sends it. Returns the moment before it.
    pub(crate) fn interrupt(&self) -> Moment {
        self.signal(Signal::INT)
    }

    /// Sends SIGHUP, as a terminal does that goes away. Returns the moment before it.
    pub(crate) fn hang_up(&self) -> Moment {
        self.signal(Signal::HUP)
    }

    /// SIGSTOP. Returns a moment at which nothing in the process moves any more.
    pub(crate) fn pause(&self) -> Moment {
        self.signal(Signal::STOP);
        eventually(BURIAL, "every thread has stopped", || self.is_stopped());
        self.journal.clock.now()
    }

    /// SIGCONT. Returns the moment before it.
    pub(crate) fn resume(&self) -> Moment {
        self.signal(Signal::CONT)
    }

    /// Waits until it says that it lost its term, and for what reason.
    #[track_caller]
    pub(crate) fn loses(&self, within: Duration, reason: &str) {
        let what = format!("{} loses its term", self.label);
        let lost = wait_for(within, &what, || self.events("lost").pop());
        assert_eq!(lost["reason"], reason);
    }

    /// The exit code, once it has ended.
    #[track_caller]
    pub(crate) fn exit_code(&self) -> i32 {
        let what = format!("{} ends", self.label);
        let end = wait_for(BURIAL, &what, || self.ended());
        self.end_expected.store(true, Ordering::Relaxed);
        end.code
    }

    /// How it ended, if it did; its whole output is in the journal then.
    pub(crate) fn ended(&self) -> Option<End> {
        let mut running = lock(&self.running);
        if running.end.is_none() {
            let status = running.child.try_wait().expect("it is our child")?;
            let code =
                status.code().or_else(|| Some(128 + status.signal()?)).expect("it has ended");
            let seen = self.journal.note(&self.label, format!("has ended with {code}"));
            running.end = Some(End { code, seen });
            if let Some(output) = running.output.take() {
                output.join().expect("reading lines does not panic");
            }
        }
        running.end
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.ended().is_none()
    }

    /// That it ended although no test expected it. No noise excuses an end that no delay explains.
    pub(crate) fn unexpected_end(&self) -> Option<String> {
        let end = self.ended().filter(|_| !self.end_expected.load(Ordering::Relaxed))?;
        if !may_come_of_delay(end.code, &lock(&self.signals)) {
            never_excuse();
        }
        Some(format!("{} ended with {}, which no test expected", self.label, end.code))
    }

    /// Ends it in whatever state it is.
    pub(crate) fn put_down(&self) {
        let mut running = lock(&self.running);
        running.child.kill().expect("it is our child");
        running.child.wait().expect("it is our child");
    }

    /// Everything that it wrote to standard error.
    pub(crate) fn output(&self) -> String {
        self.journal.text(&self.label)
    }

    /// When it first logged a line with this event, if it did.
    pub(crate) fn told(&self, event: &str) -> Option<Moment> {
        self.journal.told(&self.label, event)
    }

    /// What it logged with this event.
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

    fn signal(&self, signal: Signal) -> Moment {
        // Under this lock nobody waits for it, so that its number stays its own.
        let running = lock(&self.running);
        assert!(running.end.is_none(), "{} ended before it got {signal:?}", self.label);
        let before = self.journal.note(&self.label, format!("gets {signal:?}"));
        lock(&self.signals).push(signal);
        kill_process(self.pid, signal).expect("it has not been waited for");
        before
    }

    /// SIGSTOP reaches the threads one by one.
    fn is_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it is alive");
        let mut states = tasks.flatten().map(|task| {
            let id = task.file_name().into_string().expect("a number");
            proc_fields(self.pid(), &format!("task/{id}/stat")).swap_remove(0)
        });
        states.all(|state| state == "T")
    }
}

/// Whether a slow machine, or a signal that the test sent, explains this end of a sidecar.
fn may_come_of_delay(code: i32, sent: &[Signal]) -> bool {
    match code {
        // A claim ran out, or refusals lasted a lease duration.
        75 | 77 => true,
        0 => sent.iter().any(|signal| [Signal::TERM, Signal::INT, Signal::HUP].contains(signal)),
        code => sent.iter().any(|signal| code == 128 + signal.as_raw()),
    }
}

/// The processor time that a living process has used.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let fields = proc_fields(pid, "stat");
    // In user and in kernel mode, in hundredths of a second (on every Linux: USER_HZ).
    let ticks = |field: &String| field.parse::<u64>().expect("a count");
    Duration::from_millis(10 * fields[11..13].iter().map(ticks).sum::<u64>())
}

/// The fields of a stat file from the state on: what stands before may contain blanks.
fn proc_fields(pid: u32, file: &str) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("it is alive");
    let (_, fields) = stat.rsplit_once(") ").expect("the form of proc(5)");
    fields.split(' ').map(str::to_owned).collect()
}

impl Drop for Process {
    fn drop(&mut self) {
        self.put_down();
    }
}

mod tests {
    use super::{Signal, may_come_of_delay};

    #[test]
    fn only_codes_of_a_slow_machine_and_own_signals_are_excused() {
        let stops = [Signal::STOP, Signal::TERM];
        for (code, sent) in
            [(75, &[][..]), (77, &[]), (0, &stops), (143, &stops), (137, &[Signal::KILL])]
        {
            assert!(may_come_of_delay(code, sent), "{code} after {sent:?}");
        }
        for (code, sent) in
            [(70, &[][..]), (70, &stops), (2, &[]), (101, &[]), (0, &[]), (137, &stops), (139, &[])]
        {
            assert!(!may_come_of_delay(code, sent), "{code} after {sent:?}");
        }
    }
}
