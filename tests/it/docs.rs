//! The documentation against the program: generated pages, figures, links, and names.
//!
//! Touches the files of the repository and the built program. Start with `reference.rs`, which
//! generates the pages of `docs/reference`: `BATON_REWRITE=1 cargo test --test it -- docs::` rewrites
//! them.

mod figures;
mod links;
mod names;
mod reference;
mod torture;
mod units;

pub(crate) use names::{listed_metrics, listed_requests};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file below `folder` with the extension `extension`, relative to the repository.
pub(crate) fn files_below(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The cells of each row of the table in `page` whose first column is headed `first_column`.
fn rows(page: &str, first_column: &str) -> Vec<Vec<String>> {
    let text = read(page);
    let table = text
        .split(&format!("\n| {first_column} |"))
        .nth(1)
        .unwrap_or_else(|| panic!("{page} has no table headed {first_column}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}
