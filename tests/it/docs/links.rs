//! Links between the pages of the repository lead to files and headings that exist.
//!
//! `make docs` checks the built book once more.

use super::{files_below, read, root};
use regex::Regex;
use std::path::{Path, PathBuf};

#[test]
fn links_lead_to_files_and_headings() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    for page in pages() {
        for found in link.captures_iter(&without_code(&read(&page))) {
            let target = &found[1];
            if !target.contains("://") {
                check(&page, target);
            }
        }
    }
}

#[test]
fn book_lists_every_page() {
    let summary = read("docs/SUMMARY.md");
    for page in files_below("docs", "md") {
        let name = page.strip_prefix("docs").unwrap().display().to_string();
        assert!(
            name == "SUMMARY.md" || summary.contains(&format!("({name})")),
            "docs/SUMMARY.md does not list {name}"
        );
    }
}

fn pages() -> Vec<PathBuf> {
    let mut pages = files_below("docs", "md");
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let charts =
        ["charts/baton/README.md", "charts/baton-sidecar/README.md", "manifests/README.md"];
    pages.extend(others.into_iter().chain(charts).map(PathBuf::from));
    pages
}

fn check(page: &Path, target: &str) {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => root().join(page),
        file => root().join(page).parent().unwrap().join(file),
    };
    assert!(path.exists(), "{} links to {target}, which does not exist", page.display());
    if !heading.is_empty() {
        let headings = headings(&read(&path));
        let is_there = headings.iter().any(|found| found == heading);
        assert!(is_there, "{} links to {target}: headings {headings:?}", page.display());
    }
}

/// The anchors that mdBook and code hosts make of a page's headings.
fn headings(text: &str) -> Vec<String> {
    let heading = |line: &str| line.trim_start_matches('#').trim().to_lowercase();
    let anchor = |heading: String| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    let text = without_code(text);
    text.lines().filter(|line| line.starts_with('#')).map(heading).map(anchor).collect()
}

fn without_code(text: &str) -> String {
    let blocks = Regex::new(r"(?ms)^ *```.*?^ *```").unwrap();
    let spans = Regex::new(r"`[^`\n]*`").unwrap();
    let without = blocks.replace_all(text, "");
    // A heading keeps the words of a code span; a link in one is no link.
    spans.replace_all(&without, |span: &regex::Captures<'_>| span[0].replace(['`', ']'], "")).into()
}
