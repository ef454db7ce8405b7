//! Network file systems, on which a lock might fail to exclude other machines.
//!
//! Pure. Start with [`refuse_remote`].

use crate::process::private_folder::FolderError;
use rustix::fs::FsWord;
use std::path::Path;

/// File systems on which locks or renames may reach other machines late or never, by `statfs(2)`
/// type: the network and cluster file systems in coreutils' `stat.c`. FUSE does not reveal whether
/// it is local.
const REMOTE_FILE_SYSTEMS: [(FsWord, &str); 21] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9P"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0xaad7_aaea, "PanFS"),
    (0xbeef_dead, "StorNext"),
    (0xa501_fcf5, "VxFS"),
    (0x6573_5546, "FUSE, which may be remote"),
    (0x786f_4256, "a shared folder of VirtualBox"),
    (0xbacb_acbc, "a shared folder of VMware"),
    (0x7c7c_6673, "a shared folder of Parallels"),
];

/// Refuses a file system that other machines may share.
pub(crate) fn refuse_remote(file_system: FsWord, path: &Path) -> Result<(), FolderError> {
    match REMOTE_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == file_system) {
        Some((_, kind)) => Err(FolderError::Remote { path: path.to_owned(), kind }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are from linux/magic.h, or coreutils' stat.c if the kernel has none.
    #[test]
    fn remote_file_systems_are_refused() {
        let check =
            |magic| refuse_remote(magic, Path::new("/srv")).map_err(|error| error.to_string());
        let remote = [
            (0x6969, "NFS"),
            (0x6573_5546, "FUSE"),
            (0x7461_636f, "OCFS2"),
            (0x4750_4653, "GPFS"),
            (0x1983_0326, "BeeGFS"),
        ];
        for (magic, name) in remote {
            assert!(
                check(magic).is_err_and(|error| error.contains(&format!("/srv is on {name}"))),
                "{name}"
            );
        }
        let local = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630];
        assert!(
            local.into_iter().all(|magic| check(magic).is_ok()),
            "ext4, XFS, btrfs, tmpfs, overlayfs"
        );
    }
}
