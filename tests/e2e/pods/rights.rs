//! The least rights of a sidecar, and its messages if some are missing.

use crate::rig::{Case, PATIENCE, SHOP, wait_for};
use serde_json::json;

const VERBS: [&str; 4] = ["get", "watch", "create", "update"];

#[test]
fn rendered_role_suffices_in_a_restricted_namespace() {
    let case = Case::new("restricted");
    case.kubectl(&[
        "label",
        "namespace",
        &case.namespace,
        "pod-security.kubernetes.io/enforce=restricted",
    ]);
    case.install(json!({}));
    let user = format!("system:serviceaccount:{}:shop", case.namespace);
    let lease = format!("leases.coordination.k8s.io/{}", case.election);
    for verb in VERBS {
        assert!(case.can_i(&user, verb, &lease), "the sidecar may not {verb} its Lease");
        assert!(
            !case.can_i(&user, verb, "leases.coordination.k8s.io"),
            "the sidecar may {verb} all Leases"
        );
    }
    for verb in ["list", "patch", "delete"] {
        assert!(!case.can_i(&user, verb, &lease), "the sidecar may {verb} its Lease");
    }
    assert!(!case.can_i(&user, "get", "pods"), "the sidecar may get Pods");
}

#[test]
fn missing_verb_is_logged_with_the_role() {
    for missing in VERBS {
        let case = Case::new(&format!("without-{missing}"));
        let verbs: Vec<&str> = VERBS.into_iter().filter(|verb| *verb != missing).collect();
        let role = [
            "create",
            "role",
            &case.election,
            "--resource=leases.coordination.k8s.io",
            &format!("--resource-name={}", case.election),
            &format!("--verb={}", verbs.join(",")),
        ];
        case.kubectl(&role);
        let account = format!("--serviceaccount={}:shop", case.namespace);
        case.kubectl(&[
            "create",
            "rolebinding",
            &case.election,
            &format!("--role={}", case.election),
            &account,
        ]);
        case.helm_with(
            &["install", "shop", "tests/e2e/shop"],
            &case.values(json!({ "rights": false, "replicas": 2 })),
        );
        let (_, message) = case.wait_for_event("store_refuses", "shop");
        for part in [
            &format!("cannot {missing} resource"),
            "verbs: [\"get\", \"watch\", \"create\", \"update\"]",
            &format!("resourceNames: [\"{}\"]", case.election),
        ] {
            assert!(message.contains(part), "{part} is not in {message}");
        }
    }
}

#[test]
fn pod_without_a_token_exits_with_2_and_the_reason() {
    let case = Case::new("tokenless");
    case.helm_with(
        &["install", "shop", "tests/e2e/shop"],
        &case.values(json!({ "automountServiceAccountToken": false, "replicas": 1 })),
    );
    let exit = wait_for(PATIENCE, "the sidecar has exited", || {
        let pods = case.pods(SHOP);
        let exit = &pods.first()?.container("baton")["lastState"]["terminated"];
        exit.is_object().then(|| exit.clone())
    });
    assert_eq!(exit["exitCode"], 2, "{exit}");
    let message = exit["message"].as_str().unwrap_or_default();
    assert!(message.contains("token"), "{message}");
}
