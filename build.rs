//! Sets the commit and the compiler for `src/telemetry/build.rs`.
#![expect(clippy::disallowed_methods, reason = "a build script is configured by its environment")]

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=BATON_REVISION");
    // Git names the paths, because in a worktree they are elsewhere, and cargo would rebuild each
    // time if one did not exist.
    for name in ["HEAD", "refs/heads"] {
        if let Some(path) = first_line("git", &["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // The build of an image has no repository, and sets BATON_REVISION.
    let revision = env::var("BATON_REVISION")
        .ok()
        .or_else(|| first_line("git", &["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=BATON_BUILD_REVISION={}", revision.as_deref().unwrap_or("unknown"));
    let rustc = env::var("RUSTC").ok().and_then(|rustc| first_line(&rustc, &["--version"]));
    println!("cargo::rustc-env=BATON_BUILD_RUSTC={}", rustc.as_deref().unwrap_or("unknown"));
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.lines().next()?.to_owned())
}
