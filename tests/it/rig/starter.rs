//! Starts the processes of the tests so that none outlives the test binary, however it ends.
//!
//! The kernel kills a process when the thread that started it ends, even after SIGKILL to the test
//! binary. Without unsafe code, only another program can request that: setpriv of util-linux. The
//! thread of a test ends before a server that tests share, so one permanent thread starts them all.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{self, Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

/// Runs a program if its parent is still the one that started it: the parent may have ended before
/// the kernel got the request. SIGHUP reaches the program even if the tests run under `nohup`.
const IF_STARTED_BY: &str = r#"test "$PPID" = "$0" && exec env --default-signal=HUP "$@""#;

/// A command that executes `program`, which ends with the test binary. The caller may add
/// arguments.
pub(super) fn mortal(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "sh", "-c", IF_STARTED_BY, &process::id().to_string()]);
    command.arg(program.as_ref());
    command
}

/// The same in a mount namespace, which needs no root: the script `enter` prepares it from the
/// `folder`, its `$0`, and executes the program.
pub(super) fn mortal_within(enter: &str, folder: &Path, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("unshare");
    // Entering a namespace clears the parent-death signal, so `mortal` sets it inside.
    let program = mortal(program);
    command.args(["-rm", "sh", "-c", enter]).arg(folder).env_clear();
    command.arg(program.get_program()).args(program.get_args());
    command
}

/// Starts a [`mortal`] command.
pub(super) fn start(mut command: Command) -> Child {
    type Order = (Command, Sender<io::Result<Child>>);
    static STARTER: LazyLock<Sender<Order>> = LazyLock::new(|| {
        let (orders, received) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in received {
                reply.send(command.spawn()).expect("the caller waits");
            }
        });
        orders
    });

    // A group of its own: Ctrl-C reaches the test binary alone, whose end reaches the others.
    command.process_group(0);
    let (reply, started) = mpsc::channel();
    STARTER.send((command, reply)).expect("it never ends");
    started.recv().expect("it never ends").expect("util-linux has setpriv and unshare")
}
