//! The signed checksums and the provenance of a release, verified as the guide says.
//!
//! The release has the packages only. Start with [`Release`].

use super::package::{packages, run};
use super::registry::{SOURCE, commands, make_keys, shell};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const DEB: &str = concat!("baton_", env!("CARGO_PKG_VERSION"), "-1_amd64.deb");

/// The signed files of a release, with checksums and the public key.
struct Release(TempDir);

impl Release {
    fn signed() -> Self {
        let release = Self(TempDir::new().unwrap());
        let files = release.files();
        run(Command::new("cp").arg("--recursive").arg(packages()).arg(&files));
        release.sum();
        make_keys(release.0.path());
        let mut sign = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/release/sign.sh"));
        sign.arg(&files).env("KEY", release.0.path().join("cosign.key"));
        run(sign.env("COSIGN_PASSWORD", "").env("SOURCE", SOURCE));
        release.trust();
        release
    }

    fn files(&self) -> PathBuf {
        self.0.path().join("files")
    }

    /// Writes the checksums, as `make release` does.
    fn sum(&self) {
        let mut sum = Command::new("sh");
        sum.args(["-c", "sha256sum -- baton* > SHA256SUMS"]).current_dir(self.files());
        run(&mut sum);
    }

    /// Puts the last public key beside the files.
    fn trust(&self) {
        fs::copy(self.0.path().join("cosign.pub"), self.files().join("cosign.pub")).unwrap();
    }

    /// Adds a byte to the Debian package.
    fn change(&self) {
        let deb = self.files().join(DEB);
        let mut content = fs::read(&deb).unwrap();
        content.push(0);
        fs::write(&deb, content).unwrap();
    }

    /// Runs these commands in the folder of the files. Returns whether all succeed.
    fn verifies(&self, script: &str) -> bool {
        shell(&self.files(), script).output().unwrap().status.success()
    }
}

/// The commands of the guide: those for the checksums, and the one for the provenance.
fn guide() -> [String; 2] {
    let script = commands("docs/guides/installing.md", "Verify");
    let (checksums, provenance) = script.split_once("cosign verify-blob-attestation").unwrap();
    assert!(checksums.contains("cosign verify-blob ") && checksums.contains("sha256sum"));
    [checksums.to_owned(), format!("cosign verify-blob-attestation{provenance}")]
}

#[test]
fn signed_release_verifies_as_the_guide_says() {
    let release = Release::signed();
    for script in guide() {
        assert!(release.verifies(&script), "{script}");
    }
    let tarball = format!("baton-{}-linux-amd64.tar.gz", env!("CARGO_PKG_VERSION"));
    let [_, provenance] = guide().map(|script| script.replace(DEB, &tarball));
    assert!(release.verifies(&provenance), "the provenance names every file: {provenance}");
}

#[test]
fn changed_package_is_refused() {
    let release = Release::signed();
    release.change();
    for script in guide() {
        assert!(!release.verifies(&script), "{script}");
    }
    release.sum();
    for script in guide() {
        assert!(!release.verifies(&script), "with checksums to match: {script}");
    }
}

#[test]
fn release_signed_by_another_key_is_refused() {
    let release = Release::signed();
    for key in ["cosign.key", "cosign.pub"] {
        fs::remove_file(release.0.path().join(key)).unwrap();
    }
    make_keys(release.0.path());
    release.trust();
    for script in guide() {
        assert!(!release.verifies(&script), "{script}");
    }
}
