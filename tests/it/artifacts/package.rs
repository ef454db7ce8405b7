//! The Debian package and the tarball: installed, listed, and started.
//!
//! The program is that of the tests, without its symbols. Start with [`MADE`].

use super::root::{Root, files_below};
use crate::rig::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use tempfile::TempDir;

/// The output of a command. Panics with all its output if it fails.
pub(super) fn run(command: &mut Command) -> String {
    let output @ Output { status, .. } = &command.output().unwrap();
    assert!(status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The program without its symbols, and the packages, made once.
static MADE: LazyLock<Scratch> = LazyLock::new(|| {
    let made = Scratch::new();
    let program = made.path().join("baton");
    run(Command::new("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_baton")));
    pack(&program, "022", &made.path().join("packages"));
    made
});

fn program() -> PathBuf {
    MADE.path().join("baton")
}

/// The folder of the packages, made once.
pub(super) fn packages() -> PathBuf {
    MADE.path().join("packages")
}

fn deb() -> PathBuf {
    packages().join(format!("baton_{}-1_amd64.deb", env!("CARGO_PKG_VERSION")))
}

/// Runs `release/package.sh` with this umask, into a new folder.
fn pack(program: &Path, umask: &str, folder: &Path) {
    fs::create_dir(folder).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/release/package.sh");
    let mut command = Command::new("sh");
    command.args(["-c", r#"umask "$1"; shift; exec "$@""#, "sh", umask, script]);
    command.arg(program).arg("amd64").arg(folder);
    run(command.env("SOURCE_DATE_EPOCH", "1700000000"));
}

/// A root with the package, and with the libraries that the tests' program needs.
fn installed() -> Root {
    let root = Root::new();
    root.dpkg(&["--install", deb().to_str().unwrap()]);
    root.add_libraries_of(&program());
    root
}

/// The tarball's files, unpacked as the guide says: as /usr/local.
fn unpacked() -> TempDir {
    let folder = TempDir::new().unwrap();
    let name = format!("baton-{}-linux-amd64.tar.gz", env!("CARGO_PKG_VERSION"));
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(packages().join(name)).args(["--strip-components=1", "-C"]);
    run(tar.arg(folder.path()));
    folder
}

#[test]
fn package_installs_and_removes_its_files_only() {
    let root = installed();
    assert_eq!(root.run(&["/usr/bin/baton", "--version"]).trim(), version());
    assert_eq!(root.dpkg(&["--verify", "baton"]), "", "the checksums are those of the files");
    let names: Vec<String> = files_except_manual(&root.files("usr"));
    assert_eq!(
        names,
        [
            "644 usr/lib/systemd/system/baton-exec@.service",
            "644 usr/lib/systemd/system/baton@.service",
            "644 usr/share/bash-completion/completions/baton",
            "644 usr/share/doc/baton/changelog.Debian.gz",
            "644 usr/share/doc/baton/copyright",
            "644 usr/share/doc/baton/examples/orders.env",
            "644 usr/share/fish/vendor_completions.d/baton.fish",
            "644 usr/share/lintian/overrides/baton",
            "644 usr/share/zsh/vendor-completions/_baton",
            "755 usr/bin/baton",
        ]
    );
    root.dpkg(&["--purge", "baton"]);
    assert_eq!(root.files("usr"), [], "nothing is left");
    assert!(root.files("var/lib/dpkg/info").iter().all(|(path, _)| !is_of_baton(path)));
}

fn version() -> String {
    format!("baton {}", env!("CARGO_PKG_VERSION"))
}

fn is_of_baton(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with("baton")
}

/// The files as `MODE PATH`, without manual pages.
fn files_except_manual(files: &[(PathBuf, u32)]) -> Vec<String> {
    let shown = files.iter().map(|(path, mode)| format!("{mode:o} {}", path.display()));
    let mut names: Vec<_> = shown.filter(|name| !name.contains("/man1/")).collect();
    names.sort();
    names
}

#[test]
fn units_of_the_package_are_valid() {
    let root = installed();
    let units = ["baton@orders.service", "baton-exec@orders.service"];
    assert_eq!(root.complaints(&units), "");
    fs::remove_file(root.path().join("usr/bin/baton")).unwrap();
    let complaints = root.complaints(&units);
    assert!(complaints.contains("/usr/bin/baton is not executable"), "{complaints}");
}

#[test]
fn each_subcommand_has_a_manual_page() {
    let help = run(Command::new(program()).arg("--help"));
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = commands.lines().map(|line| line.split_whitespace().next().unwrap());
    let mut pages: Vec<_> = names
        .filter(|name| *name != "help")
        .map(|name| format!("644 usr/share/man/man1/baton-{name}.1.gz"))
        .collect();
    pages.push("644 usr/share/man/man1/baton.1.gz".to_owned());
    pages.sort();
    let root = installed();
    let files = root.files("usr/share/man/man1");
    let found: Vec<_> =
        files.iter().map(|(path, mode)| format!("{mode:o} {}", path.display())).collect();
    assert_eq!(found, pages);
    for (path, _) in files {
        let page = run(Command::new("gzip").arg("-dc").arg(root.path().join(&path)));
        assert!(page.contains("\n.SH NAME\n"), "{}: {page}", path.display());
    }
}

#[test]
fn bash_completes_subcommands_from_the_package() {
    let root = installed();
    let script = root.path().join("usr/share/bash-completion/completions/baton");
    let complete = r#"source "$1"; COMP_WORDS=(baton re) COMP_CWORD=1
        $(complete -p baton | sed 's/.* -F \([^ ]*\) .*/\1/') baton re baton; echo "${COMPREPLY[*]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", complete, "bash"]).arg(script);
    assert_eq!(run(&mut bash).trim(), "resign");
}

#[test]
fn tarball_unpacks_as_usr_local() {
    let local = unpacked();
    let program = local.path().join("bin/baton");
    assert_eq!(run(Command::new(program).arg("--version")).trim(), version());
    let files = files_below(local.path(), local.path());
    assert_eq!(
        files_except_manual(&files),
        [
            "644 lib/systemd/system/baton-exec@.service",
            "644 lib/systemd/system/baton@.service",
            "644 share/bash-completion/completions/baton",
            "644 share/doc/baton/LICENSE",
            "644 share/doc/baton/examples/orders.env",
            "644 share/fish/vendor_completions.d/baton.fish",
            "644 share/zsh/site-functions/_baton",
            "755 bin/baton",
        ]
    );
    for unit in ["baton@.service", "baton-exec@.service"] {
        let unit = fs::read_to_string(local.path().join("lib/systemd/system").join(unit)).unwrap();
        let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        assert!(started.starts_with("/usr/local/bin/baton"), "{started}");
    }
}

#[test]
fn equal_programs_give_equal_packages() {
    let again = TempDir::new().unwrap();
    let again = again.path().join("packages");
    pack(&program(), "077", &again);
    for (name, _) in files_below(&packages(), &packages()) {
        let [one, two] = [packages(), again.clone()].map(|folder| fs::read(folder.join(&name)));
        assert!(one.unwrap() == two.unwrap(), "{} differs", name.display());
    }
}
