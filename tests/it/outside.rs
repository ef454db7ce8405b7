//! All that is read from outside, as strange as it can be: what `fuzz/corpus` has, and what lies near that.
//!
//! The targets are those of `make fuzz`, which invents more. A reading that fails there goes into the corpus, and is read
//! here for ever.

#[expect(dead_code, reason = "how much memory a reading holds is measured by the fuzzer alone")]
#[path = "../../fuzz/targets/mod.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// At how many places a file of the corpus is cut, and changed: the longest are read at every so many bytes.
const PLACES: usize = 40;

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

replayed!(credentials, files, flags, http, lease, servers, wire, znodes);

#[test]
fn every_target_has_a_corpus_and_is_replayed() {
    let targets: BTreeSet<_> = targets::ALL.iter().map(|target| target.name.to_owned()).collect();
    let replayed: BTreeSet<_> = REPLAYED.iter().map(ToString::to_string).collect();
    let name = |path: PathBuf| path.file_name().expect("it has one").to_string_lossy().into_owned();
    let folders: BTreeSet<_> = entries(&corpus()).into_iter().map(name).collect();
    assert_eq!(targets, replayed);
    assert_eq!(targets, folders);
}

/// Every file as it is, cut short everywhere, and with each byte made another.
fn replay(name: &str) {
    let target = targets::ALL.iter().find(|target| target.name == name).expect("it is one of them");
    let files = entries(&corpus().join(name));
    assert!(!files.is_empty(), "there is nothing in the corpus of {name}");
    for file in files {
        let seed = fs::read(&file).unwrap();
        Reading { file: &file, bytes: &seed }.read(target);
        for at in (0..seed.len()).step_by(seed.len().div_ceil(PLACES).max(1)) {
            Reading { file: &file, bytes: &seed[..at] }.read(target);
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = seed.clone();
                changed[at] = byte;
                Reading { file: &file, bytes: &changed }.read(target);
            }
        }
    }
}

/// Something that is read, and told where that fails.
struct Reading<'a> {
    file: &'a Path,
    bytes: &'a [u8],
}

impl Reading<'_> {
    fn read(self, target: &targets::Target) {
        (target.read)(self.bytes);
    }
}

#[expect(clippy::print_stderr, reason = "a failure has to show what was read")]
impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "this was read, near {}: \"{}\"",
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
