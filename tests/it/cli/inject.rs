//! The messages that `baton inject` prints besides its YAML.

use super::baton;
use std::io::Write as _;
use std::process::Stdio;

/// A Deployment with these labels of its own and this metadata in its template.
fn deployment(name: &str, labels: &str, template: &str) -> String {
    format!(
        "kind: Deployment\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n\
         spec: {{template: {{metadata: {{{template}}}, spec: {{containers: [{{name: app}}]}}}}}}\n"
    )
}

const LABELLED: &str = "labels: {baton/inject: enabled}, annotations: {baton/election: orders}";

fn inject(flags: &[&str], yaml: &str) -> (i32, String, String) {
    let mut command = baton(&["inject"]);
    command.args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(yaml.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn summary_counts_injected_templates() {
    let yaml =
        [deployment("a", "", LABELLED), deployment("b", "", ""), deployment("c", "", LABELLED)]
            .join("---\n");
    let (code, injected, messages) = inject(&["--strict"], &yaml);
    assert_eq!((code, messages.as_str()), (0, "baton: 2 of 3 templates injected\n"));
    assert_eq!(injected.matches("restartPolicy: Always").count(), 2, "{injected}");
    let (code, again, messages) = inject(&["--strict"], &injected);
    assert_eq!(
        (code, messages.as_str()),
        (0, "baton: 0 of 3 templates injected, 2 already had a sidecar\n")
    );
    assert_eq!(again, injected);
}

#[test]
fn near_misses_are_named_and_refused_by_strict() {
    let on_workload = deployment("a", "baton/inject: enabled", "");
    let yaml = [on_workload, deployment("b", "", "labels: {baton/inject: 'true'}")].join("---\n");
    let (code, injected, messages) = inject(&[], &yaml);
    assert_eq!((code, injected.as_str()), (0, yaml.as_str()));
    let expected = [
        "warning: Deployment a: the label baton/inject is on the object but must be on its Pod \
         template",
        "warning: Deployment b: the label baton/inject is \"true\"",
        "0 of 2 templates injected",
    ];
    for text in expected {
        assert!(messages.contains(text), "{text} is not in\n{messages}");
    }
    let (code, injected, messages) = inject(&["--strict"], &yaml);
    assert_eq!((code, injected.as_str(), messages.lines().count()), (2, "", 2), "{messages}");
}
