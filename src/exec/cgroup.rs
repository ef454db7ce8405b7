//! The cgroups of this process, and one of version 2 that holds every process of the command.
//!
//! Touches the cgroup file system. Start with [`Cgroup::create`]. It exists where this process may
//! create one: as root, or in a systemd unit with `Delegate=yes`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A hierarchy of cgroups. A machine may have several: cgroups(7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hierarchy {
    /// Version 2.
    Unified,
    /// Version 1, with the controller `cpu`.
    Cpu,
}

impl Hierarchy {
    /// The path of the cgroup, if this line of `/proc/self/cgroup` is of this hierarchy.
    fn cgroup(self, line: &str) -> Option<&str> {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_own = match self {
            Self::Unified => number == "0" && controllers.is_empty(),
            Self::Cpu => has_cpu(controllers),
        };
        is_own.then_some(path)
    }

    /// Whether a file system with this type and these options shows this hierarchy.
    fn is_shown_by(self, file_system: &str, options: &str) -> bool {
        match self {
            Self::Unified => file_system == "cgroup2",
            Self::Cpu => file_system == "cgroup" && has_cpu(options),
        }
    }
}

fn has_cpu(list: &str) -> bool {
    list.split(',').any(|word| word == "cpu")
}

/// The folder of this process's cgroup, and those of its ancestors that are visible here. Empty if
/// the machine has no such hierarchy.
pub fn own_folders(hierarchy: Hierarchy) -> Vec<PathBuf> {
    let [own, mounts] = ["cgroup", "mountinfo"]
        .map(|file| fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default());
    folders(hierarchy, &own, &mounts).unwrap_or_default()
}

/// The same by `own` (`/proc/self/cgroup`) and `mounts` (`/proc/self/mountinfo`).
fn folders(hierarchy: Hierarchy, own: &str, mounts: &str) -> Option<Vec<PathBuf>> {
    let cgroup = own.lines().find_map(|line| hierarchy.cgroup(line))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = after.split(' ');
        let (file_system, options) = (fields.next()?, fields.nth(1)?);
        if !hierarchy.is_shown_by(file_system, options) {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, mounted_at) = (fields.next()?, fields.next()?);
        let below = Path::new(cgroup).strip_prefix(root).ok()?;
        let own = Path::new(mounted_at).join(below);
        let visible = own.ancestors().take_while(|folder| folder.starts_with(mounted_at));
        Some(visible.map(Path::to_owned).collect())
    })
}

/// A cgroup of its own. Removed when dropped.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates a cgroup below that of this process, named after the guard. `None` without the right
    /// to do so, or on a kernel without `cgroup.kill` (before 5.14).
    pub fn create(guard: i32) -> Option<Self> {
        let cgroup = Self::of(guard)?;
        // A killed guard with this number may have left one.
        fs::remove_dir(&cgroup.0).ok();
        fs::create_dir(&cgroup.0).ok()?;
        cgroup.0.join("cgroup.kill").exists().then_some(cgroup)
    }

    /// The cgroup that a guard of this process has left, if there is one.
    pub fn left_by(guard: i32) -> Option<Self> {
        Self::of(guard).filter(|cgroup| cgroup.0.exists())
    }

    fn of(guard: i32) -> Option<Self> {
        let own = own_folders(Hierarchy::Unified).into_iter().next()?;
        Some(Self(own.join(format!("baton-{guard}"))))
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

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 0:20 / /proc rw - proc proc rw\n\
                          30 1 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    /// Version 1 has a mount for each set of controllers, and may have version 2 beside them.
    const MOUNTS_OF_BOTH: &str = "31 1 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
         32 1 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
         33 1 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[track_caller]
    fn assert_folders(hierarchy: Hierarchy, own: &str, mounts: &str, expected: &[&str]) {
        let found = folders(hierarchy, own, mounts).unwrap_or_default();
        assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>());
    }

    #[test]
    fn own_folders_end_with_the_mount() {
        let expected = [
            "/sys/fs/cgroup/system.slice/orders.service",
            "/sys/fs/cgroup/system.slice",
            "/sys/fs/cgroup",
        ];
        let own = "0::/system.slice/orders.service\n";
        assert_folders(Hierarchy::Unified, own, MOUNTS, &expected);
        assert_folders(Hierarchy::Unified, "0::/\n", MOUNTS, &expected[2..]);
    }

    #[test]
    fn mount_of_a_part_hides_its_root() {
        let mounts = MOUNTS.replace("/ /sys/fs/cgroup", "/kubepods/pod1 /sys/fs/cgroup");
        let expected = ["/sys/fs/cgroup/app", "/sys/fs/cgroup"];
        assert_folders(Hierarchy::Unified, "0::/kubepods/pod1/app\n", &mounts, &expected);
        assert_folders(Hierarchy::Unified, "0::/elsewhere\n", &mounts, &[]);
    }

    #[test]
    fn each_hierarchy_has_its_own_folders() {
        let own = "5:cpuset:/sets\n4:cpu,cpuacct:/docker/app\n0::/user.slice\n";
        let cpu = "/sys/fs/cgroup/cpu,cpuacct";
        let of_cpu = [&format!("{cpu}/docker/app"), &format!("{cpu}/docker"), cpu];
        assert_folders(Hierarchy::Cpu, own, MOUNTS_OF_BOTH, &of_cpu);
        let unified = ["/sys/fs/cgroup/unified/user.slice", "/sys/fs/cgroup/unified"];
        assert_folders(Hierarchy::Unified, own, MOUNTS_OF_BOTH, &unified);
    }

    #[test]
    fn missing_hierarchy_has_no_folders() {
        assert_folders(Hierarchy::Unified, "12:cpu:/x\n", MOUNTS, &[]);
        assert_folders(Hierarchy::Cpu, "0::/x\n", MOUNTS, &[]);
        let version_1 = "30 1 0:27 / /sys/fs/cgroup/cpu rw - cgroup cpu rw,cpu\n";
        assert_folders(Hierarchy::Unified, "0::/\n", version_1, &[]);
        assert_folders(Hierarchy::Cpu, "1:cpuset:/\n", version_1, &[]);
    }
}
