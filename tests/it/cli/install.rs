//! `baton install`, which puts the program into a volume.

use super::{baton, run};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

#[test]
fn install_copies_the_program_and_replaces_an_older_one() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_str().unwrap();
    let installed = folder.path().join("baton");
    fs::write(&installed, "older").unwrap();

    let (code, output, errors) = run(&mut baton(&["install", path]));
    assert_eq!((code, output.trim()), (0, installed.to_str().unwrap()), "{errors}");
    let names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names, std::slice::from_ref(&installed), "nothing else is left");
    assert_eq!(fs::metadata(&installed).unwrap().permissions().mode() & 0o7777, 0o755);
    let program = fs::read(env!("CARGO_BIN_EXE_baton")).unwrap();
    assert!(fs::read(&installed).unwrap() == program, "the copy differs");
}

#[test]
fn missing_directory_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("missing");
    let (code, output, errors) = run(&mut baton(&["install", missing.to_str().unwrap()]));
    assert_eq!((code, output.as_str()), (2, ""));
    assert!(errors.contains(missing.to_str().unwrap()), "{errors}");
    assert_eq!(run(&mut baton(&["install"])).0, 2);
}
