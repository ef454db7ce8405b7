//! A cgroup of version 2 that holds every process of the command.
//!
//! Touches the cgroup file system. Start with [`Cgroup::create`]. It exists where this process may
//! create one: as root, or in a systemd unit with `Delegate=yes`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A cgroup of its own. Removed when dropped.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates a cgroup below that of this process, named after `number`. `None` without the right
    /// to do so, or on a kernel without `cgroup.kill` (before 5.14).
    pub fn create(number: i32) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let cgroup = Self(own_folder(&own, &mounts)?.join(format!("baton-{number}")));
        // A killed guard with this number may have left one.
        fs::remove_dir(&cgroup.0).ok();
        fs::create_dir(&cgroup.0).ok()?;
        cgroup.0.join("cgroup.kill").exists().then_some(cgroup)
    }

    /// Moves a process into it.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }

    /// Kills every process in it: <https://docs.kernel.org/admin-guide/cgroup-v2.html>.
    pub fn kill(&self) -> io::Result<()> {
        fs::write(self.0.join("cgroup.kill"), "1")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that was moved into it keeps it, and nothing depends on it.
        fs::remove_dir(&self.0).ok();
    }
}

/// The folder of the cgroup in `own` (`/proc/self/cgroup`), by `mounts` (`/proc/self/mountinfo`).
fn own_folder(own: &str, mounts: &str) -> Option<PathBuf> {
    let cgroup = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, mounted_at) = (fields.next()?, fields.next()?);
        let below = Path::new(cgroup).strip_prefix(root).ok()?;
        Some(Path::new(mounted_at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 0:20 / /proc rw - proc proc rw\n\
                          30 1 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

    #[test]
    fn own_folder_is_below_the_mount() {
        let found = own_folder("0::/system.slice/orders.service\n", MOUNTS);
        assert_eq!(found.as_deref(), Some(Path::new("/sys/fs/cgroup/system.slice/orders.service")));
    }

    #[test]
    fn mount_of_a_part_hides_its_root() {
        let mounts = MOUNTS.replace("/ /sys/fs/cgroup", "/kubepods/pod1 /sys/fs/cgroup");
        let found = own_folder("0::/kubepods/pod1/app\n", &mounts);
        assert_eq!(found.as_deref(), Some(Path::new("/sys/fs/cgroup/app")));
        assert_eq!(own_folder("0::/elsewhere\n", &mounts), None);
    }

    #[test]
    fn version_1_has_none() {
        assert_eq!(own_folder("12:cpu:/x\n", MOUNTS), None);
        assert_eq!(
            own_folder("0::/\n", "30 1 0:27 / /sys/fs/cgroup/cpu rw - cgroup cpu rw\n"),
            None
        );
    }
}
