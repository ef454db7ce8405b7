//! The sidecar's image, as it is shipped: what is in it, and what it says of itself.

use crate::rig::{run, variable};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// In bytes, of all that is in it: every node pulls it.
const LARGEST: u64 = 8_000_000;

#[test]
fn it_holds_the_program_and_the_public_authorities_and_is_small() {
    let files = files();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["baton", "etc/ssl/certs/ca-certificates.crt"], "and no shell");
    let size: u64 = files.values().sum();
    assert!(size <= LARGEST, "{size} bytes are more than {LARGEST}: {files:?}");
}

#[test]
fn it_runs_as_nobody_by_number_and_says_what_it_is() {
    let image = variable("BATON_IMAGE");
    let told =
        run(&variable("ENGINE"), &["image", "inspect", &image], "").expect("the image is there");
    let told: Value = serde_json::from_str(&told).expect("an engine tells it as JSON");
    let config = &told[0]["Config"];
    assert_eq!(
        (&config["User"], &config["Entrypoint"]),
        (&json!("65532:65532"), &json!(["/baton"]))
    );
    let label = |name: &str| {
        config["Labels"][format!("org.opencontainers.image.{name}")].as_str().unwrap_or_default()
    };
    assert_eq!([label("title"), label("version")], ["baton", env!("CARGO_PKG_VERSION")]);
    assert_eq!(label("licenses"), "Apache-2.0");
    assert!(!["", "unknown"].contains(&label("revision")), "{config}");
}

/// The files of the image that have something in them, by their size in bytes. An engine adds empty ones to what it exports.
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
        let size = parts.nth(2).and_then(|size| size.parse().ok()).expect("tar tells the size");
        files.insert(parts.nth(2).expect("tar tells the name").to_owned(), size);
    }
    files.retain(|_, size| *size > 0);
    files
}
