//! Another user of this machine, for attacks by that user and candidates that run as that user.
//! Only root can become another user.

use super::scratch::Scratch;
use super::starter::mortal;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// A user with a folder that every user can reach.
pub(crate) struct Stranger {
    pub(crate) uid: u32,
    folder: Scratch,
}

impl Stranger {
    /// The user `uid`; `None`, with a message, if this test does not run as root.
    #[expect(clippy::print_stderr, reason = "a skipped test must say that it was skipped")]
    pub(crate) fn with_uid(uid: u32) -> Option<Self> {
        if fs::metadata("/proc/self").expect("Linux has it").uid() != 0 {
            eprintln!("skipped: only root can act as another user");
            return None;
        }
        let folder = Scratch::new();
        set_mode(folder.path(), 0o755);
        Some(Self { uid, folder })
    }

    /// A new directory with this owner and mode, in a folder that every user can reach.
    pub(crate) fn directory(&self, name: &str, owner: u32, mode: u32) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir(&path).expect("the name is new");
        chown(&path, Some(owner), Some(owner)).expect("this is root");
        set_mode(&path, mode);
        path
    }

    /// A command that executes `program` as this user, without capabilities.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        let uid = self.uid;
        command.args([
            format!("--reuid={uid}"),
            format!("--regid={uid}"),
            "--clear-groups".to_owned(),
        ]);
        // A change of user clears the parent-death signal, so `mortal` sets it again.
        let program = mortal(program);
        command.env_clear().arg(program.get_program()).args(program.get_args());
        command
    }

    /// A copy of the sidecar that every user can execute.
    pub(crate) fn baton() -> &'static str {
        static COPY: LazyLock<(Scratch, String)> = LazyLock::new(|| {
            let folder = Scratch::new();
            set_mode(folder.path(), 0o755);
            let copy = folder.path().join("baton");
            fs::copy(env!("CARGO_BIN_EXE_baton"), &copy).expect("the program is built");
            let path = copy.to_str().expect("temporary paths are UTF-8").to_owned();
            (folder, path)
        });
        &COPY.1
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}
