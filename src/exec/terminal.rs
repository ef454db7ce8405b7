//! Hands the terminal to the command and takes it back.
//!
//! Touches the controlling terminal. Start with [`Terminal::in_foreground`]. Callers block SIGTTOU,
//! which stops a background process that changes the foreground group: tcsetpgrp(3).

use nix::sys::signal::{SigSet, Signal};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::fs::{File, OpenOptions};
use std::io;

/// The controlling terminal, which this process group has in the foreground.
#[derive(Debug)]
pub struct Terminal(File);

impl Terminal {
    /// The terminal, if there is one and this process group is in its foreground.
    pub fn in_foreground() -> Option<Self> {
        let terminal = open().ok()?;
        (tcgetpgrp(&terminal).ok()? == getpgrp()).then_some(Self(terminal))
    }

    /// Makes the group of this process the foreground group, so that Ctrl-C reaches it alone.
    pub fn give_to_own_group() -> io::Result<()> {
        tcsetpgrp(open()?, getpgrp())?;
        Ok(())
    }

    /// Makes the group of this process the foreground group again, after the guard could not.
    pub fn restore_to_own_group() {
        let mut background = SigSet::empty();
        background.add(Signal::SIGTTOU);
        // Without a terminal, there is nothing to restore.
        if let (Ok(terminal), Ok(())) = (open(), background.thread_block()) {
            Self(terminal).take_back();
            background.thread_unblock().ok();
        }
    }

    /// Makes the group of this process the foreground group again.
    pub fn take_back(&self) {
        // The terminal may be closed by now.
        tcsetpgrp(&self.0, getpgrp()).ok();
    }
}

fn open() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}
