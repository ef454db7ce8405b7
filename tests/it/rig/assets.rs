//! Paths of the programs that the tests run, as the build scripts of the tests install them.

use std::env;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const KUBERNETES: &str = "tests/servers/kubernetes/build.sh";
const PEERS: &str = "tests/servers/peers/build.sh";
const ETCD: &str = "tests/servers/etcd/build.sh";

/// A minor version of etcd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EtcdVersion {
    V3_5,
    V3_6,
    V3_7,
}

impl EtcdVersion {
    /// The version of tests that need no certain one: 3.6, or that of `BATON_ETCD`.
    pub(crate) fn chosen() -> Self {
        match env::var("BATON_ETCD").as_deref() {
            Ok("3.5") => Self::V3_5,
            Ok("3.6") | Err(_) => Self::V3_6,
            Ok("3.7") => Self::V3_7,
            Ok(other) => panic!("BATON_ETCD is {other:?}, not 3.5, 3.6, or 3.7"),
        }
    }
}

/// kube-apiserver or etcd: from `KUBEBUILDER_ASSETS` (the usual convention) or as built here.
pub(crate) fn server(program: &str) -> PathBuf {
    let chosen = env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty());
    let folder = chosen.map_or_else(|| cache("kubernetes"), PathBuf::from);
    existing(folder.join(program), &format!("{KUBERNETES} once, or set KUBEBUILDER_ASSETS"))
}

/// etcd of this version.
pub(crate) fn etcd(version: EtcdVersion) -> PathBuf {
    match version {
        EtcdVersion::V3_5 => existing(cache("etcd").join("etcd-3.5"), ETCD),
        EtcdVersion::V3_6 => server("etcd"),
        EtcdVersion::V3_7 => existing(cache("etcd").join("etcd-3.7"), ETCD),
    }
}

/// etcdutl, which restores backups.
pub(crate) fn etcdutl() -> PathBuf {
    existing(cache("etcd").join("etcdutl"), ETCD)
}

/// A candidate that uses etcd's Go client: see tests/servers/peers/etcd-election.
pub(crate) fn etcd_election_candidate() -> PathBuf {
    existing(cache("etcd").join("etcd-election-candidate"), ETCD)
}

/// etcdctl, which envtest does not have.
pub(crate) fn etcdctl() -> PathBuf {
    existing(cache("kubernetes").join("etcdctl"), &format!("{KUBERNETES} once"))
}

/// A candidate that uses client-go: see tests/servers/peers/client-go.
pub(crate) fn client_go_candidate() -> PathBuf {
    existing(cache("kubernetes").join("client-go-candidate"), &format!("{KUBERNETES} once"))
}

/// A candidate that uses Curator, by its class in tests/servers/peers/curator. Returns Java and its
/// first arguments, which make it start fast, stay small, and answer without delayed
/// acknowledgements.
pub(crate) fn curator_candidate(class: &str) -> (PathBuf, Vec<String>) {
    let folder = cache("peers").join("curator");
    existing(folder.join(class).with_extension("class"), PEERS);
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
        class,
    ];
    (PathBuf::from("java"), arguments.map(str::to_owned).to_vec())
}

/// A candidate that uses kazoo: see tests/servers/peers/kazoo. Returns Python and its first
/// argument.
pub(crate) fn kazoo_candidate() -> (PathBuf, Vec<String>) {
    let python = existing(cache("peers").join("kazoo/bin/python"), PEERS);
    (python, vec![format!("{ROOT}/tests/servers/peers/kazoo/candidate.py")])
}

fn cache(folder: &str) -> PathBuf {
    Path::new(ROOT).join(".cache").join(folder)
}

/// Returns the program, or panics with the command that builds it.
fn existing(program: PathBuf, built_by: &str) -> PathBuf {
    assert!(program.is_file(), "{} is missing: run `make test`, or {built_by}", program.display());
    program
}
