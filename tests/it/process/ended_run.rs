//! A killed leader with a state directory: its next run releases its record, and others take over
//! at once. No record is released for an application that may act without asking, or from a copied,
//! damaged, or foreign directory.

use super::exec::{guard_of, signal};
use crate::rig::{
    Candidate, ELECTION, Files, Ledger, Moment, NOISE, Rig, STUBBORN, Store, Timing, Znodes,
    eventually, over_every_store, set_mode, wait_for,
};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The lease is far longer than a promise.
const TIMING: Timing = Timing::of_ms(6000, 4000, 500, 500);

over_every_store! {
    next_run_releases_the_record_of_a_killed_leader,
    undeclared_leader_keeps_its_lease_after_a_kill,
    clean_stop_leaves_nothing_to_release,
}

/// Waits until `candidate` leads. Returns the moment.
#[track_caller]
fn await_leading<S: Store>(rig: &Rig<S>, candidate: &Arc<Candidate>) -> Moment {
    let bound = 2 * TIMING.lease_duration + 2 * S::NOISE;
    eventually(bound, "it leads", || rig.has_standing(candidate, "leading"));
    rig.now()
}

fn state_directory<S: Store>(rig: &Rig<S>, name: &str) -> PathBuf {
    let directory = rig.folder().join(name);
    fs::create_dir(&directory).expect("the folder is new");
    directory
}

fn next_run_releases_the_record_of_a_killed_leader<S: Store>() {
    let rig = Rig::over(S::fresh(), TIMING);
    let state = state_directory(&rig, "state");
    let asking = || rig.candidate("a").state_directory(&state).flag("--on-lost", "stay");
    let mut leader = asking().start();
    await_leading(&rig, &leader);
    let [other] = rig.start_followers(["b"]);
    rig.wait_for_answers();

    let killed = leader.kill();
    let promised_until = rig.last_promise(&leader);
    leader = asking().start();
    let led = await_leading(&rig, &other);
    let took = led.since(killed);
    let bound = TIMING.answer_validity.mul_f64(1.1) + 2 * S::NOISE;
    assert!(took < bound, "b led {took:?} after the kill");
    assert!(led > promised_until, "b led before the last promise expired");
    let released = leader.events("released_for_ended_run").pop().expect("it was logged");
    assert!(released["ended"].as_str().is_some_and(|ended| ended.starts_with("a_")), "{released}");
    rig.wait_for_answers();
}

fn undeclared_leader_keeps_its_lease_after_a_kill<S: Store>() {
    let rig = Rig::over(S::fresh(), TIMING);
    let state = state_directory(&rig, "state");
    let leader = rig.candidate("a").state_directory(&state).start();
    await_leading(&rig, &leader);
    let [other] = rig.start_followers(["b"]);
    rig.wait_for_answers();

    let killed = leader.kill();
    let next = rig.candidate("a").state_directory(&state).start();
    let took = await_leading(&rig, &other).since(killed);
    let least = TIMING.lease_duration.saturating_sub(TIMING.retry_period + S::NOISE);
    assert!(took > least, "b led {took:?} after the kill");
    assert_eq!(next.events("released_for_ended_run"), [] as [Value; 0]);
}

fn clean_stop_leaves_nothing_to_release<S: Store>() {
    let rig = Rig::over(S::fresh(), TIMING);
    let state = state_directory(&rig, "state");
    let asking = || rig.candidate("a").state_directory(&state).flag("--on-lost", "stay");
    let first = asking().start();
    await_leading(&rig, &first);
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    edit(&state, |saved| assert_eq!(saved["release_info"], Value::Null, "{saved}"));
    let second = asking().start();
    await_leading(&rig, &second);
    assert_eq!(second.events("released_for_ended_run"), [] as [Value; 0]);
}

/// A run that cannot start saves its end, so that it delays the next one. The store must not keep
/// the state directory open.
#[test]
fn refused_start_over_zookeeper_is_saved() {
    let rig = Rig::over(Znodes::fresh(), TIMING);
    let state = state_directory(&rig, "state");
    let taken = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = taken.local_addr().expect("it is bound").to_string();
    let asking = rig.candidate("a").state_directory(&state).flag("--on-lost", "stay");
    let (code, output) = asking.flag("--listen", address).ends();
    assert_eq!(code, 2, "{output}");
    edit(&state, |saved| {
        assert_eq!(saved["end"]["code"], 2, "{saved}");
        assert_eq!(saved["bad_ends"].as_array().map(Vec::len), Some(1), "{saved}");
    });
}

/// Edits a JSON file in the folder of the election.
fn edit_file(state: &Path, name: &str, change: impl FnOnce(&mut Value)) {
    let path = state.join(ELECTION).join(name);
    let mut saved = serde_json::from_slice(&fs::read(&path).expect("it was saved")).unwrap();
    change(&mut saved);
    fs::write(path, saved.to_string()).expect("it is ours");
}

fn edit(state: &Path, change: impl FnOnce(&mut Value)) {
    edit_file(state, "last-run", change);
}

/// The session file may belong to another run, if someone has replaced the lock of a living one.
#[test]
fn session_of_another_run_is_left_alone() {
    let rig = Rig::over(Znodes::fresh(), TIMING);
    let state = state_directory(&rig, "state");
    let asking = || rig.candidate("a").state_directory(&state).flag("--on-lost", "stay");
    let leader = asking().start();
    await_leading(&rig, &leader);
    let [other] = rig.start_followers(["b"]);
    rig.wait_for_answers();
    let killed = leader.kill();
    edit_file(&state, "session", |saved| saved["identity"] = json!("x_1"));
    let next = asking().start();
    let took = await_leading(&rig, &other).since(killed);
    let least = TIMING.lease_duration.saturating_sub(TIMING.retry_period + Znodes::NOISE);
    assert!(took > least, "b led {took:?} after the kill");
    assert_eq!(next.events("released_for_ended_run"), [] as [Value; 0]);
}

/// Each of these leaves a directory that does not prove that the previous run has ended, or that
/// says nothing of the holder.
#[test]
fn altered_state_directory_releases_nothing() {
    type Tampering = fn(&Path);
    let tamperings: [(&str, Tampering); 7] = [
        ("copied", |state| {
            let copy = state.with_extension("copy");
            let copied = Command::new("cp").arg("-a").args([state, &copy]).status();
            assert!(copied.expect("cp runs").success());
            fs::remove_dir_all(state).expect("it is ours");
            fs::rename(copy, state).expect("both are ours");
        }),
        ("with another lock", |state| {
            let lock = state.join(ELECTION).join("lock");
            let other = state.join("other");
            fs::write(&other, "").expect("the folder is ours");
            fs::rename(other, lock).expect("both are ours");
        }),
        ("of another boot", |state| edit(state, |saved| saved["boot_id"] = json!("another"))),
        ("of an unknown boot", |state| edit(state, |saved| saved["boot_id"] = json!(""))),
        ("of a foreign run", |state| {
            edit(state, |saved| saved["release_info"]["identity"] = json!("x_1"));
        }),
        ("of an earlier version", |state| edit(state, |saved| saved["release_info"] = Value::Null)),
        ("damaged", |state| {
            fs::write(state.join(ELECTION).join("last-run"), "{\"boot").expect("it is ours");
        }),
    ];
    for (name, tamper) in tamperings {
        let rig = Rig::over(Files::fresh(), Timing::FAST);
        let state = state_directory(&rig, "state");
        let asking = || rig.candidate("a").state_directory(&state).flag("--on-lost", "stay");
        let leader = asking().start();
        await_leading(&rig, &leader);
        rig.wait_for_answers();
        leader.kill();
        tamper(&state);
        let next = asking().start();
        await_leading(&rig, &next);
        let released = next.events("released_for_ended_run");
        assert!(released.is_empty(), "a directory {name} released {released:?}");
        rig.wait_for_answers();
    }
}

/// The same directory releases if nothing was changed, or if only the whole of it was moved.
#[test]
fn moved_directory_still_proves_the_end() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let state = state_directory(&rig, "state");
    let moved = rig.folder().join("moved");
    let leader = rig.candidate("a").state_directory(&state).flag("--on-lost", "stay").start();
    await_leading(&rig, &leader);
    rig.wait_for_answers();
    leader.kill();
    fs::rename(&state, &moved).expect("both are ours");
    let next = rig.candidate("a").state_directory(&moved).flag("--on-lost", "stay").start();
    eventually(TIMING.lease_duration, "it releases", || {
        !next.events("released_for_ended_run").is_empty()
    });
}

/// A living process holds the lock, so the directory proves nothing, wherever it was moved to.
#[test]
fn directory_of_a_living_run_is_refused() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let state = state_directory(&rig, "state");
    let moved = rig.folder().join("moved");
    let leader = rig.candidate("a").state_directory(&state).flag("--on-lost", "stay").start();
    await_leading(&rig, &leader);
    fs::rename(&state, &moved).expect("both are ours");
    let next = rig.candidate("a").state_directory(&moved).flag("--on-lost", "stay");
    let (code, output) = next.ends();
    assert_eq!(code, 2, "{output}");
    assert!(output.contains("another process has locked"), "{output}");
    assert!(rig.has_standing(&leader, "leading"));
    rig.wait_for_answers();
}

/// A killed process may hold its lock for a moment longer.
#[test]
fn lock_of_a_dying_process_is_awaited() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let state = state_directory(&rig, "state");
    let folder = state.join(ELECTION);
    fs::create_dir(&folder).expect("the directory is ours");
    set_mode(&folder, 0o700);
    let dying = File::create(folder.join("lock")).expect("the folder is ours");
    dying.lock().expect("no other process holds it");
    let next = thread::scope(|scope| {
        let next = scope.spawn(|| rig.candidate("a").state_directory(&state).start());
        // Far less than it waits. On a machine that starts it later, nothing is tested.
        thread::sleep(Duration::from_millis(200));
        drop(dying);
        next.join().expect("it starts")
    });
    await_leading(&rig, &next);
    rig.wait_for_answers();
}

/// The guard holds the lock until its command has ended, so the next run starts after that.
#[test]
fn killed_elector_is_released_once_its_command_has_ended() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let state = state_directory(&rig, "state");
    let first = ledger.candidate("a", STUBBORN).state_directory(&state).start();
    let token = ledger.next_token(&[]);
    let other = ledger.candidate("b", STUBBORN).start();
    eventually(TIMING.lease_duration, "b follows", || rig.has_standing(&other, "following"));
    let guard = guard_of(&first);
    first.kill();
    let next = ledger.candidate("a", STUBBORN).state_directory(&state).start();
    let second = ledger.next_token(&[token]);
    assert!(ledger.last(token) < ledger.first(second), "two commands ran at once");
    eventually(TIMING.lease_duration, "it is logged", || {
        !next.events("released_for_ended_run").is_empty()
    });
    assert!(!is_running(guard), "the guard has ended");
    ledger.check();
}

/// Nothing ends the command if the elector and its guard are killed at once. Its processes may live
/// on, so the next run releases nothing, although an earlier guard has written that its command had
/// ended.
#[test]
fn command_without_a_guard_prevents_the_release() {
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let state = state_directory(&rig, "state");
    let lock = state.join(ELECTION).join("lock");
    let detached = "setsid sh -c \"$NOTE note\" > /dev/null 2>&1 & note";
    let earlier = ledger.candidate("a", detached).state_directory(&state).start();
    let token = ledger.next_token(&[]);
    earlier.kill();
    eventually(TIMING.lease_duration, "its guard has ended its command", || {
        fs::read(&lock).is_ok_and(|text| text == b"idle\n")
    });
    let first = ledger.candidate("a", detached).state_directory(&state).start();
    ledger.next_token(&[token]);
    assert!(fs::read(&lock).is_ok_and(|text| text.is_empty()), "a new run erases the note");
    let guard = guard_of(&first);
    first.pause();
    signal(guard, "-KILL");
    first.kill();
    eventually(NOISE, "the guard has ended", || !is_running(guard));
    assert!(!ledger.processes().is_empty(), "no process survived, so the test proves nothing");

    let next = ledger.candidate("a", "note").state_directory(&state).start();
    wait_for(3 * TIMING.lease_duration, "the next command runs", || {
        next.events("command_started").pop()
    });
    assert_eq!(next.events("released_for_ended_run"), [] as [Value; 0]);
}

/// Whether the process runs. A zombie holds no lock.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}
