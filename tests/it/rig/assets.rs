//! Where the programs are that the tests run against and beside: built by scripts of the tests, and found here.

use std::env;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const KUBERNETES: &str = "tests/servers/kubernetes/build.sh";
const PEERS: &str = "tests/servers/peers/build.sh";

/// kube-apiserver or etcd, from where the field's convention says, or else as built here.
pub(crate) fn server(program: &str) -> PathBuf {
    let chosen = env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty());
    let folder = chosen.map_or_else(|| cache("kubernetes"), PathBuf::from);
    existing(folder.join(program), &format!("{KUBERNETES} once, or set KUBEBUILDER_ASSETS"))
}

/// A candidate that elects with client-go: see tests/servers/peers/client-go.
pub(crate) fn client_go_candidate() -> PathBuf {
    existing(cache("kubernetes").join("client-go-candidate"), &format!("{KUBERNETES} once"))
}

/// A candidate that elects with Curator: see tests/servers/peers/curator. Java, and its first arguments: it starts fast and stays
/// small, and no answer of it waits for an acknowledgement.
pub(crate) fn curator_candidate() -> (PathBuf, Vec<String>) {
    let folder = cache("peers").join("curator");
    existing(folder.join("Candidate.class"), PEERS);
    let folder = folder.display();
    let arguments = [
        "-Xms16m",
        "-Xmx64m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-Dsun.net.httpserver.nodelay=true",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-cp",
        &format!("{folder}:{folder}/*"),
        "Candidate",
    ];
    (PathBuf::from("java"), arguments.map(str::to_owned).to_vec())
}

/// A candidate that elects with kazoo: see tests/servers/peers/kazoo. Python, and its first argument.
pub(crate) fn kazoo_candidate() -> (PathBuf, Vec<String>) {
    let python = existing(cache("peers").join("kazoo/bin/python"), PEERS);
    (python, vec![format!("{ROOT}/tests/servers/peers/kazoo/candidate.py")])
}

fn cache(folder: &str) -> PathBuf {
    Path::new(ROOT).join(".cache").join(folder)
}

/// The program; where it is missing, what builds it is named.
fn existing(program: PathBuf, built_by: &str) -> PathBuf {
    assert!(program.is_file(), "{} is missing: run `make test`, or {built_by}", program.display());
    program
}
