//! A running process frozen in a cgroup of its own, as `docker pause` freezes it. Only root can make
//! a cgroup.
//!
//! A shell thaws the process and removes the cgroup when its standard input ends: with the value, or
//! with the test binary, however that ends.

use super::eventually;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The folders of cgroups of version 1 and 2, with the file that freezes, and what it says then.
const FREEZERS: [(&str, &str, [&str; 2]); 3] = [
    ("/sys/fs/cgroup/freezer", "freezer.state", ["FROZEN", "FROZEN\n"]),
    ("/sys/fs/cgroup", "cgroup.freeze", ["1", "1\n"]),
    ("/sys/fs/cgroup/unified", "cgroup.freeze", ["1", "1\n"]),
];

/// Thaws the cgroup `$0`, moves its process back, and removes it.
const THAW: &str = r#"cat
    echo THAWED > "$0/freezer.state" || echo 0 > "$0/cgroup.freeze"
    while read pid; do echo "$pid" > "$0/../cgroup.procs"; done < "$0/cgroup.procs"
    for attempt in 1 2 3 4 5 6 7 8 9 10; do rmdir "$0" && break; sleep 0.1; done"#;

const PATIENCE: Duration = Duration::from_secs(5);

/// A process that is frozen until this is dropped.
pub(crate) struct Freezer {
    cleaner: Child,
}

impl Freezer {
    /// Returns once the process is frozen; `None` if this test may make no such cgroup.
    pub(crate) fn freeze(pid: u32) -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("baton-frozen-{}-{count}", process::id());
        FREEZERS.into_iter().find_map(|(root, file, [order, frozen])| {
            let folder = made(&Path::new(root).join(&name), file)?;
            let mut cleaner = Command::new("sh");
            cleaner.args(["-c", THAW]).arg(&folder).process_group(0);
            cleaner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let this = Self { cleaner: cleaner.spawn().expect("there is a shell") };
            fs::write(folder.join("cgroup.procs"), pid.to_string()).ok()?;
            fs::write(folder.join(file), order).ok()?;
            eventually(PATIENCE, "the process is frozen", || {
                fs::read_to_string(folder.join(file)).is_ok_and(|state| state == frozen)
            });
            Some(this)
        })
    }
}

/// Makes a cgroup if it can freeze.
fn made(folder: &Path, file: &str) -> Option<PathBuf> {
    fs::create_dir(folder).ok()?;
    if folder.join(file).exists() {
        return Some(folder.to_owned());
    }
    fs::remove_dir(folder).ok();
    None
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // `wait` closes its standard input first.
        self.cleaner.wait().expect("it is our child");
    }
}
