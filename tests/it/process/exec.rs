//! `baton exec`: a command that runs only while its candidate leads.
//!
//! The [`Ledger`] shows which processes of a command ran when.

mod containment;
mod late_replies;
mod left_behind;
mod quota;
mod terminal;
mod terms;

use crate::rig::{Candidate, ELECTION, Files, Moment, NOISE, Rig, Store as _, Timing};
use crate::rig::{KILL_AFTER, Ledger, STUBBORN, uptime};
use crate::rig::{eventually, throughout, wait_for};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const TIMING: Timing = Timing::of_ms(4500, 3000, 400, 400);

/// The processes that have `parent`.
fn children(parent: u32) -> Vec<u32> {
    let children = Command::new("pgrep").args(["-P", &parent.to_string()]).output();
    let text = String::from_utf8(children.expect("pgrep runs").stdout).expect("numbers are text");
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

pub(super) fn guard_of(candidate: &Candidate) -> u32 {
    *children(candidate.pid()).first().expect("it has a guard")
}

pub(super) fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// The last renewal was sent before it was written, so the claim ends at most a renew deadline
/// later. SIGKILL comes 500 ms before that.
fn was_killed_in_time(ledger: &Ledger<'_>, token: u128, store: &Files) {
    let age = store.written(ELECTION).elapsed().expect("the write is in the past");
    let ran_on = ledger.last(token).saturating_sub(uptime().saturating_sub(age));
    let bound = TIMING.renew_deadline.saturating_sub(Duration::from_millis(250));
    assert!(ran_on < bound, "it ran for {ran_on:?} after the last renewal");
}

#[test]
fn command_gets_its_variables_and_gives_its_exit_code() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let output = rig.folder().join("output");
    let script = format!(
        "echo $BATON_ELECTION $BATON_IDENTITY $BATON_TOKEN $BATON_URL > {0}; \
         ls /proc/self/fd | wc -l >> {0}; while [ ! -e {0}.read ]; do sleep 0.02; done; exit 7",
        output.display()
    );
    let only = rig.candidate("a").flag("--kill-after", "1s").running(&script).start();
    rig.wait_for_answers();
    fs::write(rig.folder().join("output.read"), "").expect("the folder is ours");
    assert_eq!(only.exit_code(), 7);
    let text = fs::read_to_string(output).expect("it was written");
    let words: Vec<_> = text.split_whitespace().collect();
    let [election, identity, token, url, descriptors] = words[..] else { panic!("{text}") };
    assert_eq!((election, identity), (ELECTION, only.identity.as_str()));
    assert_eq!(url, format!("http://{}", only.listen));
    let list = Command::new("sh").args(["-c", "ls /proc/self/fd | wc -l"]).output();
    let inherited = String::from_utf8(list.expect("sh runs").stdout).expect("a number is text");
    assert_eq!(descriptors, inherited.trim(), "a descriptor of Baton is open in the command");
    let started = only.events("command_started").pop().expect("it was logged");
    assert_eq!(started["token"], token);
    let ended = only.events("command_ended").pop().expect("it was logged");
    assert_eq!((ended["code"].clone(), ended["pid"].clone()), (7.into(), started["pid"].clone()));
    assert_eq!(rig.store.holder(ELECTION), "", "it has released");
}

/// Runs `baton exec` with a program of this machine and an input. Returns its code, output, and log.
fn run(program: &[&str], input: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    let mut baton = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["exec", "--election=orders", "--backend=file", "--listen=127.0.0.1:0"])
        .args(["--probe-listen=none", "--directory"])
        .arg(folder.path())
        .arg("--")
        .args(program)
        .env("NOTIFY_SOCKET", folder.path().join("absent"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut stdin = baton.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("the pipe has room");
    drop(stdin);
    let output = baton.wait_with_output().expect("it is our child");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn streams_pass_through() {
    let script = "read line; echo got $line; [ -z \"$NOTIFY_SOCKET\" ] || echo leaked";
    let (code, output, _) = run(&["sh", "-c", script], "an order\n");
    assert_eq!((code, output.as_str()), (Some(0), "got an order\n"));
}

#[test]
fn exit_code_is_that_of_a_shell() {
    assert_eq!(run(&["sh", "-c", "kill -9 $$"], "").0, Some(137));
    let (code, _, log) = run(&["/nonexistent"], "");
    assert_eq!(code, Some(127));
    assert!(log.contains("cannot execute /nonexistent: No such file"), "{log}");
    let (code, _, log) = run(&["/etc"], "");
    assert_eq!(code, Some(126), "{log}");
}

#[test]
fn stop_reaps_every_process_before_the_release() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let old = ledger.candidate("a", STUBBORN).start();
    let first = ledger.next_token(&[]);
    let _new = ledger.candidate("b", "note").start();
    old.terminate();
    let second = ledger.next_token(&[first]);
    assert!(second > first);
    assert_eq!(old.exit_code(), 137, "it had to be killed");
    ledger.check();
}

#[test]
fn resigned_candidate_runs_its_command_again() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", STUBBORN).start();
    let first = ledger.next_token(&[]);
    let resigned = only.baton("resign --hold-off 1s");
    assert!(resigned.status.success(), "{resigned:?}");
    assert!(ledger.next_token(&[first]) > first);
    ledger.check();
    only.terminate();
    only.exit_code();
}

#[test]
fn successor_of_a_resigned_candidate_waits_for_its_command() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    // Long enough that an early release shows.
    let old = ledger.candidate("a", STUBBORN).flag("--stop-timeout", "3s").start();
    let first = ledger.next_token(&[]);
    let new = ledger.candidate("b", "note").start();
    let resigned = old.baton("resign --hold-off 30s");
    assert!(resigned.status.success(), "{resigned:?}");
    assert!(ledger.next_token(&[first]) > first);
    ledger.check();
    for candidate in [old, new] {
        candidate.terminate();
        candidate.exit_code();
    }
}

#[test]
fn command_is_dead_before_the_claim_of_a_stopped_elector_ends() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let old = ledger.candidate("a", STUBBORN).start();
    let first = ledger.next_token(&[]);
    let _new = ledger.candidate("b", "note").start();
    signal(old.pid(), "-STOP");
    ledger.is_silent_within(TIMING.renew_deadline + NOISE);
    was_killed_in_time(&ledger, first, &rig.store);
    ledger.next_token(&[first]);
    signal(old.pid(), "-CONT");
    assert_eq!(old.exit_code(), 75);
    let ended = old.events("command_ended").pop().expect("it was logged");
    assert_eq!(ended["code"], 137, "the guard is not lost: {ended}");
    ledger.check();
}

#[test]
fn partitioned_elector_kills_its_command_before_the_claim_ends() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", STUBBORN).start();
    let first = ledger.next_token(&[]);
    let _blocked = rig.store.block(ELECTION);
    assert_eq!(only.exit_code(), 75);
    ledger.is_silent_within(NOISE);
    was_killed_in_time(&ledger, first, &rig.store);
}

#[test]
fn command_of_a_killed_elector_ends() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let old = ledger.candidate("a", STUBBORN).start();
    let first = ledger.next_token(&[]);
    let _new = ledger.candidate("b", "note").start();
    let killed = uptime();
    old.kill();
    ledger.next_token(&[first]);
    let ran_on = ledger.last(first).saturating_sub(killed);
    assert!(ran_on < KILL_AFTER + NOISE, "it ran for {ran_on:?} after the elector was killed");
    ledger.check();
}

#[test]
fn command_of_a_killed_guard_ends_at_once() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let old = ledger.candidate("a", STUBBORN).start();
    let first = ledger.next_token(&[]);
    let killed = uptime();
    signal(guard_of(&old), "-KILL");
    assert_eq!(old.exit_code(), 75);
    ledger.is_silent_within(NOISE);
    let ran_on = ledger.last(first).saturating_sub(killed);
    assert!(ran_on < NOISE, "it ran for {ran_on:?} after the guard was killed");
}

#[test]
fn stopped_command_ends_with_75_when_leadership_ends() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", "trap 'exit 0' TERM; note & while :; do sleep 0.05; done");
    let only = only.start();
    ledger.next_token(&[]);
    let began = uptime();
    let _blocked = rig.store.block(ELECTION);
    assert_eq!(only.exit_code(), 75, "its own code says nothing: it was stopped halfway");
    assert!(uptime().saturating_sub(began) < TIMING.renew_deadline + NOISE);
    let ended = only.events("command_ended").pop().expect("it was logged");
    assert_eq!(ended["code"], 0);
    ledger.is_silent_within(NOISE);
}

#[test]
fn candidate_that_stays_runs_its_command_in_the_next_term() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", "note").flag("--on-lost", "stay").start();
    let first = ledger.next_token(&[]);
    let blocked = rig.store.block(ELECTION);
    ledger.is_silent_within(TIMING.renew_deadline + NOISE);
    drop(blocked);
    assert!(ledger.next_token(&[first]) > first);
    assert!(only.is_alive());
    ledger.check();
    only.terminate();
    assert_eq!(only.exit_code(), 143, "the lapse of an earlier term says nothing");
}

/// An elector whose log pipe is full keeps renewing, and its command keeps running.
#[test]
fn command_of_an_elector_whose_log_is_not_read_runs_on() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let (reader, mut writer) = std::io::pipe().expect("there are pipes");
    let folder = rig.folder().join("unread");
    fs::create_dir(&folder).expect("the folder is new");
    let mut elector = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["exec", "--election=orders", "--backend=file", "--listen=127.0.0.1:0"])
        .args(["--probe-listen=none", "--log-level=debug", "--lease-duration=4500ms"])
        .args(["--renew-deadline=3s", "--retry-period=400ms", "--kill-after=1s"])
        .args(["--directory".as_ref(), folder.as_os_str()])
        .args(["--", "sh", "-c", &ledger.script("note")])
        .stderr(writer.try_clone().expect("descriptors can be copied"))
        .spawn()
        .expect("the program is built");
    let token = ledger.next_token(&[0]);
    // Fills the pipe and blocks on it until the reader is dropped.
    let filler = thread::spawn(move || writer.write_all(&vec![b'\n'; 1 << 20]).is_ok());
    throughout(3 * TIMING.renew_deadline, "it leads on", || {
        elector.try_wait().expect("it is our child").is_none()
    });
    assert!(!filler.is_finished(), "the pipe was full to the end");
    assert!(ledger.last(token) + NOISE > uptime(), "the command runs on");
    elector.kill().expect("it is our child");
    elector.wait().expect("it is our child");
    drop(reader);
    assert!(!filler.join().expect("writing does not panic"));
    ledger.is_silent_within(KILL_AFTER + NOISE);
}

#[test]
fn renewal_after_the_last_warning_saves_no_command() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let warned = rig.folder().join("warned");
    let script =
        format!("trap 'echo > {}' TERM; note & while :; do sleep 0.05; done", warned.display());
    let only = ledger.candidate("a", &script).start();
    ledger.next_token(&[]);
    let blocked = rig.store.block(ELECTION);
    eventually(TIMING.renew_deadline + NOISE, "the command gets SIGTERM", || warned.exists());
    drop(blocked);
    assert_eq!(only.exit_code(), 75);
    ledger.is_silent_within(NOISE);
}

#[test]
fn no_signal_that_can_be_caught_ends_or_stops_the_guard() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", "note").start();
    let token = ledger.next_token(&[]);
    let guard = guard_of(&only);
    for name in ["-TERM", "-INT", "-HUP", "-QUIT", "-TSTP", "-TTOU", "-TTIN", "-USR1", "-ALRM"] {
        signal(guard, name);
    }
    let asked = uptime();
    throughout(2 * TIMING.renew_deadline, "the command runs on", || only.is_alive());
    assert!(ledger.last(token) > asked + TIMING.renew_deadline);
    assert_eq!(guard_of(&only), guard);
    only.terminate();
    assert_eq!(only.exit_code(), 143);
}

#[test]
fn command_that_stops_itself_is_continued() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", "kill -STOP $$; note").start();
    ledger.next_token(&[]);
    only.terminate();
    only.exit_code();
}

#[test]
fn followers_run_nothing_and_many_terms_leave_nothing() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let leader = ledger.candidate("a", "note").start();
    let first = ledger.next_token(&[]);
    let follower = ledger.candidate("b", "note").start();
    throughout(TIMING.retry_period, "a follower has no guard", || {
        children(follower.pid()).is_empty()
    });
    let open = |candidate: &Candidate| {
        (candidate.metric("process_open_fds"), children(candidate.pid()).len())
    };
    let mut tokens = vec![first];
    let before = open(&leader);
    for _ in 0..3 {
        for candidate in [&leader, &follower] {
            candidate.baton("resign --hold-off 100ms");
            tokens.push(ledger.next_token(&tokens));
        }
    }
    wait_for(NOISE, "nothing is left of the ended terms", || {
        (open(&leader) == before).then_some(())
    });
    ledger.check();
    for candidate in [follower, leader] {
        candidate.terminate();
        candidate.exit_code();
    }
}

#[test]
fn second_signal_kills_the_command() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", STUBBORN).flag("--stop-timeout", "20s").start();
    ledger.next_token(&[]);
    let asked: Moment = only.terminate();
    throughout(Duration::from_millis(1500), "it stops in order", || only.is_alive());
    assert!(rig.holds(&only), "the record is renewed meanwhile");
    only.terminate();
    assert_eq!(only.exit_code(), 137);
    assert!(rig.now().since(asked) < Duration::from_secs(5));
    assert_eq!(rig.store.holder(ELECTION), "", "it has released");
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let refused = |flag, value: &str| {
        let (code, output) = rig.candidate("a").flag(flag, value).running("true").ends();
        assert_eq!(code, 2, "{output}");
        output
    };
    assert!(refused("--kill-after", "5s").contains("--kill-after=2.2s or less"));
    assert!(refused("--fit-url", "http://localhost:1/").contains("remove the flag"));
    assert!(refused("--kill-after", "100ms").contains("--kill-after=500ms or more"));
    assert!(refused("--require-polling", "9s").contains("remove the flag"));
    assert!(refused("--nice", "20").contains("0 to 19"));
}
