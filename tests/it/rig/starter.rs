//! Starts the processes of the tests, so that none of them outlives the test binary, however that ends.
//!
//! The kernel kills a process when the thread ends that started it, so also after SIGKILL to the test binary. Without
//! unsafe code only another program can ask for that: setpriv of util-linux. And as the thread of a test ends long
//! before a server that other tests share, one thread that never ends starts them all.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{self, Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

/// Runs a program if its parent is still who started it: that one may have ended before the kernel was asked.
/// The program hears SIGHUP, also where the tests run under `nohup`.
const IF_STARTED_BY: &str = r#"test "$PPID" = "$0" && exec env --default-signal=HUP "$@""#;

/// A command that becomes `program`, and ends with the test binary. Its arguments may follow.
pub(super) fn mortal(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "sh", "-c", IF_STARTED_BY, &process::id().to_string()]);
    command.arg(program.as_ref());
    command
}

/// The same in a mount namespace of its own, which needs no root: the script `enter` prepares it with the `folder`, which it
/// is told as `$0`, and becomes the program.
pub(super) fn mortal_within(enter: &str, folder: &Path, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("unshare");
    // Entering a namespace undoes what makes a process mortal.
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
                reply.send(command.spawn()).expect("who orders waits");
            }
        });
        orders
    });

    // A group of its own: Ctrl-C reaches the test binary alone, and its end reaches the others.
    command.process_group(0);
    let (reply, started) = mpsc::channel();
    STARTER.send((command, reply)).expect("it never ends");
    started.recv().expect("it never ends").expect("util-linux has setpriv and unshare")
}
