//! The bill of materials: it lists what the program contains, and omits what only tests need.

use super::package::run;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use tempfile::TempDir;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The file of the Dockerfile's stage `inventory`.
const INVENTORY: &str = "std 1.95.0
package libc6-dev 2.36-9+deb12u14
package libgcc-12-dev 12.2.0-14
package ca-certificates 20230311
file 00ff  /etc/ssl/certs/ca-certificates.crt
";

/// The output of `release/sbom.py` with this inventory.
fn bill(inventory: &str) -> Output {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("inventory", inventory);
    write("config.json", "{}");
    write("manifest.json", r#"[{"Config": "config.json", "Layers": ["layer.tar"]}]"#);
    for (archive, files) in [
        ("layer.tar", &["inventory"][..]),
        ("image.tar", &["manifest.json", "config.json", "layer.tar"]),
    ] {
        let mut tar = Command::new("tar");
        run(tar.arg("-cf").arg(archive).args(files).current_dir(folder.path()));
    }
    let mut bill = Command::new("release/sbom.py");
    bill.arg(TARGET).arg(folder.path().join("image.tar")).env("SOURCE_DATE_EPOCH", "1700000000");
    bill.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap()
}

fn components() -> Vec<Value> {
    let output @ Output { status, .. } = &bill(INVENTORY);
    assert!(status.success(), "{output:?}");
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    let on: Vec<_> = bill["dependencies"].as_array().unwrap().iter().collect();
    let components = bill["components"].as_array().unwrap().clone();
    let root = on.iter().find(|entry| entry["ref"] == bill["metadata"]["component"]["bom-ref"]);
    let depends = root.unwrap()["dependsOn"].as_array().unwrap();
    for other in components.iter().filter(|entry| crate_name(entry).is_none()) {
        assert!(depends.contains(&other["bom-ref"]), "the program depends on {other}");
    }
    components
}

/// `NAME vVERSION`, as Cargo shows a crate.
fn crate_name(component: &Value) -> Option<String> {
    component["purl"].as_str()?.strip_prefix("pkg:cargo/").map(|name| name.replace('@', " v"))
}

#[test]
fn bill_names_std_libraries_and_authorities() {
    let components = components();
    let found = |name: &str| components.iter().find(|entry| entry["name"] == name).unwrap();
    assert_eq!(found("std")["purl"], "pkg:generic/rust-std@1.95.0");
    assert_eq!(found("libc6-dev")["purl"], "pkg:deb/debian/libc6-dev@2.36-9%2Bdeb12u14");
    assert_eq!(found("libgcc-12-dev")["version"], "12.2.0-14");
    assert_eq!(found("ca-certificates")["version"], "20230311");
    let bundle = found("/etc/ssl/certs/ca-certificates.crt");
    assert_eq!(bundle["hashes"][0]["content"], "00ff");
}

#[test]
fn bill_lists_the_crates_that_cargo_builds() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "--package=baton", "--edges=no-dev", "--prefix=none"]);
    tree.arg(format!("--target={TARGET}")).current_dir(env!("CARGO_MANIFEST_DIR"));
    let tree = run(&mut tree);
    let built: BTreeSet<String> = tree
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .filter(|name| !name.starts_with("baton v"))
        .collect();
    let components = components();
    let listed: BTreeSet<_> = components.iter().filter_map(crate_name).collect();
    assert_eq!(listed, built);
    for component in components.iter().filter(|entry| crate_name(entry).is_some()) {
        let is_ours = component.get("hashes").is_none();
        let name = component["name"].as_str().unwrap();
        assert_eq!(is_ours, ["baton-election", "zookeeper-client"].contains(&name), "{name}");
    }
}

#[test]
fn inventory_with_an_unknown_line_is_refused() {
    let output = bill("std 1.95.0\npackage libc6-dev\n");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && errors.contains("'package libc6-dev'"), "{errors}");
}
