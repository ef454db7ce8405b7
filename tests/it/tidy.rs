//! What no compiler holds: one owner for each power, sizes, and lists in README that match the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The longest file of the product, in lines: beyond it a file has more than one idea.
const LONGEST_FILE: usize = 400;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every source file below `folder`, with what stands in it before its tests.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), product));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found.sort();
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
fn each_power_has_one_owner() {
    let sources = sources("src");
    let owners = [
        ("clock_gettime", &["src/process/clock.rs"][..]),
        ("SystemTime::now", &["src/process/clock.rs"]),
        ("process::exit(", &["src/process/watchdog.rs"]),
        (".publish(", &["src/driver.rs", "src/driver/leadership.rs"]),
        (".promise(", &["src/http.rs", "src/driver/leadership.rs"]),
        ("env::var", &["src/cli.rs"]),
        ("servers.spawn(", &["src/supervisor.rs"]),
        ("connections.spawn(", &["src/http/server.rs"]),
        ("count_transition(", &["src/telemetry/metrics.rs", "src/telemetry/reporter.rs"]),
        ("prometheus::", &["src/telemetry/metrics.rs"]),
    ];
    for (power, owners) in owners {
        let used = uses(&sources, power);
        assert!(!used.is_empty(), "nobody uses {power}: is it still called so?");
        for place in used {
            assert!(
                owners.iter().any(|owner| place.starts_with(&format!("{owner}:"))),
                "{power} is used in {place}"
            );
        }
    }
    for task in ["tokio::spawn", "spawn_local", "thread::spawn"] {
        assert_eq!(uses(&sources, task), [""; 0], "{task} starts what nobody awaits");
    }
}

#[test]
fn every_file_says_what_it_is_and_stays_readable() {
    let folders = ["src", "crates", "examples", "tests", "fuzz"];
    for (path, text) in folders.into_iter().flat_map(sources) {
        let lines = text.lines().count();
        assert!(text.starts_with("//! "), "{} does not say at its head what it is", path.display());
        assert!(lines <= LONGEST_FILE, "{} has {lines} lines", path.display());
    }
}

/// What stands between backticks at the start of the first cell of each row of README's table under `heading`.
fn listed(heading: &str, column: &str) -> BTreeSet<String> {
    let readme = read("README.md");
    let section = readme
        .split(&format!("## {heading}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let table = section
        .split(&format!("| {column} |"))
        .nth(1)
        .unwrap_or_else(|| panic!("no table of {column}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        row.trim_start_matches("| ").split(" |").next().unwrap().trim_matches('`').to_owned()
    })
    .collect()
}

fn help(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_baton")).args(arguments).arg("--help").output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn first_words(text: &str, pattern: &str) -> BTreeSet<String> {
    let pattern = regex::Regex::new(pattern).unwrap();
    pattern.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn readme_lists_the_flags_that_there_are_each_with_its_variable() {
    let told = first_words(&help(&["run"]), r"(?m)^ +(?:-\w, )?(--[a-z-]+)");
    let told: BTreeSet<_> = told.into_iter().filter(|flag| flag != "--help").collect();
    let listed: BTreeSet<_> = listed("Command line", "flag")
        .iter()
        .map(|row| row.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(told, listed);
    let variables = first_words(
        &help(&["run"]).split_whitespace().collect::<Vec<_>>().join(" "),
        r"env: (BATON_[A-Z_]+)=",
    );
    let expected: BTreeSet<_> = told
        .iter()
        .map(|flag| {
            format!("BATON_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase())
        })
        .collect();
    assert_eq!(variables, expected);
}

#[test]
fn readme_lists_the_subcommands_that_there_are() {
    let commands = help(&[]);
    let commands =
        commands.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap().to_owned();
    let told = first_words(&commands, r"(?m)^  ([a-z][a-z-]+) ");
    let listed: BTreeSet<_> = listed("Command line", "subcommand")
        .iter()
        .map(|row| row.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(told, listed);
}

#[test]
fn readme_lists_the_exit_codes_that_there_are() {
    let codes: BTreeSet<_> =
        baton::process::exit::Exit::ALL.iter().map(|exit| exit.code().to_string()).collect();
    assert_eq!(codes, listed("Command line", "exit code"));
}

#[test]
fn readme_lists_every_reason() {
    let readme = read("README.md");
    for reason in baton_election::machine::Reason::ALL {
        assert!(readme.contains(&format!("`{reason}`")), "README does not name {reason}");
    }
}

/// README's requests, compared in `http.rs` with what a running sidecar serves.
pub(crate) fn listed_requests() -> BTreeSet<String> {
    listed("Endpoints", "request").iter().map(|row| row.replace('`', "")).collect()
}

/// README's metrics, compared in `http.rs` with what a running sidecar serves.
pub(crate) fn listed_metrics() -> BTreeSet<String> {
    listed("Metrics", "metric")
        .iter()
        .map(|row| row.split('{').next().unwrap().trim_matches('`').to_owned())
        .collect()
}
