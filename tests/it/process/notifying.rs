//! The messages to systemd, with a socket of the test in the place of systemd's.

use crate::rig::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// The period of the watchdog: a ping is due in each half.
const WATCHDOG: Duration = Duration::from_secs(1);

/// How long any message may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sidecar, and the socket that it notifies.
struct Notified {
    process: Child,
    socket: UnixDatagram,
    _folder: TempDir,
}

impl Notified {
    fn start(address: &SocketAddr, name: &str, folder: TempDir, watchdog_pid: Option<u32>) -> Self {
        let socket = UnixDatagram::bind_addr(address).expect("the address is free");
        socket.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_baton")]).env_clear();
        command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        command.envs(watchdog_pid.map(|pid| ("WATCHDOG_PID", pid.to_string())));
        command.args(["--election=orders", "--backend=file", "--listen=127.0.0.1:0"]);
        command.arg("--probe-listen=none");
        command.arg(format!("--directory={}", folder.path().display()));
        let process = command.stderr(Stdio::null()).spawn().expect("the program is built");
        Self { process, socket, _folder: folder }
    }

    /// At a path in a temporary folder.
    fn at_a_path(watchdog_pid: Option<u32>) -> Self {
        let folder = tempfile::tempdir().expect("temporary folders can be made");
        let path = folder.path().join("notify");
        let address = SocketAddr::from_pathname(&path).expect("the path is short");
        let name = path.to_str().expect("the path is text").to_owned();
        Self::start(&address, &name, folder, watchdog_pid)
    }

    /// The next message.
    #[track_caller]
    fn next(&self) -> String {
        let mut buffer = [0; 256];
        let length = self.socket.recv(&mut buffer).expect("a message arrives");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// The messages that have arrived.
    fn arrived(&self) -> Vec<String> {
        self.socket.set_nonblocking(true).expect("it is a socket");
        let mut buffer = [0; 256];
        let messages = std::iter::from_fn(|| {
            let length = self.socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
        });
        let messages = messages.collect();
        self.socket.set_nonblocking(false).expect("it is a socket");
        messages
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process ID"), signal).expect("it lives");
    }

    /// Stops it. Returns its last message and its exit code.
    fn stop(mut self) -> (String, Option<i32>) {
        self.signal(Signal::TERM);
        let last = wait_for(PATIENCE, "it reports its stop", || {
            Some(self.next()).filter(|message| message != "WATCHDOG=1")
        });
        (last, self.process.wait().expect("it is our child").code())
    }
}

#[test]
fn ready_pings_and_stop_are_reported() {
    let notified = Notified::at_a_path(None);
    let messages = [(); 4].map(|()| notified.next());
    assert_eq!(messages, ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]);
    assert_eq!(notified.stop(), ("STOPPING=1".to_owned(), Some(0)));
}

#[test]
fn paused_process_sends_no_ping() {
    let notified = Notified::at_a_path(None);
    assert_eq!([(); 2].map(|()| notified.next()), ["READY=1", "WATCHDOG=1"]);
    notified.signal(Signal::STOP);
    // A ping that was sent before the signal took effect still arrives.
    sleep(WATCHDOG / 2);
    drop(notified.arrived());
    sleep(2 * WATCHDOG);
    assert_eq!(notified.arrived(), [""; 0]);
    notified.signal(Signal::CONT);
    assert_eq!(notified.next(), "WATCHDOG=1");
    assert_eq!(notified.stop().1, Some(0));
}

#[test]
fn watchdog_of_another_process_gets_no_ping() {
    let notified = Notified::at_a_path(Some(1));
    assert_eq!(notified.next(), "READY=1");
    sleep(2 * WATCHDOG);
    assert_eq!(notified.arrived(), [""; 0]);
    assert_eq!(notified.stop(), ("STOPPING=1".to_owned(), Some(0)));
}

#[test]
fn abstract_address_is_notified() {
    let name = format!("baton-it-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("the name is short");
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    let notified = Notified::start(&address, &format!("@{name}"), folder, None);
    assert_eq!(notified.next(), "READY=1");
    assert_eq!(notified.stop(), ("STOPPING=1".to_owned(), Some(0)));
}
