//! `baton observe`: prints the leader, and takes no part in the election.

use crate::rig::{
    ELECTION, NOISE, Rig, Store, Timing, eventually, over_every_store, throughout, wait_for,
};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

over_every_store! {
    observer_prints_each_change_and_takes_no_part,
}

/// The command that observes the election of `rig`.
fn observe<S: Store>(rig: &Rig<S>) -> Command {
    let mut observe = Command::new(env!("CARGO_BIN_EXE_baton"));
    observe.env_clear().args(["observe", "--election", ELECTION]);
    let timing = rig.timing;
    for (flag, duration) in [
        ("--lease-duration", timing.lease_duration),
        ("--renew-deadline", timing.renew_deadline),
        ("--retry-period", timing.retry_period),
        ("--answer-validity", timing.answer_validity),
    ] {
        observe.arg(flag).arg(format!("{duration:?}"));
    }
    for (flag, value) in rig.store.flags() {
        observe.arg(flag).arg(value);
    }
    observe
}

/// A running observer, which is killed at the end of the test.
struct Observer {
    process: Child,
    lines: PathBuf,
}

impl Observer {
    fn of<S: Store>(rig: &Rig<S>) -> Self {
        let lines = rig.folder().join("lines");
        let output = File::create(&lines).expect("the folder is ours");
        let mut observe = observe(rig);
        let process = observe.args(["--output", "json"]).stdout(output).spawn();
        Self { process: process.expect("the program is built"), lines }
    }

    /// Waits until it ends by itself.
    fn exit_code(&mut self) -> Option<i32> {
        let mut end = || self.process.try_wait().expect("it is our child");
        wait_for(NOISE * 4, "it ends", &mut end).code()
    }

    /// The leaders that it has printed.
    fn leaders(&self) -> Vec<Option<String>> {
        let text = fs::read_to_string(&self.lines).expect("the file is ours");
        let leader = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            assert_eq!(line["election"], ELECTION);
            line["leader"].as_str().map(str::to_owned)
        };
        text.lines().map(leader).collect()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn observer_prints_each_change_and_takes_no_part<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let bound = S::NOISE * 4 + rig.timing.retry_period * 3;
    let mut observer = Observer::of(&rig);
    eventually(bound, "it sees that there is no leader", || observer.leaders() == [None]);
    let first = rig.start_leader("a");
    let leads = |leader: &str| observer.leaders().last() == Some(&Some(leader.to_owned()));
    eventually(bound, "it names the first leader", || leads(&first.identity));
    let [second] = rig.start_followers(["b"]);
    rig.wait_for_answers();
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    eventually(bound, "it names the second leader", || leads(&second.identity));
    second.terminate();
    assert_eq!(second.exit_code(), 0);
    eventually(bound, "it sees that there is no leader", || {
        observer.leaders().last() == Some(&None)
    });
    assert_eq!(rig.store.holder(ELECTION), "", "the observer holds the election");
    let pid = Pid::from_child(&observer.process);
    kill_process(pid, Signal::TERM).expect("it runs");
    assert_eq!(observer.process.wait().expect("it is our child").code(), Some(0));
}

/// Its reader goes away, as in `baton observe | head -1`. The leader does not change.
#[test]
fn observer_ends_when_its_output_is_closed() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    let mut observe = observe(&rig);
    observe.args(["--output", "text"]).stdout(Stdio::piped());
    let process = observe.spawn().expect("the program is built");
    let mut observer = Observer { process, lines: PathBuf::new() };
    let mut output = BufReader::new(observer.process.stdout.take().expect("it is piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it writes text");
    let name = leader.identity.rsplit_once('_').expect("an identity ends in a UUID").0;
    assert!(line.ends_with(&format!("Z orders: {name} leads\n")), "{line}");
    drop(output);
    assert_eq!(observer.exit_code(), Some(0));
}

/// Its reader reads nothing, and the pipe is full.
#[test]
fn observer_whose_output_is_blocked_ends_at_a_signal() {
    let rig = Rig::new(Timing::CALM);
    let (reader, mut writer) = std::io::pipe().expect("there are descriptors");
    fcntl_setfl(&writer, OFlags::NONBLOCK).expect("it is a pipe");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).expect("it is a pipe");
    let process = observe(&rig).stdout(writer).stderr(Stdio::null()).spawn();
    let process = process.expect("the program is built");
    let mut observer = Observer { process, lines: PathBuf::new() };
    let tasks = format!("/proc/{}/task", observer.process.id());
    // A thread that waits in `write(1, …)`, by the number of that call: `proc_pid_syscall(5)`.
    let write = if cfg!(target_arch = "x86_64") { "1 0x1 " } else { "64 0x1 " };
    let is_blocked = || {
        fs::read_dir(&tasks).expect("it runs").any(|task| {
            let call = task.expect("it is a folder").path().join("syscall");
            fs::read_to_string(call).is_ok_and(|call| call.starts_with(write))
        })
    };
    eventually(NOISE * 10, "it is blocked", is_blocked);
    kill_process(Pid::from_child(&observer.process), Signal::TERM).expect("it runs");
    assert_eq!(observer.exit_code(), Some(0));
    drop(reader);
}

/// Standard output is a file, so only a signal ends the observer.
#[test]
fn observer_of_an_unreachable_store_says_so_and_goes_on() {
    let rig = Rig::new(Timing::CALM);
    let errors = rig.folder().join("errors");
    let process = Command::new(env!("CARGO_BIN_EXE_baton"))
        .env_clear()
        .args(["observe", "--election", ELECTION, "--backend", "zookeeper"])
        .args(["--zookeeper-servers", "127.0.0.1:1"])
        .stdout(File::create(rig.folder().join("lines")).expect("the folder is ours"))
        .stderr(File::create(&errors).expect("the folder is ours"))
        .spawn()
        .expect("the program is built");
    let mut observer = Observer { process, lines: rig.folder().join("lines") };
    let says = |text: &str| fs::read_to_string(&errors).expect("it is ours").contains(text);
    eventually(NOISE * 20, "it names the address", || says("127.0.0.1:1"));
    throughout(NOISE * 2, "it goes on", || {
        observer.process.try_wait().expect("it is our child").is_none()
    });
    assert_eq!(observer.leaders(), []);
}

#[test]
fn observer_names_an_output_that_cannot_be_written() {
    let rig = Rig::new(Timing::CALM);
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let errors = rig.folder().join("errors");
    let process = observe(&rig)
        .stdout(full)
        .stderr(File::create(&errors).expect("the folder is ours"))
        .spawn()
        .expect("the program is built");
    let mut observer = Observer { process, lines: PathBuf::new() };
    assert_eq!(observer.exit_code(), Some(2));
    let text = fs::read_to_string(&errors).expect("it is ours");
    assert!(text.contains("cannot write to standard output: No space left"), "{text}");
}
