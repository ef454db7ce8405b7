//! Helm, kustomize, and kubeconform as processes, with their output as data.
//!
//! They see neither a cluster nor the user's settings: their environment is empty, and their home
//! is in the build directory.

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

    /// Runs Helm in the repository: its stdout, or all its output if it fails.
    pub(super) fn run(self, arguments: &[&str]) -> Result<String, String> {
        self.run_in(&in_repository(""), arguments)
    }

    /// The same, in another folder.
    pub(super) fn run_in(self, folder: &Path, arguments: &[&str]) -> Result<String, String> {
        let program = match self {
            Self::Three => "helm3",
            Self::Four => "helm4",
        };
        printed(tool(program).current_dir(folder).args(arguments).output().unwrap())
    }

    /// Renders a release `test` of this chart in the namespace `tests` for Kubernetes 1.36.3.
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

/// Renders `charts/baton` with both versions of Helm, which have to agree.
pub(super) fn rendered(settings: &[&str]) -> Vec<Value> {
    let [three, four] = Helm::BOTH.map(|helm| {
        let objects = helm.template(&chart("baton"), settings);
        objects.unwrap_or_else(|error| panic!("{helm:?} with {settings:?}: {error}"))
    });
    assert_eq!(three, four, "Helm 3 and 4 differ with {settings:?}");
    four
}

/// Checks that both versions of Helm refuse this setting of a chart, with these words in the error.
pub(super) fn assert_refused(chart: &Path, setting: &str, words: &[&str]) {
    for helm in Helm::BOTH {
        let error = helm.template(chart, &[setting]).expect_err(setting);
        for word in words {
            assert!(error.contains(word), "{helm:?} with {setting}: {word} is not in {error}");
        }
    }
}

/// The output of `kustomize build` for a folder.
pub(super) fn kustomized(folder: &Path) -> Vec<Value> {
    let output = tool("kustomize").arg("build").arg(folder).output().unwrap();
    objects(&printed(output).unwrap())
}

/// A temporary folder with a kustomization `it` of these resources and components, and the
/// repository's own kustomizations beside it.
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

/// The output of `baton inject` for an object, or its error.
pub(super) fn inject(object: &Value, arguments: &[&str]) -> Result<Value, String> {
    let mut baton = Command::new(env!("CARGO_BIN_EXE_baton"));
    let mut baton = baton.env_clear().arg("inject").args(arguments);
    baton = baton.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = baton.spawn().unwrap();
    running.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
    printed(running.wait_with_output().unwrap()).map(|text| objects(&text).remove(0))
}

/// Checks objects with kubeconform against the schemas in a folder: its report, or its errors.
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

/// A file that tests/servers/charts/build.sh has built or fetched.
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
    assert!(found.next().is_none(), "several objects {kind} {name}");
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
