//! A CPU quota for candidates: a cgroup of the test, of version 1 or 2. Only root can make one.
//!
//! It is removed when the test binary ends, however it ends: a shell waits for the end of its
//! standard input, and then removes it.

use super::starter::mortal;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The folders that may show the controller `cpu`.
const ROOTS: [&str; 3] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];

/// The length of a period, in microseconds.
const PERIOD: u32 = 100_000;

/// Executes a program in the cgroup below the one with the quota, which is its `$0`.
const ENTER: &str = r#"echo $$ > "$0/inner/cgroup.procs" && exec "$@""#;

/// Removes the cgroups in the folder `$0` with what is left in them. A guard needs a moment without
/// its quota to end by itself.
const REMOVE: &str = r#"cat
    echo max > "$0/cpu.max" || echo -1 > "$0/cpu.cfs_quota_us"
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        find "$0" -depth -type d -exec rmdir {} +
        test -e "$0" || break
        sleep 0.5
        test $attempt -lt 5 || find "$0" -name cgroup.procs -exec cat {} + | xargs -r kill -9
    done"#;

pub(crate) struct CpuQuota {
    folder: PathBuf,
    cleaner: Child,
}

impl CpuQuota {
    /// A tenth of a processor for all processes together, 100m in the words of Kubernetes; `None`,
    /// with a message, if this test may make no such cgroup.
    pub(crate) fn tenth() -> Option<Self> {
        Self::of(PERIOD / 10)
    }

    /// A hundredth.
    pub(crate) fn hundredth() -> Option<Self> {
        Self::of(PERIOD / 100)
    }

    /// This time per period, in microseconds.
    #[expect(clippy::print_stderr, reason = "a skipped test must say that it was skipped")]
    fn of(allowed: u32) -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let name =
            format!("baton-test-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let made = ROOTS.iter().find_map(|root| limited(&Path::new(root).join(&name), allowed));
        let Some(folder) = made else {
            eprintln!("skipped: only root can make a cgroup, and it needs the controller cpu");
            return None;
        };
        let mut cleaner = Command::new("sh");
        cleaner.args(["-c", REMOVE]).arg(&folder).process_group(0);
        cleaner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let cleaner = cleaner.spawn().expect("there is a shell");
        Some(Self { folder, cleaner })
    }

    /// A command that executes `program` under the quota of its cgroup's parent.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = mortal("sh");
        command.env_clear().args(["-c", ENTER]).arg(&self.folder).arg(program);
        command
    }

    /// Puts a running process under the quota. Returns whether it runs.
    pub(crate) fn admit(&self, pid: u32) -> bool {
        fs::write(self.folder.join("inner/cgroup.procs"), pid.to_string()).is_ok()
    }

    /// Puts a process that was admitted back where processes have no quota.
    pub(crate) fn release(&self, pid: u32) {
        let above = self.folder.parent().expect("it is below a root");
        // The process may have ended.
        fs::write(above.join("cgroup.procs"), pid.to_string()).ok();
    }

    /// In how many periods its processes had to wait.
    pub(crate) fn throttled(&self) -> u64 {
        let stat = fs::read_to_string(self.folder.join("cpu.stat")).unwrap_or_default();
        let count = stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse().ok());
        count.unwrap_or_default()
    }
}

/// Makes a cgroup with the quota, and one without below it.
fn limited(folder: &Path, allowed: u32) -> Option<PathBuf> {
    fs::create_dir(folder).ok()?;
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        path.exists() && fs::write(path, text).is_ok()
    };
    let is_limited = write("cpu.max", &format!("{allowed} {PERIOD}"))
        || (write("cpu.cfs_period_us", &PERIOD.to_string())
            && write("cpu.cfs_quota_us", &allowed.to_string()));
    if is_limited && fs::create_dir(folder.join("inner")).is_ok() {
        return Some(folder.to_owned());
    }
    fs::remove_dir(folder).ok();
    None
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        // `wait` closes its standard input first.
        self.cleaner.wait().expect("it is our child");
    }
}
