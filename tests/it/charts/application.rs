//! The application's chart of the library's README, word for word: two includes are all that it takes.

use super::tools::{Helm, chart, find, in_repository, refused, sidecar};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

#[test]
fn two_includes_bring_the_sidecar_and_its_rights() {
    let application = application(&readme("templates/deployment.yaml, in the Pod's spec"));
    let objects = render(application.path());
    let pod = &find(&objects, "Deployment", "shop")["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["name"], "baton-state");
    assert_eq!(sidecar(find(&objects, "Deployment", "shop"))["env"][0]["value"], "orders");
    assert_eq!(find(&objects, "RoleBinding", "orders")["subjects"][0]["name"], "orders");
    assert_eq!(find(&objects, "Role", "orders")["metadata"]["labels"]["app.kubernetes.io/name"], "shop");
    let front_page = fs::read_to_string(in_repository("README.md")).unwrap();
    for include in [readme("templates/deployment.yaml, in the Pod's spec"), readme("templates/baton.yaml")] {
        assert!(front_page.contains(&format!("```yaml\n{include}```")), "README has another include than {include}");
    }
}

#[test]
fn the_items_fit_between_those_of_the_application() {
    let text = fs::read_to_string(chart("baton-sidecar").join("README.md")).unwrap();
    let items = text.split("```yaml\n").find(|block| block.trim_start().starts_with("initContainers:")).unwrap();
    let application = application(items.split("```").next().unwrap());
    let objects = render(application.path());
    let pod = &find(&objects, "Deployment", "shop")["spec"]["template"]["spec"];
    for list in ["initContainers", "volumes"] {
        assert_eq!(pod[list].as_array().unwrap().len(), 2, "{pod:#}");
        assert_eq!(pod[list][1]["name"], "yours");
    }
}

#[test]
fn what_is_wrong_with_the_sidecars_settings_is_said_by_the_applications_chart() {
    let application = application(&readme("templates/deployment.yaml, in the Pod's spec"));
    let refusals = [
        ("--set=baton.election=Orders", ["/election", "Orders"]),
        ("--set=baton.elections=orders", ["elections", "not allowed"]),
        ("--set=baton.config.renewDeadline=14s", ["unsafe timing", "these would pass: leaseDuration: 15s"]),
    ];
    for (setting, words) in refusals {
        refused(application.path(), setting, &words);
    }
    fs::write(application.path().join("values.yaml"), "baton: {}").unwrap();
    refused(application.path(), "--set=baton.serviceAccountName=shop", &["no election is named: set `election`"]);
}

fn render(application: &Path) -> Vec<Value> {
    let [three, four] = Helm::BOTH.map(|helm| helm.template(application, &[]).unwrap());
    assert_eq!(three, four);
    four
}

/// A chart `shop`, with this in its Pod's spec, and all else as README says.
fn application(in_pod: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    for name in ["templates", "charts"] {
        fs::create_dir(path.join(name)).unwrap();
    }
    // What `helm dependency build` would do with a repository.
    symlink(in_repository("charts/baton-sidecar"), path.join("charts/baton-sidecar")).unwrap();
    let dependencies = readme("Chart.yaml");
    let dependencies = dependencies.lines().filter(|line| !line.contains("repository:")).collect::<Vec<_>>().join("\n");
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: shop\nspec:\n  template:\n    spec:\n";
    for (file, text) in [
        ("Chart.yaml", format!("apiVersion: v2\nname: shop\nversion: 1.0.0\n{dependencies}\n")),
        ("values.yaml", readme("values.yaml")),
        ("templates/deployment.yaml", format!("{deployment}      containers: []\n{in_pod}")),
        ("templates/baton.yaml", readme("templates/baton.yaml")),
    ] {
        fs::write(path.join(file), text).unwrap();
    }
    folder
}

/// The block of README that begins with `# title`, without that line.
fn readme(title: &str) -> String {
    let text = fs::read_to_string(chart("baton-sidecar").join("README.md")).unwrap();
    let block = text.split(&format!("```yaml\n# {title}\n")).nth(1).unwrap_or_else(|| panic!("no block {title}"));
    block.split("```").next().unwrap().to_owned()
}
