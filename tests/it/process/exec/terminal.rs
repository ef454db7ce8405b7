//! `baton exec` on a terminal, which `script` of util-linux provides.
//!
//! Start with [`OnTerminal`]: keys go in, and the command writes what it notices to files.

use crate::rig::{NOISE, eventually, wait_for};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use tempfile::TempDir;

const CTRL_C: &[u8] = &[3];
const CTRL_Z: &[u8] = &[26];
/// Goes on until it is stopped.
const LOOP: &str = "echo $$ > pid; while :; do sleep 0.05; done";

/// A command under `baton exec`, as a shell on a terminal starts it.
struct OnTerminal {
    script: Child,
    keys: ChildStdin,
    folder: TempDir,
}

impl OnTerminal {
    /// Starts `command` in its own folder, and waits until it runs.
    fn start(command: &str) -> Self {
        let folder = TempDir::new().expect("temporary folders can be made");
        fs::write(folder.path().join("command"), command).expect("the folder is new");
        let baton = format!(
            "echo $$ > baton; exec {} exec --election orders --backend file --directory store \
             --listen 127.0.0.1:0 --probe-listen none --stop-timeout 1s -- sh command",
            env!("CARGO_BIN_EXE_baton")
        );
        fs::create_dir(folder.path().join("store")).expect("the folder is new");
        let mut script = Command::new("script");
        script.args(["--quiet", "--flush", "--return", "--command", &baton, "log"]);
        script.current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut script = script.spawn().expect("util-linux is installed");
        let keys = script.stdin.take().expect("it is piped");
        let this = Self { script, keys, folder };
        this.read("pid");
        this
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Waits until the file has a line, and returns its text.
    fn read(&self, file: &str) -> String {
        wait_for(NOISE * 20, &format!("the file {file} has a line"), || {
            fs::read_to_string(self.path(file)).ok().filter(|text| text.ends_with('\n'))
        })
    }

    fn press(&mut self, key: &[u8]) {
        self.keys.write_all(key).and_then(|()| self.keys.flush()).expect("the terminal is open");
    }

    /// The exit code of baton, once it has ended.
    fn exit_code(&mut self) -> Option<i32> {
        wait_for(NOISE * 20, "baton ends", || self.script.try_wait().expect("it is our child"))
            .code()
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("log")).unwrap_or_default()).into_owned()
    }
}

/// Without its terminal, baton gets SIGHUP and stops cleanly.
impl Drop for OnTerminal {
    fn drop(&mut self) {
        self.script.kill().ok();
        self.script.wait().ok();
        let pid = fs::read_to_string(self.path("baton")).unwrap_or_default();
        let process = format!("/proc/{}", pid.trim());
        let has_ended = || pid.is_empty() || !Path::new(&process).exists();
        eventually(NOISE * 20, "baton has stopped without its terminal", has_ended);
    }
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let trap = "trap 'echo interrupted >> signals; exit 130' INT;";
    let mut shell = OnTerminal::start(&format!("{trap} {LOOP}"));
    shell.press(CTRL_C);
    assert_eq!(shell.exit_code(), Some(130), "{}", shell.log());
    assert_eq!(shell.read("signals"), "interrupted\n");
    let log = shell.log();
    assert!(log.contains("resigned"), "the command ended by itself: {log}");
}

/// A suspended command would be a leader that does nothing. A shell that is just starting a program
/// with vfork(2) cannot stop, but waits for a child that is stopped.
#[test]
fn ctrl_z_suspends_the_command_only_briefly() {
    let starts_programs = "echo $$ > pid; while :; do /bin/true; done";
    let command = format!("trap 'echo continued >> continued' CONT; {starts_programs}");
    let mut shell = OnTerminal::start(&command);
    for presses in 1..=10 {
        shell.press(CTRL_Z);
        wait_for(NOISE * 20, &format!("the command continues {presses} times"), || {
            let text = fs::read_to_string(shell.path("continued")).unwrap_or_default();
            (text.lines().count() >= presses).then_some(())
        });
    }
    let stopped = Command::new("kill").args(["-TERM", shell.read("baton").trim()]).status();
    assert!(stopped.expect("kill runs").success());
    assert_eq!(shell.exit_code(), Some(143), "{}", shell.log());
}

#[test]
fn command_sees_the_size_of_its_window() {
    let shell = OnTerminal::start(&format!("trap 'stty size > size' WINCH; tty > tty; {LOOP}"));
    let tty = shell.read("tty");
    let resized =
        Command::new("stty").args(["-F", tty.trim(), "rows", "41", "cols", "133"]).status();
    assert!(resized.expect("stty runs").success());
    assert_eq!(shell.read("size"), "41 133\n");
}
