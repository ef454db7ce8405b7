//! The rights that an election on Kubernetes needs, as YAML to be applied.
//!
//! Pure. One Role limited to the one Lease: creation is by PUT, which is authorized with the name, so `resourceNames`
//! can limit it too; of a POST nobody knows the name.

use std::fmt;

/// A Role and its binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// The election's name, which is the Lease's and the Role's.
    pub election: String,
    /// Where they live; nothing is written when it is left to `kubectl`.
    pub namespace: Option<String>,
    /// Whose rights these are.
    pub service_account: String,
}

impl Role {
    /// The Role that would have let a call through, which the API server refused with `message`.
    pub fn of_refusal(election: &str, namespace: &str, message: &str) -> Self {
        // A message names whom it refused: User "system:serviceaccount:NAMESPACE:NAME" cannot get resource "leases".
        let user = message.split_once("system:serviceaccount:").and_then(|(_, rest)| rest.split_once('"'));
        let account = user.and_then(|(user, _)| user.split_once(':')).map_or("SERVICE_ACCOUNT", |(_, name)| name);
        Self {
            election: election.to_owned(),
            namespace: Some(namespace.to_owned()),
            service_account: account.to_owned(),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { election, namespace, service_account } = self;
        let in_namespace = |indent: &str| {
            namespace.as_ref().map_or_else(String::new, |namespace| format!("\n{indent}namespace: {namespace:?}"))
        };
        let (of_object, of_subject) = (in_namespace("  "), in_namespace("    "));
        write!(
            f,
            r#"apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {election:?}{of_object}
rules:
  - apiGroups: ["coordination.k8s.io"]
    resources: ["leases"]
    resourceNames: [{election:?}]
    verbs: ["get", "watch", "create", "update"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {election:?}{of_object}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {election:?}
subjects:
  - kind: ServiceAccount
    name: {service_account:?}{of_subject}"#
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_service_account_that_was_refused() {
        let message = r#"leases.coordination.k8s.io "orders" is forbidden: User "system:serviceaccount:sales:shop" cannot get resource"#;
        assert_eq!(Role::of_refusal("orders", "sales", message).service_account, "shop");
        assert_eq!(Role::of_refusal("orders", "sales", "Unauthorized").service_account, "SERVICE_ACCOUNT");
    }
}
