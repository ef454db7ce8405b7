//! The cost of Pods with thousands of annotations to an API server whose policies inject.
//!
//! Any tenant may label a Pod and annotate it at will. The cost is the server's processor time,
//! compared with that of the same Pods without the label in the same run.

use super::{Injection, names};
use crate::rig::{ApiServer, processor_time};
use serde_json::{Value, json};
use std::time::Duration;

/// The most annotations that fit into the 256 KiB of a Pod, with four characters for a name and one
/// for a value.
const MAX_ANNOTATIONS: usize = 52_000;

/// The most that fit with names that a policy reads.
const MAX_OWN_ANNOTATIONS: usize = 12_000;

/// How many Pods of each kind are compared.
const PODS: usize = 4;

#[test]
fn pod_with_too_many_annotations_is_refused() {
    let injection = Injection::installed("");
    let mut pod = injection.pod(&json!({}));
    annotate(&mut pod, "", 999);
    assert_eq!(names(&injection.admitted(&pod).unwrap()["spec"]["initContainers"]), ["baton"]);
    annotate(&mut pod, "", 1000);
    let refusal = injection.admitted(&pod).unwrap_err();
    assert!(
        refusal.contains("has 1001 annotations: such a Pod may have at most 1000"),
        "{refusal}"
    );
}

#[test]
fn annotations_cost_little_more_on_labelled_pods() {
    let server = ApiServer::start();
    let injection = Injection::installed_on(&server, "");
    let own_prefix = format!("{}/config.", injection.prefix());
    for (prefix, count) in [("", MAX_ANNOTATIONS), (own_prefix.as_str(), MAX_OWN_ANNOTATIONS)] {
        let mut labelled = injection.pod(&json!({}));
        annotate(&mut labelled, prefix, count);
        let mut plain = labelled.clone();
        plain["metadata"].as_object_mut().unwrap().remove("labels");
        injection.admitted(&plain).expect("these annotations fit into a Pod");

        let [mut without_label, mut with_label] = [Duration::ZERO; 2];
        for _ in 0..PODS {
            without_label += cost(&server, &injection, &plain);
            with_label += cost(&server, &injection, &labelled);
        }
        let figures = format!(
            "processor time for {PODS} Pods with {count} annotations {prefix}…: {with_label:?} \
             with the label, {without_label:?} without"
        );
        println!("{figures}");
        // The measured ratio is 1.5. Without the bound on annotations, it is four to six.
        assert!(2 * with_label <= 5 * without_label, "{figures}");
    }
}

/// The processor time that the server takes for the creation of a Pod.
fn cost(server: &ApiServer, injection: &Injection, pod: &Value) -> Duration {
    let before = processor_time(server.server.pid());
    // Refused and timed-out requests count too.
    drop(injection.admitted(pod));
    processor_time(server.server.pid()).saturating_sub(before)
}

/// Adds this many numbered annotations to a Pod, or replaces those with the same number.
fn annotate(pod: &mut Value, prefix: &str, count: usize) {
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.extend((0..count).map(|number| (format!("{prefix}{number:04x}"), "v".into())));
}
