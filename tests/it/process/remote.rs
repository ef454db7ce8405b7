//! File systems whose locks and renames may reach other machines late or never.

use crate::rig::{Fuse, Rig, Timing};
use std::fs;

#[test]
fn fuse_is_refused_as_the_directory_and_below_it() {
    let rig = Rig::new(Timing::FAST);
    let (outer, inner) = (rig.folder().join("outer"), rig.folder().join("inner"));
    let folder = inner.join("orders");
    fs::create_dir(&outer).expect("the name is new");
    fs::create_dir_all(&folder).expect("the name is new");

    let Some(mounted) = Fuse::mount(&outer) else { return };
    let below = Fuse::mount(&folder).expect("the first mount worked");
    let directory = below.path.parent().expect("it is mounted in a directory");
    for (directory, named) in [(mounted.path.as_path(), &mounted.path), (directory, &below.path)] {
        let (code, output) = rig.candidate("a").directory(directory).ends();
        assert_eq!(code, 2, "{output}");
        let path = named.to_str().expect("the paths of the rig are UTF-8");
        let says = format!("{path} is on FUSE");
        assert!(
            output.contains(&says) && output.contains("--directory"),
            "no {says:?} in {output}"
        );
    }
}
