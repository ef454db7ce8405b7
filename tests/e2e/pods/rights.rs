//! How little a sidecar may have, and what it says where that is too little.

use crate::rig::{Case, PATIENCE, SHOP, wait_for};
use serde_json::json;

const VERBS: [&str; 4] = ["get", "watch", "create", "update"];

#[test]
fn the_rendered_role_and_nothing_more_suffices_in_a_restricted_namespace() {
    let case = Case::new("restricted");
    case.kubectl(&[
        "label",
        "namespace",
        &case.namespace,
        "pod-security.kubernetes.io/enforce=restricted",
    ]);
    case.install(json!({}));
    let user = format!("system:serviceaccount:{}:shop", case.namespace);
    let ours = format!("leases.coordination.k8s.io/{}", case.election);
    for verb in VERBS {
        assert!(case.may(&user, verb, &ours), "it may not {verb} its Lease");
        assert!(!case.may(&user, verb, "leases.coordination.k8s.io"), "it may {verb} all Leases");
    }
    for verb in ["list", "patch", "delete"] {
        assert!(!case.may(&user, verb, &ours), "it may {verb} its Lease");
    }
    assert!(!case.may(&user, "get", "pods"), "it may get Pods");
}

#[test]
fn a_verb_less_is_named_with_the_role() {
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
        let (_, told) = case.event("store_refuses", "shop");
        for needed in [
            &format!("cannot {missing} resource"),
            "verbs: [\"get\", \"watch\", \"create\", \"update\"]",
            &format!("resourceNames: [\"{}\"]", case.election),
        ] {
            assert!(told.contains(needed), "{needed} is not in {told}");
        }
    }
}

#[test]
fn a_pod_without_a_mounted_token_ends_with_2_and_says_why() {
    let case = Case::new("tokenless");
    case.helm_with(
        &["install", "shop", "tests/e2e/shop"],
        &case.values(json!({ "automountServiceAccountToken": false, "replicas": 1 })),
    );
    let ended = wait_for(PATIENCE, "its sidecar has ended", || {
        let pods = case.pods(SHOP);
        let ended = &pods.first()?.container("baton")["lastState"]["terminated"];
        ended.is_object().then(|| ended.clone())
    });
    assert_eq!(ended["exitCode"], 2, "{ended}");
    let why = ended["message"].as_str().unwrap_or_default();
    assert!(why.contains("token"), "{why}");
}
