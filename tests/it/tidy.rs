//! Source rules that no compiler checks: one owner per capability, module heads, and file sizes.
//!
//! Touches the source files. Start with [`sources`].

use crate::docs::{files_below, read};
use std::path::PathBuf;

/// The most lines that a file may have before its tests. A longer one has more than one purpose.
const LONGEST_FILE: usize = 400;

/// Every source file below `folder`, with its text before its tests.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let before_tests = |path: PathBuf| {
        let text = read(&path).split("#[cfg(test)]\nmod tests").next().unwrap().to_owned();
        (path, text)
    };
    let found: Vec<_> = files_below(folder, "rs").into_iter().map(before_tests).collect();
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

/// The lines of code, without comments, that contain `word`, as `file: line`.
fn uses(sources: &[(PathBuf, String)], word: &str) -> Vec<String> {
    let code = |line: &&str| !line.trim_start().starts_with("//");
    sources
        .iter()
        .flat_map(|(path, text)| text.lines().filter(code).map(move |line| (path, line)))
        .filter(|(_, line)| line.contains(word))
        .map(|(path, line)| format!("{}: {}", path.display(), line.trim()))
        .collect()
}

#[test]
fn each_capability_has_its_owners() {
    let sources = sources("src");
    let owners = [
        ("clock_gettime", &["src/process/clock.rs"][..]),
        ("SystemTime::now", &["src/process/clock.rs"]),
        ("process::exit(", &["src/process/watchdog.rs"]),
        (".publish(", &["src/driver.rs", "src/driver/leadership.rs", "src/driver/releases.rs"]),
        (".promise(", &["src/http.rs", "src/http/leader.rs", "src/driver/leadership.rs"]),
        (".promise_to_file(", &["src/status_file.rs", "src/driver/leadership.rs"]),
        ("env::var", &["src/cli/environment.rs"]),
        (".spawn()", &["src/process/children.rs", "src/exec/guard.rs"]),
        ("servers.spawn(", &["src/supervisor.rs"]),
        ("connections.spawn(", &["src/http/server.rs"]),
        ("count_transition(", &["src/telemetry/metrics.rs", "src/telemetry/reporter.rs"]),
        ("prometheus::", &["src/telemetry/metrics.rs"]),
    ];
    for (capability, owners) in owners {
        let used = uses(&sources, capability);
        assert!(!used.is_empty(), "no source uses {capability}: was it renamed?");
        for line in used {
            assert!(
                owners.iter().any(|owner| line.starts_with(&format!("{owner}:"))),
                "{capability} is used in {line}"
            );
        }
    }
    for task in ["tokio::spawn", "spawn_local", "thread::spawn"] {
        assert_eq!(
            uses(&sources, task),
            [""; 0],
            "{task} starts a task that the supervisor does not await"
        );
    }
}

#[test]
fn every_file_has_a_head_and_at_most_400_lines() {
    let folders = ["src", "crates", "examples", "tests", "fuzz"];
    for (path, text) in folders.into_iter().flat_map(sources) {
        let lines = text.lines().count();
        assert!(text.starts_with("//! "), "{} has no module head", path.display());
        assert!(lines <= LONGEST_FILE, "{} has {lines} lines", path.display());
    }
}
