//! Names in the documentation that the program, its tests, or its sources define.

use super::{files_below, read, rows};
use baton::kubernetes::container::FLAGS;
use baton::process::exit::Exit;
use baton_election::machine::Reason;
use regex::Regex;
use std::collections::BTreeSet;

/// The requests of `docs/reference/http.md`, which `http.rs` sends to a running sidecar.
pub(crate) fn listed_requests() -> BTreeSet<String> {
    first_cells("docs/reference/http.md", "request")
}

/// The metrics of `docs/reference/metrics.md`.
pub(crate) fn listed_metrics() -> BTreeSet<String> {
    let names = first_cells("docs/reference/metrics.md", "metric").into_iter();
    let names = names.map(|name| name.split('{').next().unwrap().to_owned());
    names.filter(|name| !name.starts_with("process_")).collect()
}

fn first_cells(page: &str, column: &str) -> BTreeSet<String> {
    rows(page, column).iter().map(|row| row[0].replace('`', "")).collect()
}

#[test]
fn exit_codes_are_those_of_the_program() {
    let codes = Exit::ALL.iter().map(|exit| exit.code().to_string());
    assert_eq!(
        first_cells("docs/reference/exit-codes.md", "exit code"),
        codes.collect::<BTreeSet<_>>()
    );
}

#[test]
fn annotation_flags_are_listed() {
    let text = read("docs/guides/platform.md");
    let list = text.split("Flags that an annotation can set: ").nth(1).unwrap();
    let list = list.split("\n\n").next().unwrap();
    let flag = Regex::new("`([a-z-]+)`").unwrap();
    let listed: Vec<_> = flag.captures_iter(list).map(|found| found[1].to_owned()).collect();
    assert_eq!(listed, FLAGS);
}

#[test]
fn reasons_are_listed() {
    let text = read("docs/reference/metrics.md");
    for reason in Reason::ALL {
        assert!(text.contains(&format!("`{reason}`")), "the metrics page does not name {reason}");
    }
}

#[test]
fn log_events_are_those_of_the_sources() {
    let event = Regex::new(r#"event = "([a-z_]+)""#).unwrap();
    let diagnostic = Regex::new(r"(?s)fn event\(&self\).*?\n    \}\n").unwrap();
    let name = Regex::new(r#""([a-z_]+)""#).unwrap();
    let mut events = BTreeSet::new();
    let sources = files_below("src", "rs").into_iter();
    for source in sources.chain(files_below("crates/baton-election/src", "rs")) {
        let text = read(source);
        events.extend(event.captures_iter(&text).map(|found| found[1].to_owned()));
        for function in diagnostic.find_iter(&text) {
            events.extend(name.captures_iter(function.as_str()).map(|found| found[1].to_owned()));
        }
    }
    assert_eq!(first_cells("docs/reference/logs.md", "event"), events);
}

/// A page about evidence names only mutants, transcripts, and source files that exist.
#[test]
fn safety_page_names_evidence_that_exists() {
    let text = read("docs/internals/safety.md");
    let stems = |folder, extension| -> BTreeSet<String> {
        let files = files_below(folder, extension).into_iter();
        files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    let mutants = stems("crates/baton-sim/mutants", "patch");
    let transcripts = stems("crates/baton-election/tests/transcripts", "txt");
    let sources: Vec<_> = files_below("src", "rs")
        .into_iter()
        .chain(files_below("crates", "rs"))
        .map(|path| path.display().to_string())
        .collect();
    let word = Regex::new(r"`([a-z0-9_./-]+)`").unwrap();
    for found in word.captures_iter(&text) {
        let name = &found[1];
        let exists = if let Some(transcript) = name.strip_suffix(".txt") {
            transcripts.contains(transcript)
        } else if name.strip_suffix(".rs").is_some() {
            sources.iter().any(|source| source.ends_with(&format!("/{name}")) || source == name)
        } else if name.contains('/') {
            super::root().join(name).exists()
        } else {
            !name.contains('-') || mutants.contains(name)
        };
        assert!(exists, "docs/internals/safety.md names {name}, which does not exist");
    }
}

#[test]
fn architecture_names_files_that_exist() {
    let text = read("ARCHITECTURE.md");
    let paths: Vec<_> = ["src", "crates", "tests", "charts", "docs"]
        .into_iter()
        .flat_map(|folder| ["rs", "yaml", "toml", "md"].map(|kind| files_below(folder, kind)))
        .flatten()
        .map(|path| format!("/{}", path.display()))
        .collect();
    let word = Regex::new(r"`([a-z0-9_/-]+\.(?:rs|yaml|toml|md))`").unwrap();
    for found in word.captures_iter(&text) {
        let name = &found[1];
        let exists = super::root().join(name).exists()
            || paths.iter().any(|path| path.ends_with(&format!("/{name}")));
        assert!(exists, "ARCHITECTURE.md names {name}, which does not exist");
    }
}
