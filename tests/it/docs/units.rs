//! The systemd units of the guides, as `systemd-analyze verify` sees them.
//!
//! Start with [`units_of_the_guides_are_valid`]. A unit is an `ini` block whose first line is its
//! path.

use super::{files_below, read};
use std::fs;
use std::process::Command;

/// The file names and the texts of all units in the guides, with programs that exist.
fn units() -> Vec<(String, String)> {
    let guides: Vec<_> = files_below("docs/guides", "md").iter().map(read).collect();
    let blocks = guides.iter().flat_map(|guide| guide.split("```ini\n").skip(1));
    let unit = |block: &str| {
        let text = block.split("```").next()?;
        let (path, _) = text.strip_prefix("# /etc/systemd/system/")?.split_once('\n')?;
        let name = path.split(',').next()?.to_owned();
        let text = text.replace("/usr/local/bin/baton", env!("CARGO_BIN_EXE_baton"));
        Some((name, text.replace("ExecStart=/usr/local/bin/", "ExecStart=/bin/true ")))
    };
    blocks.filter_map(unit).collect()
}

/// The messages about these units.
fn complaints(units: &[(String, String)]) -> String {
    let folder = tempfile::tempdir().expect("temporary folders can be made");
    let paths = units.iter().map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("the folder is ours");
        path
    });
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(paths.collect::<Vec<_>>())
        // The empty last part stands for the folders of the system.
        .env("SYSTEMD_UNIT_PATH", format!("{}:", folder.path().display()))
        .output()
        .expect("systemd is installed");
    let text = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() || !text.is_empty(), "{verified:?}");
    text
}

#[test]
fn units_of_the_guides_are_valid() {
    let units = units();
    assert!(units.len() >= 3, "{units:?}");
    assert_eq!(complaints(&units), "");
    let [(name, text), ..] = &units[..] else { unreachable!("there are three") };
    let mistyped = text.replace("Restart=", "Restarts=").replace("KillMode=", "KillModes=");
    assert!(complaints(&[(name.clone(), mistyped)]).contains("Unknown key"));
}
