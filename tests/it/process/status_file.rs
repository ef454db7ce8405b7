//! The answer as a file that expires by itself (`--status-file`).
//!
//! Start with [`File::leads`], which reads the file by the rule of the documentation.

use crate::rig::{
    Delay, Disk, ELECTION, Fuse, NOISE, Rig, Store as _, Timing, may_trace_a_sidecar,
};
use crate::rig::{eventually, set_mode, throughout, uptime, wait_for};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// A status file and the boot that it must be of.
struct File {
    path: PathBuf,
    boot_id: String,
}

impl File {
    fn at(path: PathBuf) -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        Self { path, boot_id: boot_id.trim().to_owned() }
    }

    /// The content, once there is a file.
    fn read(&self) -> Option<Value> {
        let text = fs::read_to_string(&self.path).ok()?;
        Some(serde_json::from_str(&text).expect("the file is whole"))
    }

    /// The token, if its reader may act now.
    fn leads(&self) -> Option<String> {
        let now = u64::try_from(uptime().as_millis()).unwrap();
        let content = self.read()?;
        let [from, until] =
            ["from_boottime_ms", "until_boottime_ms"].map(|field| content[field].as_u64().unwrap());
        let is_valid = content["boot_id"] == self.boot_id && from <= now && now < until;
        is_valid.then(|| content["token"].as_str().unwrap().to_owned())
    }
}

/// A process that is killed at the end of its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn refused(rig: &Rig, path: &Path) -> String {
    let (code, output) = rig.candidate("a").flag("--status-file", path.to_string_lossy()).ends();
    assert_eq!(code, 2, "{output}");
    output
}

#[test]
fn file_agrees_with_the_answers_and_expires() {
    let rig = Rig::new(Timing::CALM);
    let file = File::at(rig.folder().join("status"));
    let leader = rig.candidate("a").flag("--status-file", file.path.to_string_lossy()).start();
    let token = wait_for(NOISE * 10, "the file says that it leads", || file.leads());
    let answer = leader.ask().fencing_token;
    assert_eq!(answer.as_ref(), Some(&token));
    let content = file.read().expect("there is a file");
    assert_eq!(content["valid_for_ms"], 0, "it is not the answer to a request");
    rig.wait_for_answers();
    throughout(rig.timing.renew_deadline * 2, "it never expires while it leads", || {
        file.leads().as_ref() == Some(&token)
    });
    leader.pause();
    eventually(rig.timing.answer_validity + NOISE, "it expires", || file.leads().is_none());
    leader.resume();
}

#[test]
fn stop_waits_for_the_promise_of_the_file() {
    let rig = Rig::new(Timing::CALM);
    let file = File::at(rig.folder().join("status"));
    let old = rig.candidate("a").flag("--status-file", file.path.to_string_lossy()).start();
    wait_for(NOISE * 10, "the file says that it leads", || file.leads());
    rig.wait_for_answers();
    let new = rig.start("b");
    eventually(NOISE * 10, "another candidate follows", || rig.has_standing(&new, "following"));
    old.terminate();
    let says_no = || file.read().is_some_and(|content| content["is_leader"] == false);
    eventually(rig.timing.answer_validity, "the file tells of the withdrawal", says_no);
    // The file may name the old leader only until the new one holds the record.
    eventually(rig.timing.lease_duration, "the other one leads", || rig.holds(&new));
    assert_eq!(file.leads(), None);
    assert_eq!(old.exit_code(), 0);
}

#[test]
fn status_file_declares_that_the_application_asks() {
    let rig = Rig::new(Timing::CALM);
    let file = File::at(rig.folder().join("status"));
    let leader = rig.candidate("a").flag("--status-file", file.path.to_string_lossy()).start();
    wait_for(NOISE * 10, "the file says that it leads", || file.leads());
    rig.wait_for_answers();
    assert!(leader.baton("resign --hold-off 1m").status.success());
    assert_eq!(file.leads(), None);
    let says_no = || file.read().is_some_and(|content| content["is_leader"] == false);
    eventually(NOISE, "the file says no", says_no);
}

/// A file that promises from now on, if its boot is ignored.
fn promise_of_another_boot() -> String {
    let boot_id = "00000000-0000-4000-8000-000000000000";
    json!({ "is_leader": true, "token": "1", "boot_id": boot_id, "from_boottime_ms": 0,
            "until_boottime_ms": u64::MAX >> 1, "standing": "leading" })
    .to_string()
        + "\n"
}

/// The loop of the guide, word for word.
#[test]
fn shell_loop_of_the_guide_acts_only_while_leading() {
    let guide = include_str!("../../../docs/guides/applications.md");
    let script = guide.split("```shell\n").nth(1).and_then(|rest| rest.split("```").next());
    let rig = Rig::new(Timing::of_ms(6000, 4500, 1000, 2000));
    let file = File::at(rig.folder().join("status"));
    let steps = rig.folder().join("steps");
    let work = format!("#!/bin/sh\necho \"$1\" >> {}\n", steps.display());
    fs::write(rig.folder().join("work"), work).unwrap();
    set_mode(&rig.folder().join("work"), 0o755);
    let path = format!("{}:{}", rig.folder().display(), std::env::var("PATH").unwrap());
    let shell = Command::new("sh")
        .args(["-c", script.expect("the guide has the loop")])
        .envs([("PATH", &*path), ("STATUS_FILE", &*file.path.to_string_lossy())])
        .spawn()
        .unwrap();
    let _shell = Killed(shell);
    let taken = || fs::read_to_string(&steps).unwrap_or_default();
    // After a reboot the clock is smaller, and the file of the last boot may be left.
    fs::write(&file.path, promise_of_another_boot()).unwrap();
    assert_eq!(file.leads(), None);
    throughout(Duration::from_secs(3), "the loop takes no step", || taken().is_empty());
    let leader = rig.candidate("a").flag("--status-file", file.path.to_string_lossy()).start();
    eventually(NOISE * 10, "the loop works twice", || taken().lines().count() >= 2);
    let token = file.leads();
    assert_eq!(taken().lines().next().map(str::to_owned), token);
    rig.wait_for_answers();
    leader.pause();
    eventually(rig.timing.answer_validity + NOISE, "the file expires", || file.leads().is_none());
    let before = taken();
    throughout(Duration::from_secs(3), "the loop takes no step", || taken() == before);
    leader.resume();
}

#[test]
fn unwritable_file_is_refused_by_name() {
    let rig = Rig::new(Timing::CALM);
    let missing = rig.folder().join("missing/status");
    let output = refused(&rig, &missing);
    assert!(
        output.contains(&*missing.to_string_lossy()) && output.contains("No such file"),
        "{output}"
    );
    let folder = rig.folder().join("folder");
    fs::create_dir(&folder).unwrap();
    assert!(refused(&rig, &folder).contains("Is a directory"));
}

/// After a failed write, the file expires, and the candidate keeps leading.
#[test]
fn full_disk_and_removed_directory_end_no_term() {
    let rig = Rig::new(Timing::CALM);
    let mount = rig.folder().join("disk");
    fs::create_dir(&mount).unwrap();
    let disk = Disk::mount(&mount, "size=64k");
    let folder = disk.path.join("folder");
    fs::create_dir(&folder).unwrap();
    let file = File::at(folder.join("status"));
    let leader = rig.candidate("a").flag("--status-file", file.path.to_string_lossy()).start();
    wait_for(NOISE * 10, "the file says that it leads", || file.leads());
    rig.wait_for_answers();
    disk.fill();
    let failed = || leader.events("status_file_failed").len();
    eventually(NOISE * 10, "it reports the full disk", || failed() == 1);
    eventually(rig.timing.answer_validity + NOISE, "the file expires", || file.leads().is_none());
    disk.free();
    eventually(NOISE * 10, "the file is written again", || file.leads().is_some());
    fs::remove_dir_all(&folder).unwrap();
    eventually(NOISE * 10, "it reports the missing directory", || failed() == 2);
    throughout(rig.timing.renew_deadline, "it leads on", || rig.holds(&leader));
    assert_eq!(leader.events("lost").len(), 0);
    leader.terminate();
    assert_eq!(leader.exit_code(), 0, "and it stops cleanly");
}

#[test]
fn write_that_hangs_delays_neither_renewal_nor_stop() {
    if !may_trace_a_sidecar() {
        return;
    }
    let rig = Rig::new(Timing::CALM);
    let file = File::at(rig.folder().join("status"));
    let leader = rig.candidate("a").flag("--status-file", file.path.to_string_lossy()).start();
    wait_for(NOISE * 10, "the file says that it leads", || file.leads());
    rig.wait_for_answers();
    // Nothing else of a leader changes permissions.
    let hung = Delay::of_all_threads(leader.pid(), "fchmod", Duration::from_mins(1));
    eventually(rig.timing.answer_validity + NOISE, "the file expires", || file.leads().is_none());
    throughout(rig.timing.renew_deadline * 2, "it leads on", || rig.holds(&leader));
    leader.terminate();
    eventually(rig.timing.answer_validity + NOISE, "it releases", || {
        rig.store.holder(ELECTION).is_empty()
    });
    // A traced process cannot end in the middle of a delayed call.
    drop(hung);
    assert_eq!(leader.exit_code(), 0);
}

/// The file system hangs, and not only one call.
#[test]
fn file_system_that_hangs_delays_neither_renewal_nor_stop() {
    let rig = Rig::new(Timing::CALM);
    let mount = rig.folder().join("fuse");
    fs::create_dir(&mount).unwrap();
    let Some(mut fuse) = Fuse::mount(&mount) else { return };
    let file = File::at(fuse.path.join("status"));
    let leader = rig.candidate("a").flag("--status-file", file.path.to_string_lossy()).start();
    wait_for(NOISE * 10, "the file says that it leads", || file.leads());
    rig.wait_for_answers();
    fuse.hang();
    throughout(rig.timing.renew_deadline * 2, "it leads on", || rig.holds(&leader));
    leader.terminate();
    eventually(rig.timing.answer_validity + NOISE, "it releases", || {
        rig.store.holder(ELECTION).is_empty()
    });
    assert_eq!(leader.exit_code(), 0);
}

#[test]
fn other_clock_is_refused() {
    let rig = Rig::new(Timing::CALM);
    let folder = rig.folder().join("elections");
    fs::create_dir(&folder).unwrap();
    let uptime = rig.folder().join("uptime");
    fs::write(&uptime, "12.34 10.00\n").unwrap();
    let uptime = uptime.to_string_lossy();
    // As lxcfs does, for a container that has just started.
    let covered = "mount --bind \"$0\" /proc/uptime && exec \"$@\"";
    for surroundings in [
        &["--time", "--boottime", "86400"][..],
        &["--map-root-user", "--mount", "sh", "-c", covered, &*uptime],
    ] {
        refuses_the_clock(&rig, &folder, surroundings);
    }
}

/// Runs a candidate with `unshare` and these arguments, and checks that it refuses to start.
fn refuses_the_clock(rig: &Rig, folder: &Path, surroundings: &[&str]) {
    let output = Command::new("timeout")
        .args(["20", "unshare"])
        .args(surroundings)
        .arg(env!("CARGO_BIN_EXE_baton"))
        .args(["--election=orders", "--backend=file", "--listen=127.0.0.1:0"])
        .args(["--probe-listen=none", "--status-file=status", "--directory"])
        .arg(folder)
        .current_dir(rig.folder())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("time namespaces and lxcfs"), "{log}");
}
