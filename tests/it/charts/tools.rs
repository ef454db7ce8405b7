//! Helm, kustomize and kubeconform as processes, and what they print as data.
//!
//! None of them sees a cluster, nor anything of who runs the tests: the environment is empty, and home a folder
//! that is thrown away with what is built.

use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Both versions of Helm that are in use.
#[derive(Clone, Copy, Debug)]
pub(super) enum Helm {
    Three,
    Four,
}

impl Helm {
    pub(super) const BOTH: [Self; 2] = [Self::Three, Self::Four];

    /// What it prints, or what it complains of.
    pub(super) fn run(self, arguments: &[&str]) -> Result<String, String> {
        self.run_in(&in_repository(""), arguments)
    }

    /// The same, in this folder.
    pub(super) fn run_in(self, folder: &Path, arguments: &[&str]) -> Result<String, String> {
        let program = match self {
            Self::Three => "helm3",
            Self::Four => "helm4",
        };
        printed(tool(program).current_dir(folder).args(arguments).output().unwrap())
    }

    /// The objects of a release `test` of this chart, in the namespace `tests` of a server of the last release.
    pub(super) fn template(self, chart: &Path, settings: &[&str]) -> Result<Vec<Value>, String> {
        let chart = chart.to_str().unwrap();
        let arguments =
            [&["template", "test", chart, "--namespace=tests", "--kube-version=1.36.3"], settings]
                .concat();
        self.run(&arguments).map(|text| objects(&text))
    }
}

/// One of our charts.
pub(super) fn chart(name: &str) -> PathBuf {
    in_repository("charts").join(name)
}

/// The objects of `charts/baton`, on which both versions of Helm agree.
pub(super) fn rendered(settings: &[&str]) -> Vec<Value> {
    let [three, four] = Helm::BOTH.map(|helm| {
        let objects = helm.template(&chart("baton"), settings);
        objects.unwrap_or_else(|complaint| panic!("{helm:?} with {settings:?}: {complaint}"))
    });
    assert_eq!(three, four, "Helm 3 and 4 differ with {settings:?}");
    four
}

/// Sees to it that both versions of Helm refuse this setting of a chart, in these words.
pub(super) fn refused(chart: &Path, setting: &str, words: &[&str]) {
    for helm in Helm::BOTH {
        let complaint = helm.template(chart, &[setting]).expect_err(setting);
        for word in words {
            assert!(
                complaint.contains(word),
                "{helm:?} with {setting} does not say {word}: {complaint}"
            );
        }
    }
}

/// What `kustomize build` makes of a folder.
pub(super) fn kustomized(folder: &Path) -> Vec<Value> {
    let output = tool("kustomize").arg("build").arg(folder).output().unwrap();
    objects(&printed(output).unwrap())
}

/// The folder `it` in the one that is returned: a kustomization of these resources and components, beside ours.
pub(super) fn kustomization(resources: &[&str], components: &[&str]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["components", "example"] {
        symlink(in_repository("manifests").join(name), folder.path().join(name)).unwrap();
    }
    fs::create_dir(folder.path().join("it")).unwrap();
    let text = serde_json::json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": resources, "components": components,
    });
    fs::write(folder.path().join("it/kustomization.yaml"), text.to_string()).unwrap();
    folder
}

/// What `baton inject` makes of an object, or what it complains of.
pub(super) fn inject(object: &Value, arguments: &[&str]) -> Result<Value, String> {
    let mut baton = Command::new(env!("CARGO_BIN_EXE_baton"));
    let mut baton = baton.env_clear().arg("inject").args(arguments);
    baton = baton.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = baton.spawn().unwrap();
    running.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
    printed(running.wait_with_output().unwrap()).map(|text| objects(&text).remove(0))
}

/// kubeconform's verdict over these objects, by the schemas of a release in `schemas`.
pub(super) fn conform(objects: &[Value], schemas: &Path) -> Result<String, String> {
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write(file.path(), list.to_string()).unwrap();
    let location = format!("{}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json", schemas.display());
    let mut kubeconform = tool("kubeconform");
    kubeconform.args(["-strict", "-summary", "-schema-location", &location]).arg(file.path());
    printed(kubeconform.output().unwrap())
}

/// A file of this repository.
pub(super) fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What tests/servers/charts/build.sh has built or fetched.
pub(super) fn built(name: &str) -> PathBuf {
    let path = in_repository(".cache/charts").join(name);
    assert!(
        path.is_file(),
        "{} is missing: run `make test`, or tests/servers/charts/build.sh once",
        path.display()
    );
    path
}

/// The documents of a YAML text.
pub(super) fn objects(text: &str) -> Vec<Value> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

/// The documents of a YAML file of this repository.
pub(super) fn objects_in(path: &str) -> Vec<Value> {
    objects(&fs::read_to_string(in_repository(path)).unwrap())
}

/// The only object of this kind and name.
pub(super) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = objects
        .iter()
        .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    let first = found.next().unwrap_or_else(|| panic!("no {kind} {name} in {objects:#?}"));
    assert!(found.next().is_none(), "two of {kind} {name}");
    first
}

/// The sidecar of a workload: the first of its init containers.
pub(super) fn sidecar(workload: &Value) -> &Value {
    let container = &workload["spec"]["template"]["spec"]["initContainers"][0];
    assert_eq!(container["name"], "baton", "{workload:#}");
    container
}

fn tool(name: &str) -> Command {
    let mut command = Command::new(built(name));
    command.env_clear().env("HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn printed(Output { status, stdout, stderr }: Output) -> Result<String, String> {
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    if status.success() { Ok(stdout) } else { Err(stdout + &stderr) }
}
