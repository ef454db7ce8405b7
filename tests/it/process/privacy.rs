//! Other users of the machine, and what they can reach, lock, or plant in a sidecar's directories.

use crate::rig::{Candidate, ELECTION, Files, NOISE, Rig, Stranger, Timing, set_mode, throughout};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes a folder unsafe.
type Corrupt = fn(&Stranger, &Path);
/// Plants something at a path.
type Plant = fn(&Path);
/// Plants a link at a path to a second path.
type PlantLink = fn(&Path, &Path);

/// Debian's user `nobody`, and the user of distroless images.
const NOBODY: u32 = 65534;
const NONROOT: u32 = 65532;

/// A sidecar needs a third of it, even a debug build.
const MOST_MEMORY: u64 = 64 << 20;

fn text(path: &Path) -> &str {
    path.to_str().expect("the paths of the tests are UTF-8")
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it exists").mode() & 0o7777
}

#[test]
fn another_user_cannot_hold_the_lock() {
    let Some(stranger) = Stranger::with_uid(NOBODY) else { return };
    let new = stranger.directory("new", 0, 0o755);
    // As earlier versions created it, readable by every user.
    let readable = stranger.directory("readable", 0, 0o755);
    let folder = stranger.directory("readable/orders", 0, 0o755);
    fs::write(folder.join("lock"), "").expect("it is ours");
    set_mode(&folder.join("lock"), 0o644);

    for directory in [new, readable] {
        let rig = Rig::over(Files::at(&directory), Timing::FAST);
        let leader = rig.start_leader("a");
        let lock = directory.join(ELECTION).join("lock");
        let mut attack = stranger.command("flock");
        attack.arg("--shared").arg(&lock).args(["-c", "echo held; exec sleep 600"]);
        let mut attack = attack.stdout(Stdio::piped()).spawn().expect("util-linux is installed");
        let mut output = String::new();
        BufReader::new(attack.stdout.take().expect("it is piped"))
            .read_line(&mut output)
            .expect("it writes text");
        throughout(rig.timing.renew_deadline + NOISE, "the leader keeps leading", || {
            rig.has_standing(&leader, "leading")
        });
        assert_eq!(output, "", "another user holds {}", lock.display());
        attack.wait().expect("it is our child");
        assert_eq!((mode(&directory.join(ELECTION)), mode(&lock)), (0o700, 0o600));
        let is_warned = leader.output().contains("from 0755 to 0700");
        assert_eq!(is_warned, directory.ends_with("readable"), "{}", leader.output());
    }
}

/// The command at the end of an error.
fn advice(output: &str) -> &str {
    let (_, rest) = output.rsplit_once("run: ").unwrap_or_else(|| panic!("no command in {output}"));
    rest.split('"').next().expect("split yields a part")
}

#[test]
fn folder_that_others_can_change_is_refused_with_a_command() {
    let Some(stranger) = Stranger::with_uid(NOBODY) else { return };
    let cases: [(&str, Corrupt); 3] = [
        ("world", |_, folder| set_mode(folder, 0o777)),
        ("owner", |stranger, folder| {
            chown(folder, Some(stranger.uid), None).expect("this is root");
        }),
        ("link", |_, folder| {
            fs::rename(folder, folder.with_extension("away")).expect("it is ours");
            symlink(folder.with_extension("away"), folder).expect("it is ours");
        }),
    ];
    let directory = stranger.directory("store", 0, 0o755);
    let rig = Rig::over(Files::at(&directory), Timing::FAST);
    for flag in ["--directory", "--state-directory"] {
        for (case, corrupt) in cases {
            let directory = stranger.directory(&format!("{case}{flag}"), 0, 0o755);
            let folder = directory.join(ELECTION);
            fs::create_dir(&folder).expect("it is ours");
            set_mode(&folder, 0o700);
            corrupt(&stranger, &folder);

            let candidate = || rig.candidate(case).flag(flag, text(&directory));
            let (code, output) = candidate().ends();
            assert_eq!(code, 2, "{flag}, {case}: {output}");
            assert!(
                output.contains(flag) && output.contains(text(&folder)),
                "{flag}, {case}: {output}"
            );

            let command = advice(&output);
            let fixed =
                Command::new("sh").args(["-c", command]).status().expect("there is a shell");
            assert!(fixed.success(), "{command}");
            let started = candidate().start();
            started.terminate();
            assert_eq!(started.exit_code(), 0, "after {command}: {}", started.output());
        }
    }
    rig.start_leader("last");
    rig.wait_for_answers();
}

/// Changes modes like kubelet for an `fsGroup` at a Pod's start, without `fsGroupChangePolicy`.
fn open_to_group(folder: &Path) {
    for file in fs::read_dir(folder).expect("it is ours") {
        let file = file.expect("it is ours").path();
        // A temporary file may be gone by now.
        if let Ok(there) = fs::symlink_metadata(&file) {
            fs::set_permissions(&file, fs::Permissions::from_mode(there.mode() & 0o7777 | 0o060))
                .ok();
        }
    }
    set_mode(folder, 0o2770);
}

#[test]
fn folder_that_its_group_can_change_is_closed_during_a_term() {
    let rig = Rig::new(Timing::FAST);
    let state = rig.folder().join("state");
    let leader = rig.candidate("a").state_directory(&state).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let folder = rig.store.directory().join(ELECTION);
    for _ in 0..2 {
        open_to_group(&folder);
        open_to_group(&state.join(ELECTION));
        throughout(rig.timing.renew_deadline + NOISE, "it keeps leading", || {
            rig.has_standing(&leader, "leading")
        });
        assert_eq!(mode(&folder), 0o700);
        assert!(leader.output().contains("from 2770 to 0700"), "{}", leader.output());
    }
    leader.terminate();
    assert_eq!(leader.exit_code(), 0, "{}", leader.output());
    // As at the start of a Pod, and as an older version left it under umask 0002.
    for open in [open_to_group as Plant, |folder| set_mode(folder, 0o775)] {
        open(&folder);
        open(&state.join(ELECTION));
        let (code, output) = rig.candidate("b").state_directory(&state).ends();
        assert_eq!(code, 75, "it forgot how it ended, or could not start: {output}");
        let warnings =
            output.lines().filter(|line| line.contains("\"WARN\"") && line.contains("to 0700"));
        assert_eq!(warnings.count(), 2, "one for each directory: {output}");
        assert_eq!(mode(&state.join(ELECTION)), 0o700);
        let next = rig.candidate("c").state_directory(&state).start();
        assert_eq!(rig.leader().identity, next.identity);
        next.terminate();
        assert_eq!(next.exit_code(), 0, "{}", next.output());
        assert_eq!(mode(&folder), 0o700);
    }
    rig.wait_for_answers();
}

#[test]
fn record_that_others_can_reach_is_not_used() {
    let rig = Rig::new(Timing::FAST);
    let cases: [(&str, Plant, Plant); 4] = [
        ("linked", |record| fs::hard_link(record, other_name(record)).expect("it is ours"), unlink),
        ("world", |record| set_mode(record, 0o666), |record| set_mode(record, 0o600)),
        (
            "lock-linked",
            |record| {
                let lock = record.with_file_name("lock");
                fs::hard_link(&lock, other_name(&lock)).expect("it is ours");
            },
            |record| unlink(&record.with_file_name("lock")),
        ),
        (
            "lock-world",
            |record| set_mode(&record.with_file_name("lock"), 0o666),
            |record| {
                set_mode(&record.with_file_name("lock"), 0o600);
            },
        ),
    ];
    let candidates = cases.map(|(election, corrupt, repair)| {
        let first = rig.candidate("first").election(election).start();
        rig.leader_of(election);
        first.terminate();
        assert_eq!(first.exit_code(), 0, "{election}: {}", first.output());
        let record = rig.store.record_path(election);
        corrupt(&record);
        (rig.candidate("second").election(election).start(), record, repair)
    });
    throughout(rig.timing.takeover() + NOISE, "all are healthy, and none leads", || {
        candidates.iter().all(|(candidate, ..)| {
            candidate.is_healthy() && !rig.has_standing(candidate, "leading")
        })
    });
    for (candidate, record, repair) in &candidates {
        let output = candidate.output();
        let corrupted = if candidate.election.starts_with("lock") {
            record.with_file_name("lock")
        } else {
            record.clone()
        };
        let is_named = output
            .lines()
            .any(|line| line.contains("store_refuses") && line.contains(text(&corrupted)));
        assert!(is_named, "{} is not named: {output}", corrupted.display());
        repair(record);
        assert_eq!(rig.leader_of(&candidate.election).identity, candidate.identity);
    }
}

fn other_name(file: &Path) -> PathBuf {
    file.with_extension("other-name")
}

fn unlink(file: &Path) {
    fs::remove_file(other_name(file)).expect("it is ours");
}

/// Its peak memory, in bytes.
fn peak(candidate: &Candidate) -> u64 {
    let status =
        fs::read_to_string(format!("/proc/{}/status", candidate.pid())).expect("it is alive");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the format of proc(5)");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("coreutils are installed").success());
}

#[test]
fn only_a_regular_file_of_64_kib_is_read_as_a_record() {
    let rig = Rig::new(Timing::FAST);
    let cases: [(&str, Plant); 5] = [
        ("zeros", |record| symlink("/dev/zero", record).expect("it is ours")),
        ("pipe", pipe),
        ("large", |record| fs::write(record, vec![b' '; (64 << 10) + 1]).expect("it is ours")),
        ("folder", |record| fs::create_dir(record).expect("it is ours")),
        ("socket", |record| drop(UnixListener::bind(record).expect("it is ours"))),
    ];
    let candidates = cases.map(|(election, plant)| {
        let record = rig.store.record_path(election);
        fs::create_dir(record.parent().expect("it has a folder")).expect("the store is empty");
        plant(&record);
        (rig.candidate(election).election(election).start(), record)
    });
    throughout(rig.timing.takeover() + NOISE, "all are healthy, and none reads it all", || {
        candidates
            .iter()
            .all(|(candidate, _)| candidate.is_healthy() && peak(candidate) < MOST_MEMORY)
    });
    for (candidate, record) in &candidates {
        let output = candidate.output();
        let named =
            output.lines().any(|line| line.contains("\"ERROR\"") && line.contains(text(record)));
        assert!(named, "{} is not named: {output}", record.display());
        assert_eq!(candidate.probe("/readyz"), 503, "{}", record.display());
        let removed =
            if record.is_dir() { fs::remove_dir(record) } else { fs::remove_file(record) };
        removed.expect("it still exists");
        rig.leader_of(&candidate.election);
    }
}

#[test]
fn no_link_in_a_state_directory_is_followed() {
    let rig = Rig::new(Timing::FAST);
    let victim = rig.folder().join("victim");
    let cases: [(&str, PlantLink, i32); 6] = [
        ("lock", |path, victim| symlink(victim, path).expect("it is ours"), 2),
        ("lock", |path, _| pipe(path), 2),
        ("last-run.tmp", |path, victim| symlink(victim, path).expect("it is ours"), 0),
        ("last-run", |path, _| pipe(path), 0),
        ("lock", |path, victim| fs::hard_link(victim, path).expect("it is ours"), 2),
        ("last-run", |path, victim| fs::hard_link(victim, path).expect("it is ours"), 0),
    ];
    for (number, (name, plant, code)) in cases.into_iter().enumerate() {
        fs::write(&victim, "of another user").expect("it is ours");
        let state = rig.folder().join(format!("state-{number}"));
        let planted = state.join(ELECTION).join(name);
        fs::create_dir_all(state.join(ELECTION)).expect("the folder is new");
        set_mode(&state.join(ELECTION), 0o700);
        plant(&planted, &victim);
        let candidate = rig.candidate("a").state_directory(&state);
        if code == 2 {
            let (ended, output) = candidate.ends();
            assert_eq!(ended, code, "{name}: {output}");
            assert!(output.contains(text(&planted)), "{name}: {output}");
        } else {
            let candidate = candidate.start();
            candidate.terminate();
            assert_eq!(candidate.exit_code(), code, "{name}: {}", candidate.output());
            let last_run = fs::symlink_metadata(state.join(ELECTION).join("last-run"))
                .expect("it was written");
            assert!(last_run.is_file(), "{name}: {}", candidate.output());
        }
        assert_eq!(
            fs::read_to_string(&victim).expect("it is ours"),
            "of another user",
            "{name} was followed"
        );
    }
    rig.start_leader("last");
    rig.wait_for_answers();
}

/// kubelet creates an emptyDir for root with mode 0777, and with setgid if there is an fsGroup.
#[test]
fn state_directory_in_an_empty_dir_works() {
    let Some(user) = Stranger::with_uid(NONROOT) else { return };
    let volumes: [PathBuf; 3] = [
        user.directory("volume", 0, 0o777),
        {
            let volume = user.directory("fs-group", 0, 0o755);
            chown(&volume, None, Some(NONROOT)).expect("this is root");
            set_mode(&volume, 0o2777);
            volume
        },
        user.directory("sticky", 0, 0o1777),
    ];
    for (number, volume) in volumes.iter().enumerate() {
        let directory = user.directory(&format!("store-{number}"), NONROOT, 0o700);
        let rig = Rig::over(Files::at(&directory), Timing::FAST);
        let start = || rig.candidate("a").run_by(&user).state_directory(volume);
        let leader = start().start();
        assert_eq!(rig.leader().identity, leader.identity);
        rig.wait_for_answers();
        leader.terminate();
        assert_eq!(leader.exit_code(), 0);
        assert!(!leader.output().contains("\"WARN\""), "{}", leader.output());
        assert_eq!(mode(&volume.join(ELECTION)) & 0o777, 0o700);
        let (code, output) = start().ends();
        assert_eq!(code, 75, "it forgot how it ended: {output}");
    }
}

#[test]
fn directory_open_to_others_is_a_warning() {
    let rig = Rig::new(Timing::FAST);
    for (mode, is_warned) in [(0o777, true), (0o1777, false), (0o755, false)] {
        let directory = rig.folder().join(format!("{mode:o}"));
        fs::create_dir(&directory).expect("the folder is new");
        set_mode(&directory, mode);
        let candidate = rig.candidate("a").directory(&directory).start();
        candidate.terminate();
        assert_eq!(candidate.exit_code(), 0);
        let output = candidate.output();
        let warned =
            output.lines().any(|line| line.contains("\"WARN\"") && line.contains(text(&directory)));
        assert_eq!(warned, is_warned, "{mode:o}: {output}");
    }
    rig.start_leader("last");
    rig.wait_for_answers();
}

/// Root may run in an application's directory, and a user namespace maps the host's root to
/// `nobody`.
#[test]
fn directory_of_another_user_is_a_warning() {
    let rig = Rig::new(Timing::FAST);
    for uid in [NONROOT, NOBODY] {
        let Some(owner) = Stranger::with_uid(uid) else { return };
        for flag in ["--directory", "--state-directory"] {
            let directory = owner.directory(flag, uid, 0o755);
            let candidate = rig.candidate("a").flag(flag, text(&directory)).start();
            candidate.terminate();
            assert_eq!(candidate.exit_code(), 0, "{flag}: {}", candidate.output());
            let output = candidate.output();
            let belongs = format!("{} belongs to uid {uid}", directory.display());
            let warnings: Vec<_> = output.lines().filter(|line| line.contains(&belongs)).collect();
            let [warning] = warnings[..] else { panic!("{flag}, {uid}: {output}") };
            assert!(warning.contains("\"WARN\""), "{warning}");
            assert_eq!(warning.contains("user namespace"), uid == NOBODY, "{warning}");
        }
    }
    rig.start_leader("last");
    rig.wait_for_answers();
}
