//! A root folder of its own, into which dpkg installs a package.
//!
//! Touches a temporary folder, and processes in user namespaces. Start with [`Root::new`].

use super::package::run;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub(super) struct Root {
    folder: TempDir,
}

impl Root {
    /// An empty root, with dpkg's database and nothing else.
    pub(super) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let database = folder.path().join("var/lib/dpkg");
        for part in ["info", "updates"] {
            fs::create_dir_all(database.join(part)).unwrap();
        }
        for part in ["status", "available"] {
            fs::write(database.join(part), "").unwrap();
        }
        Self { folder }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs dpkg on this root, as a user that is root only in its own namespace.
    pub(super) fn dpkg(&self, arguments: &[&str]) -> String {
        let root = format!("--root={}", self.path().display());
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "dpkg", &root]).args(arguments);
        // Where dpkg looks for ldconfig and start-stop-daemon.
        run(command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
    }

    /// The libraries of a program of this machine, copied to where it looks for them. A program of a
    /// release has none.
    pub(super) fn add_libraries_of(&self, program: &Path) {
        let libraries = run(Command::new("ldd").arg(program));
        for word in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
            let copy = self.path().join(word.trim_start_matches('/'));
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(word, copy).unwrap();
        }
    }

    /// Runs a program of this root, which sees no other files.
    pub(super) fn run(&self, command: &[&str]) -> String {
        let root = format!("--root={}", self.path().display());
        run(Command::new("unshare").args(["--map-root-user", &root]).args(command).env_clear())
    }

    /// The messages of systemd about units of this root.
    pub(super) fn complaints(&self, units: &[&str]) -> String {
        // The targets that units refer to, which systemd's own package brings.
        let system = self.path().join("etc/systemd/system");
        fs::create_dir_all(&system).unwrap();
        for target in ["basic", "multi-user", "network-online", "shutdown", "sysinit"] {
            fs::write(system.join(format!("{target}.target")), "[Unit]\n").unwrap();
        }
        let root = format!("--root={}", self.path().display());
        let mut command = Command::new("systemd-analyze");
        command.args([&root, "verify", "--man=no", "--recursive-errors=no"]).args(units);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), text.is_empty(), "{text}");
        text
    }

    /// Every file below `folder`, relative to the root, with its mode.
    pub(super) fn files(&self, folder: &str) -> Vec<(PathBuf, u32)> {
        files_below(&self.path().join(folder), self.path())
    }
}

/// Every file below `folder`, relative to `base`, with its mode.
pub(super) fn files_below(folder: &Path, base: &Path) -> Vec<(PathBuf, u32)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, base));
        } else {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
            found.push((path.strip_prefix(base).unwrap().to_owned(), mode));
        }
    }
    found.sort();
    found
}
