//! The recipe for a token that only the sidecar has, verbatim from the guide.

use super::server::{create, dry_run, pod};
use super::tools::{find, in_repository, kustomized};
use crate::rig::ApiServer;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const GUIDE: &str = "docs/operating/security.md";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

#[test]
fn token_of_the_recipe_is_mounted_into_the_sidecar_only() {
    let folder = TempDir::new().unwrap();
    for name in ["components", "example"] {
        symlink(in_repository("manifests").join(name), folder.path().join(name)).unwrap();
    }
    let guide = fs::read_to_string(in_repository(GUIDE)).unwrap();
    let patch = guide.split("```yaml\n# token.yaml\n").nth(1).expect("the guide has the recipe");
    let recipe = folder.path().join("recipe");
    fs::create_dir(&recipe).unwrap();
    fs::write(recipe.join("token.yaml"), patch.split("```").next().unwrap()).unwrap();
    let text = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": ["../example"], "patches": [{"path": "token.yaml"}],
    });
    fs::write(recipe.join("kustomization.yaml"), text.to_string()).unwrap();
    let objects = kustomized(&recipe);

    let namespace = ApiServer::shared().namespace();
    let account = find(&objects, "ServiceAccount", "orders");
    create(&namespace.admin, &namespace.name, account).unwrap();
    let workload = find(&objects, "Deployment", "orders");
    let admitted = dry_run(&namespace.admin, &namespace.name, &pod(workload)).unwrap();
    let has_token = |container: &Value| {
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        mounts.filter(|mount| mount["mountPath"] == MOUNT_PATH).count()
    };
    let spec = &admitted["spec"];
    assert_eq!(spec["initContainers"][0]["name"], "baton");
    assert_eq!(has_token(&spec["initContainers"][0]), 1, "{admitted:#}");
    assert_eq!(has_token(&spec["containers"][0]), 0, "{admitted:#}");
}
