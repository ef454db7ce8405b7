//! Replays `fuzz/corpus` and mutations of it through every parser of untrusted input.
//!
//! The targets are those of `make fuzz`. An input that fails there is added to the corpus, so it is
//! a regression test here.

#[expect(dead_code, reason = "only the fuzzer measures how much memory an input takes")]
#[path = "../../fuzz/targets/mod.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// The most positions at which a file of the corpus is truncated and changed.
const MAX_POSITIONS: usize = 40;

macro_rules! replayed {
    ($($target:ident),*) => {
        const REPLAYED: &[&str] = &[$(stringify!($target)),*];

        $(
            #[test]
            fn $target() {
                replay(stringify!($target));
            }
        )*
    };
}

replayed!(credentials, etcd, files, flags, http, lease, servers, wire, znodes);

#[test]
fn every_target_has_a_corpus_and_is_replayed() {
    let targets: BTreeSet<_> = targets::ALL.iter().map(|target| target.name.to_owned()).collect();
    let replayed: BTreeSet<_> = REPLAYED.iter().map(ToString::to_string).collect();
    let name = |path: PathBuf| path.file_name().expect("it has one").to_string_lossy().into_owned();
    let folders: BTreeSet<_> = entries(&corpus()).into_iter().map(name).collect();
    assert_eq!(targets, replayed);
    assert_eq!(targets, folders);
}

/// Feeds every file of the target's corpus to the target: as it is, truncated, and with changed
/// bytes.
fn replay(name: &str) {
    let target = targets::ALL.iter().find(|target| target.name == name).expect("it is one of them");
    let files = entries(&corpus().join(name));
    assert!(!files.is_empty(), "there is nothing in the corpus of {name}");
    for file in files {
        let seed = fs::read(&file).unwrap();
        Input { file: &file, bytes: &seed }.run(target);
        for at in (0..seed.len()).step_by(seed.len().div_ceil(MAX_POSITIONS).max(1)) {
            Input { file: &file, bytes: &seed[..at] }.run(target);
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = seed.clone();
                changed[at] = byte;
                Input { file: &file, bytes: &changed }.run(target);
            }
        }
    }
}

/// An input of a target, printed if the target panics.
struct Input<'a> {
    file: &'a Path,
    bytes: &'a [u8],
}

impl Input<'_> {
    fn run(self, target: &targets::Target) {
        (target.read)(self.bytes);
    }
}

#[expect(clippy::print_stderr, reason = "a failure has to show its input")]
impl Drop for Input<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "the input, derived from {}: \"{}\"",
                self.file.display(),
                self.bytes.escape_ascii()
            );
        }
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
