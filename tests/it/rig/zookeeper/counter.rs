//! Sets the counter that numbers a path's children, in the server's files: creating two billion
//! znodes would take too long.

use std::fs;
use std::path::{Path, PathBuf};

/// The bytes after each checksum of a snapshot.
const SEAL: &[u8] = b"\0\0\0\x01/";

/// Sets the number of the next child of `path` in the newest snapshot of a stopped server.
pub(super) fn set(data: &Path, path: &str, next: i32) {
    let file = newest_snapshot(&data.join("version-2"));
    let old = fs::read(&file).expect("the snapshot exists");
    let mut new = old.clone();
    let at = counter_offset(&old, path);
    new[at..at + 4].copy_from_slice(&next.to_be_bytes());
    seal(&old, &mut new);
    fs::write(file, new).expect("the folder is ours");
}

fn newest_snapshot(folder: &Path) -> PathBuf {
    let zxid = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("snapshot.")?.to_owned();
        u64::from_str_radix(&name, 16).ok()
    };
    let files =
        fs::read_dir(folder).expect("the server has data").flatten().map(|file| file.path());
    files
        .filter(|path| zxid(path).is_some())
        .max_by_key(zxid)
        .expect("each start writes a snapshot")
}

/// The offset of the counter. A serialized znode is its path, its data, the number of its access
/// list, and a Stat, whose sixth field is the counter.
fn counter_offset(snapshot: &[u8], path: &str) -> usize {
    let length =
        |at: usize| i32::from_be_bytes(snapshot[at..at + 4].try_into().expect("four bytes"));
    let named =
        [&i32::try_from(path.len()).expect("it is short").to_be_bytes()[..], path.as_bytes()]
            .concat();
    let found = snapshot.windows(named.len()).position(|bytes| bytes == named);
    let data = found.unwrap_or_else(|| panic!("{path} is not in the snapshot")) + named.len();
    data + 4 + usize::try_from(length(data)).unwrap_or(0) + 8 + 4 * 8 + 4
}

/// Updates each checksum of `new` that was valid in `old`: Adler-32 of all bytes before it (RFC
/// 1950).
fn seal(old: &[u8], new: &mut [u8]) {
    let (mut was, mut is) = ((1, 0), (1, 0));
    for at in 0..old.len() {
        if old[at..].starts_with(&checksum(was)) && old[at + 8..].starts_with(SEAL) {
            new[at..at + 8].copy_from_slice(&checksum(is));
        }
        (was, is) = (add(was, old[at]), add(is, new[at]));
    }
    assert_ne!(was, is, "the counter already had this value");
}

fn add((low, high): (u32, u32), byte: u8) -> (u32, u32) {
    const PRIME: u32 = 65_521;
    let low = (low + u32::from(byte)) % PRIME;
    (low, (high + low) % PRIME)
}

fn checksum((low, high): (u32, u32)) -> [u8; 8] {
    u64::from(high << 16 | low).to_be_bytes()
}
