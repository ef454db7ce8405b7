//! A namespace for one test, and the accounts of candidates in it.

use super::access::Access;
use super::jwt;
use crate::rig::eventually;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{self as core, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use std::time::{Duration, SystemTime};

/// The verbs that one election needs; `baton rbac` prints the same.
const VERBS: [&str; 4] = ["get", "watch", "create", "update"];

/// How long the API server may take to apply a change of its RBAC rules.
const PATIENCE: Duration = Duration::from_secs(10);

const ADMITTED: &str = "the administrator may";

pub(crate) struct Namespace {
    pub(crate) name: String,
    /// The administrator.
    pub(crate) admin: Access,
}

/// A `ServiceAccount` whose Role covers some Leases by name.
pub(crate) struct Account {
    pub(crate) access: Access,
    pub(crate) token: String,
    pub(crate) namespace: String,
    admin: Access,
    name: String,
    leases: Vec<String>,
    /// A verb that its Role allows.
    verb: Option<String>,
}

/// A token of an account.
pub(crate) struct Token {
    pub(crate) text: String,
    admin: Access,
    secret: String,
}

impl Namespace {
    /// From now on, admits only Pods that meet Pod Security `restricted`.
    pub(crate) fn restrict(&self) {
        let labels =
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
        let patched = self.admin.call(async |client| {
            let namespaces = Api::<core::Namespace>::all(client);
            namespaces.patch(&self.name, &PatchParams::default(), &Patch::Merge(&labels)).await
        });
        assert!(patched.is_ok(), "{ADMITTED}");
    }

    /// Creates an account with a Role; the Role is in force when this returns.
    pub(crate) fn account(&self, name: &str, leases: &[&str]) -> Account {
        self.account_that_may(&VERBS, name, leases)
    }

    /// The same with other verbs.
    pub(crate) fn account_that_may(&self, verbs: &[&str], name: &str, leases: &[&str]) -> Account {
        let token = self.admin.call(async |client| {
            let account = ServiceAccount { metadata: named(name), ..ServiceAccount::default() };
            let accounts = Api::default_namespaced(client.clone());
            accounts.create(&PostParams::default(), &account).await?;
            Api::default_namespaced(client)
                .create(&PostParams::default(), &role(name, leases, verbs))
                .await?;
            token_of(&accounts, name, None).await
        });
        let token = token.expect(ADMITTED);
        let account = Account {
            access: self.admin.with_token(name, &token),
            token,
            admin: self.admin.clone(),
            namespace: self.name.clone(),
            name: name.to_owned(),
            leases: leases.iter().map(|&lease| lease.to_owned()).collect(),
            verb: verbs.first().map(|&verb| verb.to_owned()),
        };
        account.grant();
        account
    }
}

impl Account {
    /// Binds its Role; returns once that is in force.
    pub(crate) fn grant(&self) {
        let binding = self.binding(&self.name);
        let created = self.admin.call(async |client| {
            Api::default_namespaced(client).create(&PostParams::default(), &binding).await
        });
        created.expect(ADMITTED);
        eventually(PATIENCE, "the Role is in force", || self.may_elect());
    }

    /// Removes its Role binding; returns once that is in force.
    pub(crate) fn revoke(&self) {
        let deleted = self.admin.call(async |client| {
            Api::<RoleBinding>::default_namespaced(client)
                .delete(&self.name, &DeleteParams::default())
                .await
        });
        assert!(deleted.is_ok(), "{ADMITTED}");
        eventually(PATIENCE, "the Role is no longer in force", || !self.may_elect());
    }

    /// Issues another token, which can be revoked.
    pub(crate) fn another_token(&self) -> Token {
        let made = self.admin.call(async |client| {
            // A token is valid while the object exists that it is bound to.
            let metadata =
                ObjectMeta { generate_name: Some("token-".to_owned()), ..ObjectMeta::default() };
            let secrets = Api::default_namespaced(client.clone());
            let secret = secrets
                .create(&PostParams::default(), &Secret { metadata, ..Secret::default() })
                .await?;
            let bound = BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Secret".to_owned()),
                name: secret.metadata.name.clone(),
                uid: secret.metadata.uid,
            };
            let text = token_of(&Api::default_namespaced(client), &self.name, Some(bound)).await?;
            Ok(Token {
                text,
                admin: self.admin.clone(),
                secret: secret.metadata.name.expect("the server generated it"),
            })
        });
        made.expect(ADMITTED)
    }

    /// Its token with another expiry. The API server accepts it for a minute longer.
    pub(crate) fn token_until(&self, end: SystemTime) -> String {
        jwt::until(end, &self.token, &self.admin.signing_key())
    }

    /// Lets it use EndpointSlices: those with these names, or all. Returns once that is in force.
    pub(crate) fn grant_slices(&self, verbs: &[&str], names: &[&str]) {
        self.grant_more("discovery.k8s.io", "endpointslices", verbs, names);
    }

    /// Lets it create Events. Returns once that is in force.
    pub(crate) fn grant_events(&self) {
        self.grant_more("", "events", &["create"], &[]);
    }

    fn grant_more(&self, group: &str, resource: &str, verbs: &[&str], names: &[&str]) {
        let name = format!("{}-{resource}-{}", self.name, verbs.join("-"));
        let rules = vec![rule(group, resource, names, verbs)];
        let role = Role { metadata: named(&name), rules: Some(rules) };
        let binding = self.binding(&name);
        let created = self.admin.call(async |client| {
            Api::default_namespaced(client.clone()).create(&PostParams::default(), &role).await?;
            Api::default_namespaced(client).create(&PostParams::default(), &binding).await
        });
        created.expect(ADMITTED);
        let (verb, object) = (verbs.first().copied(), names.first().copied());
        eventually(PATIENCE, "the Role is in force", || self.may(group, resource, verb, object));
    }

    /// A binding of this Role to it, with the same name.
    fn binding(&self, role: &str) -> RoleBinding {
        RoleBinding {
            metadata: named(role),
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: role.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: self.name.clone(),
                namespace: Some(self.namespace.clone()),
                ..Subject::default()
            }]),
        }
    }

    fn may_elect(&self) -> bool {
        let lease = self.leases.first().map(String::as_str);
        self.may("coordination.k8s.io", "leases", self.verb.as_deref(), lease)
    }

    fn may(&self, group: &str, resource: &str, verb: Option<&str>, name: Option<&str>) -> bool {
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            verb: verb.map(str::to_owned),
            namespace: Some(self.namespace.clone()),
            name: name.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{}:{}", self.namespace, self.name)),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviewed = self
            .admin
            .call(async |client| Api::all(client).create(&PostParams::default(), &review).await);
        reviewed.expect(ADMITTED).status.expect("a review has a result").allowed
    }
}

impl Token {
    /// Revokes it: within ten seconds, the API server answers 401, as for an expired one.
    pub(crate) fn revoke(&self) {
        let deleted = self.admin.call(async |client| {
            Api::<Secret>::default_namespaced(client)
                .delete(&self.secret, &DeleteParams::default())
                .await
        });
        assert!(deleted.is_ok(), "{ADMITTED}");
    }
}

async fn token_of(
    accounts: &Api<ServiceAccount>,
    name: &str,
    bound_object_ref: Option<BoundObjectReference>,
) -> kube::Result<String> {
    let spec = TokenRequestSpec { bound_object_ref, ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
    Ok(answer.status.expect("a TokenRequest is answered with a token").token)
}

fn role(name: &str, leases: &[&str], verbs: &[&str]) -> Role {
    let rule = rule("coordination.k8s.io", "leases", leases, verbs);
    Role { metadata: named(name), rules: Some(vec![rule]) }
}

fn rule(group: &str, resource: &str, names: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    PolicyRule {
        api_groups: Some(owned(&[group])),
        resources: Some(owned(&[resource])),
        resource_names: Some(owned(names)).filter(|names: &Vec<_>| !names.is_empty()),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}
