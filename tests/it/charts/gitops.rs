//! Renders as Argo CD and Flux make them: without a cluster, and with the same bytes each time.

use super::tools::{Helm, chart, in_repository};
use std::fs;
use std::path::Path;

const EVERYTHING: &str = "--set=elections.orders.serviceAccountName=shop,\
                          elections.orders.podLabels.app=shop,elections.bills.podLabels.app=shop,\
                          elections.bills.serviceAccountName=shop,serviceAccount.create=true,\
                          injection.enabled=true,demo.enabled=true,podMonitor.enabled=true,\
                          prometheusRule.enabled=true,dashboard.enabled=true,\
                          flowSchema.enabled=true,networkPolicy.enabled=true,\
                          podDisruptionBudget.enabled=true";

#[test]
fn two_renders_have_the_same_bytes() {
    let chart = chart("baton");
    for helm in Helm::BOTH {
        let render = || {
            let release = ["template", "test", chart.to_str().unwrap(), "--kube-version=1.36.3"];
            helm.run(&[&release[..], &[EVERYTHING]].concat()).unwrap()
        };
        let first = render();
        assert!(first.len() > 50_000, "{} bytes", first.len());
        for _ in 0..3 {
            assert_eq!(first, render(), "{helm:?}");
        }
    }
}

/// `helm template` has no cluster, no earlier release, and no randomness that it keeps.
#[test]
fn only_the_cleanup_of_the_demo_looks_at_the_cluster() {
    let mut templates = Vec::new();
    for name in ["baton", "baton-sidecar"] {
        files(&in_repository("charts").join(name).join("templates"), &mut templates);
    }
    assert!(templates.len() > 20, "{}", templates.len());
    for function in ["lookup", "now", "randAlphaNum", "genCA", "uuidv4", "IsUpgrade", "Revision"] {
        let uses = templates.iter().filter(|(_, text)| text.contains(&format!("{function} ")));
        let uses: Vec<_> = uses.map(|(name, _)| name.as_str()).collect();
        let expected: &[&str] = if function == "lookup" { &["lease.yaml"] } else { &[] };
        assert_eq!(uses, expected, "{function}");
    }
}

fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            found.push((name, actions(&fs::read_to_string(&path).unwrap())));
        }
    }
}

/// The template actions of a text, without comments.
fn actions(text: &str) -> String {
    let actions = text.split("{{").skip(1).filter_map(|action| action.split("}}").next());
    let shown = actions.filter(|action| !action.trim_start_matches(['-', ' ']).starts_with("/*"));
    shown.collect::<Vec<_>>().join(" ")
}
