//! `make push` to a real registry: what is there afterwards, what a user verifies, and that a
//! failure leaves no tag.
//!
//! The images contain no program. Start with [`PUSHED`].

use super::package::run;
use super::registry::{
    Fault, REPOSITORIES, Registry, SOURCE, commands, helm, make_keys, shell, tool,
};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A registry with a release below `team`, pushed once. Its tests only read.
static PUSHED: LazyLock<Registry> = LazyLock::new(|| {
    let registry = Registry::start();
    let (succeeded, output) = registry.push("team");
    assert!(succeeded, "{output}");
    registry
});

fn digest(name: &str) -> String {
    run(tool("crane").args(["digest", name])).trim().to_owned()
}

/// The name of a pushed artifact by its digest.
fn pinned(registry: &Registry, repository: &str) -> String {
    let name = registry.name("team", repository);
    format!("{name}@{}", digest(&format!("{name}:{VERSION}")))
}

fn manifest(name: &str) -> Value {
    json(&run(tool("crane").args(["manifest", name])))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A field that is a string.
fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Whether cosign finds a signature of this key. It counts statements as signatures too, so they
/// are told apart by their type.
fn is_signed(key: &Path, name: &str) -> bool {
    let mut cosign = tool("cosign");
    cosign.arg("verify").arg("--key").arg(key).args(["--insecure-ignore-tlog=true", name]);
    let Output { status, stdout, .. } = cosign.output().unwrap();
    status.success() && String::from_utf8(stdout).unwrap().contains("/cosign/sign/v1")
}

/// The in-toto statement of this type about an artifact, whose signature verifies.
fn statement(registry: &Registry, kind: &str, name: &str) -> Value {
    let mut cosign = tool("cosign");
    cosign.args(["verify-attestation", "--type", kind, "--insecure-ignore-tlog=true"]);
    let attested = run(cosign.arg("--key").arg(registry.public_key()).arg(name));
    let envelope = json(attested.lines().next().unwrap());
    let mut base64 = Command::new("sh");
    base64.args(["-c", r#"printf %s "$0" | base64 -d"#, text(&envelope["payload"])]);
    json(&run(&mut base64))
}

#[test]
fn each_artifact_is_signed_with_its_provenance() {
    let head = run(Command::new("git").args(["rev-parse", "HEAD"]));
    for repository in REPOSITORIES {
        assert_eq!(PUSHED.versions("team", repository), [VERSION]);
        let name = pinned(&PUSHED, repository);
        assert!(is_signed(&PUSHED.public_key(), &name), "{name}");
        let statement = statement(&PUSHED, "slsaprovenance1", &name);
        let subject = &statement["subject"][0]["digest"]["sha256"];
        assert!(name.ends_with(text(subject)), "{statement:#}");
        let [source] = &statement["predicate"]["buildDefinition"]["resolvedDependencies"]
            .as_array()
            .unwrap()[..]
        else {
            panic!("{statement:#}")
        };
        assert_eq!(source["uri"], format!("git+{SOURCE}@{}", head.trim()));
        assert_eq!(source["digest"]["gitCommit"], head.trim());
    }
}

#[test]
fn signature_of_another_key_is_refused() {
    let name = pinned(&PUSHED, "baton");
    let other = PUSHED.folder().join("other");
    std::fs::create_dir(&other).unwrap();
    make_keys(&other);
    assert!(is_signed(&PUSHED.public_key(), &name));
    assert!(!is_signed(&other.join("cosign.pub"), &name));
}

#[test]
fn index_has_both_platforms_with_their_bills_of_materials() {
    let name = pinned(&PUSHED, "baton");
    run(tool("crane").args(["validate", "--remote", &name]));
    let index = manifest(&name);
    let images = index["manifests"].as_array().unwrap();
    assert_eq!(images.len(), 2, "{index:#}");
    for (image, architecture) in images.iter().zip(["amd64", "arm64"]) {
        assert_eq!(image["platform"]["architecture"], architecture);
        let name = format!("{}@{}", PUSHED.name("team", "baton"), text(&image["digest"]));
        let config = json(&run(tool("crane").args(["config", &name])));
        assert_eq!(config["architecture"], architecture);
        let listing = Command::new("sh")
            .args(["-c", r#""$0" export "$1" - | tar -xO baton"#])
            .arg(tool("crane").get_program())
            .arg(&name)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(listing.stdout).unwrap(), format!("baton for {architecture}"));
        assert!(is_signed(&PUSHED.public_key(), &name), "{name}");
        let statement = statement(&PUSHED, "cyclonedx", &name);
        assert_eq!(statement["predicate"]["metadata"]["component"]["name"], architecture);
        let subject = &statement["subject"][0]["digest"]["sha256"];
        assert!(name.ends_with(text(subject)), "{statement:#}");
    }
}

#[test]
fn chart_is_pulled_by_digest_and_names_the_pushed_image() {
    let chart = format!("oci://{}", pinned(&PUSHED, "charts/baton"));
    for version in ["helm3", "helm4"] {
        let mut helm = helm(&PUSHED, version);
        helm.args(["template", "test", &chart, "--set=demo.enabled=true", "--plain-http"]);
        helm.arg("--kube-version=1.36.3");
        let rendered = run(&mut helm);
        for repository in ["baton", "baton-demo"] {
            let image = pinned(&PUSHED, repository);
            assert!(rendered.contains(&format!("{image}\"")), "{image} is not in\n{rendered}");
        }
    }
}

#[test]
fn commands_of_the_guide_verify_a_release() {
    let page = "docs/operating/publishing.md";
    let script = commands(page, "Verify") + &commands(page, "Install");
    let chart = digest(&format!("{}:{VERSION}", PUSHED.name("team", "charts/baton")));
    let script = script
        .replace("registry.example.com/platform/", &PUSHED.name("team", ""))
        .replace("sha256:…", &chart)
        .replace("helm install", "helm template --plain-http");
    assert_eq!(script.matches("cosign verify").count(), 4, "{script}");
    assert_eq!(script.matches("helm template").count(), 2, "{script}");
    run(&mut shell(PUSHED.folder(), &script));
}

#[test]
fn release_that_exists_never_changes() {
    let (succeeded, output) = PUSHED.push("team");
    assert!(succeeded && output.contains("has this release already"), "{output}");
    // Through the proxy the registry has another name, so the charts have other contents.
    let (succeeded, output, writes) = PUSHED.push_failing("team", &Fault::None);
    assert!(!succeeded && output.contains("a release never changes"), "{output}");
    assert_eq!(writes, [""; 0]);
}

#[test]
fn changed_layer_is_refused() {
    let registry = Registry::start();
    let (succeeded, output) = registry.push("team");
    assert!(succeeded, "{output}");
    let [image, chart] = ["baton", "charts/baton"].map(|name| pinned(&registry, name));
    let chart_layer = text(&manifest(&chart)["layers"][0]["digest"]).to_owned();
    let index = manifest(&image);
    let second = text(&index["manifests"][1]["digest"]);
    let second = format!("{}@{second}", registry.name("team", "baton"));
    registry.change(text(&manifest(&second)["layers"][0]["digest"]));
    registry.change(&chart_layer);

    let validation = tool("crane").args(["validate", "--remote", &image]).output().unwrap();
    assert!(!validation.status.success(), "{validation:?}");
    let mut pull = helm(&registry, "helm4");
    pull.args(["pull", &format!("oci://{chart}"), "--plain-http"]);
    let pull = pull.output().unwrap();
    assert!(!pull.status.success(), "{pull:?}");

    // The registry has these blobs already, so it does not store them again.
    let (succeeded, output) = registry.push("again");
    assert!(!succeeded, "{output}");
    assert_no_tags(&registry, "again", &output);
}

#[test]
fn failed_push_leaves_no_tag() {
    let registry = Registry::start();
    let (succeeded, output, writes) = registry.push_failing("whole", &Fault::None);
    assert!(succeeded, "{output}");
    let last = writes.len();
    let first_tag = last + 1 - REPOSITORIES.len();
    let is_tag = |path: &String| path.ends_with(VERSION);
    assert_eq!(writes.iter().position(is_tag), Some(first_tag - 1), "tags are last: {writes:#?}");

    // The first manifest, a signature, the first tag, and the last one.
    let refused = [1, last / 2, first_tag, last].map(Fault::Refused);
    for (number, fault) in refused.into_iter().chain([Fault::AnswerLost(last)]).enumerate() {
        let path = format!("fault-{number}");
        let (succeeded, output, writes) = registry.push_failing(&path, &fault);
        assert!(!succeeded, "one of {writes:#?} was refused: {output}");
        assert_no_tags(&registry, &path, &output);
    }

    let (succeeded, output, _) = registry.push_failing("left", &Fault::Away(last));
    assert!(!succeeded, "{output}");
    let warnings = output.lines().filter(|line| line.contains("may stay: remove this tag"));
    assert_eq!(warnings.count(), REPOSITORIES.len(), "{output}");
}

/// As a CI job that is cancelled: the shell ends by a signal, and no command has failed.
#[test]
fn interrupted_push_leaves_no_tag() {
    let registry = Registry::start();
    let (succeeded, output, writes) = registry.push_failing("whole", &Fault::None);
    assert!(succeeded, "{output}");
    let last = writes.len();
    for number in [last + 1 - REPOSITORIES.len(), last] {
        let path = format!("interrupted-{number}");
        let (succeeded, output, _) = registry.push_failing(&path, &Fault::Interrupted(number));
        assert!(!succeeded, "{output}");
        assert_no_tags(&registry, &path, &output);
    }
}

fn assert_no_tags(registry: &Registry, path: &str, output: &str) {
    for repository in REPOSITORIES {
        let versions = registry.versions(path, repository);
        assert_eq!(versions, [""; 0], "{path}/{repository} after: {output}");
    }
}
