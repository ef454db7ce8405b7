//! Pods in which a sidecar would be unsafe or could not run.

use super::Injection;
use super::kyverno::Kyverno;
use crate::charts::server::create;
use crate::charts::tools::inject;
use serde_json::json;

/// By the policy, by `baton inject`, and by Kyverno, in the same words. Kyverno needs the API server
/// for a missing token: see [`super::kyverno`].
#[test]
fn unsuitable_pod_is_refused_with_the_reason() {
    let injection = Injection::installed("");
    let prefix = format!("--prefix={}", injection.prefix());
    let kyverno = Kyverno::with(&[&prefix]);
    let refusals = [
        (json!({"hostNetwork": true}), "it uses the host's network, where every process of"),
        (json!({"automountServiceAccountToken": false}), "it gets no service account token"),
        (
            json!({"volumes": [{"name": "baton-state", "hostPath": {"path": "/"}}]}),
            "its volume baton-state is no emptyDir",
        ),
        (json!({"os": {"name": "windows"}}), "it is for Windows, but the sidecar's image is for"),
        (json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), "it is for Windows, but"),
    ];
    for (spec, words) in refusals {
        let mut pod = injection.pod(&spec);
        if !spec["os"].is_null() {
            // Kubernetes itself refuses these fields in such a Pod.
            pod["spec"]["containers"][0]["securityContext"] = json!({});
        }
        let by_program = inject(&pod, &[&prefix]).unwrap_err();
        let by_kyverno = kyverno.refusal(&pod).unwrap_err();
        for refusal in [injection.admitted(&pod).unwrap_err(), by_program, by_kyverno] {
            let words = format!("cannot have a sidecar: {words}");
            assert!(refusal.contains(&words), "{words} is not in {refusal}");
        }
    }
    let mut tokenless = json!({"apiVersion": "v1", "kind": "ServiceAccount"});
    tokenless["metadata"] = json!({"name": "tokenless"});
    tokenless["automountServiceAccountToken"] = false.into();
    create(&injection.namespace.admin, &injection.namespace.name, &tokenless).unwrap();
    let mut pod = injection.pod(&json!({"serviceAccountName": "tokenless"}));
    let refusal = injection.admitted(&pod).unwrap_err();
    assert!(refusal.contains("it gets no service account token"), "{refusal}");
    pod["spec"]["automountServiceAccountToken"] = true.into();
    assert!(injection.admitted(&pod).is_ok());
}
