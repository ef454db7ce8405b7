//! Where the programs are that the tests of the Lease backend run against: see tests/kubernetes/build.sh.

use std::env;
use std::path::{Path, PathBuf};

const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/.cache/kubernetes");

/// kube-apiserver or etcd, from where the field's convention says, or else as built here.
pub(crate) fn server(program: &str) -> PathBuf {
    let chosen = env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty());
    existing(chosen.map_or_else(|| BUILT.into(), PathBuf::from).join(program))
}

/// A candidate that elects with client-go: see tests/peers/client-go.
pub(crate) fn client_go_candidate() -> PathBuf {
    existing(Path::new(BUILT).join("client-go-candidate"))
}

fn existing(program: PathBuf) -> PathBuf {
    assert!(
        program.is_file(),
        "{} is missing: run `make test`, or tests/kubernetes/build.sh once, or set KUBEBUILDER_ASSETS",
        program.display()
    );
    program
}
