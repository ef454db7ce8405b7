//! A temporary folder that is removed when the test binary ends, however it ends.
//!
//! A static is never dropped, and Ctrl-C drops nothing. So a shell waits for the end of its
//! standard input, which comes with the end of this process, and then removes the folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use std::os::unix::process::CommandExt as _;
use tempfile::TempDir;

/// A server that is being killed may still add a file while its folder is removed.
const REMOVE: &str = r#"cat; for _ in 1 2 3 4 5; do rm -rf "$0" && break; sleep 0.1; done"#;

pub(crate) struct Scratch {
    path: PathBuf,
    cleaner: Child,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let path =
            TempDir::with_prefix("baton-server-").expect("temporary folders can be made").keep();
        let mut cleaner = Command::new("sh");
        cleaner.args(["-c", REMOVE]).arg(&path).process_group(0);
        cleaner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { path, cleaner: cleaner.spawn().expect("there is a shell") }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // `wait` closes its standard input first.
        self.cleaner.wait().expect("it is our child");
    }
}
