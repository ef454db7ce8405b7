//! The cost of Pods with very many annotations to an API server whose policies inject.
//!
//! A stranger may label a Pod and annotate it with whatever fits. The cost is the server's own
//! processor time, compared with that of the same Pods without the label, in the same run.

use super::{Injection, names};
use crate::rig::{ApiServer, processor_time};
use serde_json::{Value, json};
use std::time::Duration;

/// As many as fit into the 256 KiB that a Pod's annotations may have, with four characters for a
/// name and one for a value.
const MOST: usize = 52_000;

/// As many as fit with a name that a policy looks at.
const MOST_OF_OURS: usize = 12_000;

/// How many Pods of each kind are compared.
const PODS: usize = 4;

#[test]
fn pod_with_too_many_annotations_is_refused_in_words() {
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
fn annotations_cost_labelled_pods_hardly_more_than_others() {
    let server = ApiServer::start();
    let injection = Injection::installed_on(&server, "");
    let ours = format!("{}/config.", injection.prefix());
    for (begins_with, count) in [("", MOST), (ours.as_str(), MOST_OF_OURS)] {
        let mut labelled = injection.pod(&json!({}));
        annotate(&mut labelled, begins_with, count);
        let mut plain = labelled.clone();
        plain["metadata"].as_object_mut().unwrap().remove("labels");
        injection.admitted(&plain).expect("these annotations fit into a Pod");

        let [mut peer, mut judged] = [Duration::ZERO; 2];
        for _ in 0..PODS {
            peer += cost(&server, &injection, &plain);
            judged += cost(&server, &injection, &labelled);
        }
        let figures = format!(
            "{PODS} Pods with {count} annotations {begins_with}…: {judged:?} of processor time with the label, {peer:?} without"
        );
        println!("{figures}");
        // Measured: one and a half times as much. Without the bound on annotations: four to six
        // times.
        assert!(2 * judged <= 5 * peer, "{figures}");
    }
}

/// The processor time that the server takes for the creation of a Pod.
fn cost(server: &ApiServer, injection: &Injection, pod: &Value) -> Duration {
    let before = processor_time(server.server.pid());
    // A refusal counts too, and so does a call that the client gave up.
    drop(injection.admitted(pod));
    processor_time(server.server.pid()).saturating_sub(before)
}

/// Gives a Pod this many further annotations, or its first ones anew.
fn annotate(pod: &mut Value, begins_with: &str, count: usize) {
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.extend((0..count).map(|number| (format!("{begins_with}{number:04x}"), "v".into())));
}
