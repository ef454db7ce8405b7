//! A temporary folder that is gone when the test binary is, however that ends.
//!
//! What is in a static is never dropped, and Ctrl-C drops nothing. So a shell waits for the end of its
//! standard input, which comes with the end of this process, and removes the folder then.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use std::os::unix::process::CommandExt as _;
use tempfile::TempDir;

/// Servers that are just being killed may add a file while their folder is being removed.
const REMOVE: &str = r#"cat; for _ in 1 2 3 4 5; do rm -rf "$0" && break; sleep 0.1; done"#;

pub(crate) struct Scratch {
    path: PathBuf,
    janitor: Child,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let path =
            TempDir::with_prefix("baton-server-").expect("temporary folders can be made").keep();
        let mut janitor = Command::new("sh");
        janitor.args(["-c", REMOVE]).arg(&path).process_group(0);
        janitor.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { path, janitor: janitor.spawn().expect("there is a shell") }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Closes its standard input first.
        self.janitor.wait().expect("nobody else has waited for it");
    }
}
