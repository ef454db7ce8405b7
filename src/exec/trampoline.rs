//! The trampoline: a process that prepares itself and then becomes the command.
//!
//! Touches its own process attributes, and executes the command. Start with [`run`]. Setting these
//! attributes between fork and exec would need unsafe code.

use crate::cli::Trampoline;
use crate::exec::channel::{Channel, Received};
use crate::exec::messages::SpawnFailure;
use crate::exec::terminal::Terminal;
use crate::process::exit::Exit;
use nix::sys::signal::SigSet;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setpgid};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Variables of systemd that are meant for Baton, and not for the command.
const VARIABLES_OF_SYSTEMD: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];
/// The exit codes of POSIX shells for a command that is missing, or cannot be executed.
const NOT_FOUND: u8 = 127;
const CANNOT_EXECUTE: u8 = 126;

/// Becomes the command. Returns only if that fails, after it has told the guard.
pub fn run(arguments: &Trampoline) -> Exit {
    let Ok(channel) = Channel::from_stdin() else { return Exit::Usage };
    let Ok(Received::Message((), Some(stdin))) = channel.wait::<()>() else { return Exit::Usage };
    let failure = match prepare(arguments).and_then(|()| Ok(rustix::stdio::dup2_stdin(stdin)?)) {
        Ok(()) => execute(arguments),
        Err(error) => SpawnFailure {
            message: format!("cannot prepare the command: {error}"),
            code: CANNOT_EXECUTE,
        },
    };
    channel.send(&failure, None).ok();
    Exit::Usage
}

fn prepare(arguments: &Trampoline) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(Pid::as_raw_pid) != Some(arguments.parent) {
        return Err(io::Error::other("the guard has ended"));
    }
    setpgid(None, None)?;
    if arguments.terminal {
        Terminal::give_to_own_group()?;
    }
    rustix::process::nice(arguments.nice)?;
    // The guard blocks every signal, and children inherit that.
    SigSet::empty().thread_set_mask()?;
    Ok(())
}

fn execute(arguments: &Trampoline) -> SpawnFailure {
    let (program, rest) = arguments.command.split_first().expect("clap requires a command");
    let mut command = Command::new(program);
    command.args(rest);
    for variable in VARIABLES_OF_SYSTEMD {
        command.env_remove(variable);
    }
    let error = command.exec();
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
    SpawnFailure { message: format!("cannot execute {}: {error}", program.display()), code }
}
