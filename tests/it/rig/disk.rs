//! A small disk for one test: a tmpfs in a user and mount namespace, which needs no root.
//!
//! One process keeps the namespaces open. Others reach the disk through `/proc/<pid>/root`. The
//! process ends when its standard input is closed, so also when the test is killed.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const MOUNT: &str = r#"mount -t tmpfs -o "$1" tmpfs "$0" && echo mounted && exec cat"#;

pub(crate) struct Disk {
    holder: Child,
    /// The disk, as every process reaches it.
    pub(crate) path: PathBuf,
}

impl Disk {
    /// Mounts a tmpfs with these options over the folder `at`, visible in the namespace only.
    pub(crate) fn mount(at: &Path, options: &str) -> Self {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", MOUNT]).arg(at).arg(options);
        let mut holder = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux is installed");
        let mut line = String::new();
        let output = holder.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it writes text");
        assert_eq!(
            line, "mounted\n",
            "`unshare -rm` must be permitted: this test needs its own disk"
        );
        let path = format!("/proc/{}/root{}", holder.id(), at.display()).into();
        Self { holder, path }
    }

    /// Writes until the disk is full.
    pub(crate) fn fill(&self) {
        let mut filler = File::options()
            .create(true)
            .append(true)
            .open(self.filler())
            .expect("a full disk has inodes left");
        let full = loop {
            if let Err(error) = filler.write_all(&[0; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }

    /// Removes what [`Self::fill`] wrote.
    pub(crate) fn free(&self) {
        fs::remove_file(self.filler()).expect("the disk was filled");
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.holder.kill().expect("it is our child");
        self.holder.wait().expect("it is our child");
    }
}
