//! A mutating admission policy of the API server that changes the candidates' writes.

use crate::rig::{Leases, Rig, Store as _, eventually, throughout, wait_for};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, DynamicObject, ObjectMeta, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

const GROUP: &str = "admissionregistration.k8s.io";

/// A policy that shortens every Lease of one namespace to a second, until it is removed.
struct Shortener<'a> {
    rig: &'a Rig<Leases>,
    name: String,
}

impl<'a> Shortener<'a> {
    /// Installs the policy, and returns once it is in force.
    fn install(rig: &'a Rig<Leases>) -> Self {
        let namespace = &rig.store.namespace.name;
        let this = Self { rig, name: format!("shorten-{namespace}") };
        this.create(
            "MutatingAdmissionPolicy",
            &json!({
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": {
                    "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
                    "resourceRules": [{
                        "apiGroups": ["coordination.k8s.io"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["leases"],
                    }],
                },
                "mutations": [{
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        "expression": r#"[JSONPatch{op: "add", path: "/spec/leaseDurationSeconds", value: 1}]"#,
                    },
                }],
            }),
        );
        this.create("MutatingAdmissionPolicyBinding", &json!({ "policyName": this.name }));
        eventually(PATIENCE, "the policy is in force", || this.is_in_force());
        this
    }

    /// Removes the policy, and returns once it is no longer in force.
    fn remove(self) {
        for kind in ["MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"] {
            let deleted = self.rig.store.namespace.admin.call(async |client| {
                let policies = Api::<DynamicObject>::all_with(client, &resource(kind));
                policies.delete(&self.name, &DeleteParams::default()).await.map(drop)
            });
            deleted.unwrap();
        }
        eventually(PATIENCE, "the policy is no longer in force", || !self.is_in_force());
    }

    fn create(&self, kind: &str, spec: &Value) {
        let created = self.rig.store.namespace.admin.call(async |client| {
            let mut policy = DynamicObject::new(&self.name, &resource(kind));
            policy.data = json!({ "spec": spec });
            Api::all_with(client, &resource(kind))
                .create(&PostParams::default(), &policy)
                .await
                .map(drop)
        });
        created.unwrap();
    }

    /// Checks with a dry run, which stores nothing.
    fn is_in_force(&self) -> bool {
        let mut lease = Lease {
            metadata: ObjectMeta { name: Some("dry-run".to_owned()), ..ObjectMeta::default() },
            ..Lease::default()
        };
        lease.spec.get_or_insert_default().lease_duration_seconds = Some(15);
        let made = self.rig.store.namespace.admin.call(async |client| {
            let dry_run = PostParams { dry_run: true, ..PostParams::default() };
            Api::<Lease>::default_namespaced(client).create(&dry_run, &lease).await
        });
        made.unwrap().spec.and_then(|spec| spec.lease_duration_seconds) == Some(1)
    }
}

fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", kind))
}

/// The others wait for one second and not for the requested lease duration, so a claim would not
/// exclude them.
#[test]
fn shortened_lease_is_no_claim_and_is_logged_once() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    let policy = Shortener::install(&rig);
    let candidate = rig.start("candidate");
    let altered = wait_for(PATIENCE, "it logs that the record was altered", || {
        candidate.events("record_altered").pop()
    });
    assert_eq!(altered["level"], "ERROR", "{altered}");
    let message = altered["message"].as_str().unwrap_or_default();
    for part in ["duration 6s", "now has holder candidate", "and duration 1s", "mutating webhook"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    throughout(2 * rig.timing.lease_duration, "it stays healthy and does not lead", || {
        candidate.is_healthy() && !rig.has_standing(&candidate, "leading")
    });
    assert_eq!(candidate.events("record_altered").len(), 1, "{}", candidate.output());
    policy.remove();
    assert_eq!(rig.leader().identity, candidate.identity);
}

/// A policy that appears during a term ends it at the next renewal: others may already lead.
#[test]
fn shortened_renewal_ends_the_term() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    let leader = rig.start_leader("leader");
    let policy = Shortener::install(&rig);
    leader.loses(rig.timing.retry_period + Leases::NOISE, "conflict");
    assert_eq!(leader.exit_code(), 75);
    assert_eq!(leader.events("record_altered").len(), 1, "{}", leader.output());
    policy.remove();
}
