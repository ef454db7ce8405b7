//! Tests of the sidecar's image: its files, user, and labels.

use crate::rig::{run, variable};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The limit for all files together: every node pulls the image.
const MAX_IMAGE_BYTES: u64 = 8_000_000;

#[test]
fn image_contains_only_the_program_and_ca_certificates() {
    let files = files();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["baton", "etc/ssl/certs/ca-certificates.crt"]);
    let size: u64 = files.values().sum();
    assert!(size <= MAX_IMAGE_BYTES, "{size} bytes exceed {MAX_IMAGE_BYTES}: {files:?}");
}

#[test]
fn image_has_a_numeric_user_and_version_labels() {
    let image = variable("BATON_IMAGE");
    let output =
        run(&variable("ENGINE"), &["image", "inspect", &image], "").expect("the image exists");
    let output: Value = serde_json::from_str(&output).expect("the engine prints JSON");
    let config = &output[0]["Config"];
    assert_eq!(
        (&config["User"], &config["Entrypoint"]),
        (&json!("40404:40404"), &json!(["/baton"]))
    );
    let label = |name: &str| {
        config["Labels"][format!("org.opencontainers.image.{name}")].as_str().unwrap_or_default()
    };
    assert_eq!([label("title"), label("version")], ["baton", env!("CARGO_PKG_VERSION")]);
    assert_eq!(label("licenses"), "Apache-2.0");
    assert_ne!(label("source"), "");
    assert!(!["", "unknown"].contains(&label("revision")), "{config}");
}

/// The files of the image with their sizes in bytes, without empty files, which engines add on
/// export.
fn files() -> BTreeMap<String, u64> {
    let (engine, image) = (variable("ENGINE"), variable("BATON_IMAGE"));
    let script = format!(
        "set -o pipefail; trap '{engine} rm $container >&2' EXIT
        container=$({engine} create {image}) && {engine} export $container | tar --list --verbose"
    );
    let listed = run("bash", &["-c", &script], "").expect("the image can be exported");
    let mut files = BTreeMap::new();
    // -rwxr-xr-x 0/0  7800000 2026-01-31 12:00 baton
    for line in listed.lines().filter(|line| line.starts_with('-')) {
        let mut parts = line.split_whitespace();
        let size = parts.nth(2).and_then(|size| size.parse().ok()).expect("tar prints the size");
        files.insert(parts.nth(2).expect("tar prints the name").to_owned(), size);
    }
    files.retain(|_, size| *size > 0);
    files
}
