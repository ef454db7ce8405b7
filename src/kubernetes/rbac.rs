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
    /// Where Lease and Role live; nothing is written when it is left to `kubectl`.
    pub namespace: Option<String>,
    /// Whose rights these are.
    pub subject: Subject,
}

/// Who is given rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// What a Pod is.
    ServiceAccount {
        /// Its name.
        name: String,
        /// Its own namespace, which need not be the Lease's.
        namespace: Option<String>,
    },
    /// Whoever else: of a certificate, of an identity provider.
    User(String),
}

impl Role {
    /// The Role that would have let a call through, which the API server refused with `message`; `None` where no Role
    /// would: a quota, an admission plugin, a namespace that is going.
    pub fn of_refusal(election: &str, namespace: &str, message: &str) -> Option<Self> {
        // Of missing rights it says: … is forbidden: User "jane" cannot get resource "leases" in API group …
        let (user, _) = message.split_once("User \"")?.1.split_once("\" cannot ")?;
        if user == "system:anonymous" {
            // Who came without credentials needs some, and no rights.
            return None;
        }
        let account =
            user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
        let subject = match account {
            Some((namespace, name)) => Subject::ServiceAccount {
                name: name.to_owned(),
                namespace: Some(namespace.to_owned()),
            },
            // Quoted as Go does it: CORP\\jane.
            None => Subject::User(user.replace(r"\\", r"\")),
        };
        Some(Self { election: election.to_owned(), namespace: Some(namespace.to_owned()), subject })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { election, namespace, subject } = self;
        let line = |indent: &str, namespace: Option<&String>| {
            namespace
                .map_or_else(String::new, |namespace| format!("\n{indent}namespace: {namespace:?}"))
        };
        let of_object = line("  ", namespace.as_ref());
        let subject = match subject {
            Subject::ServiceAccount { name, namespace } => {
                format!(
                    "kind: ServiceAccount\n    name: {name:?}{}",
                    line("    ", namespace.as_ref())
                )
            }
            Subject::User(name) => {
                format!("kind: User\n    apiGroup: rbac.authorization.k8s.io\n    name: {name:?}")
            }
        };
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
  - {subject}"#
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(user: &str) -> String {
        format!(
            r#"leases.coordination.k8s.io "orders" is forbidden: User "{user}" cannot get resource "leases" in API group"#
        )
    }

    #[test]
    fn a_refusal_names_who_was_refused_and_where_that_one_lives() {
        let role = |user| Role::of_refusal("orders", "infra", &forbidden(user)).unwrap();
        let pod = role("system:serviceaccount:sales:shop");
        let account = Subject::ServiceAccount {
            name: "shop".to_owned(),
            namespace: Some("sales".to_owned()),
        };
        assert_eq!((pod.namespace.as_deref(), &pod.subject), (Some("infra"), &account));
        let yaml = pod.to_string();
        assert!(yaml.contains("name: \"orders\"\n  namespace: \"infra\""), "{yaml}");
        assert!(
            yaml.ends_with("- kind: ServiceAccount\n    name: \"shop\"\n    namespace: \"sales\""),
            "{yaml}"
        );

        let person = role("jane").to_string();
        let binding = "- kind: User\n    apiGroup: rbac.authorization.k8s.io\n    name: \"jane\"";
        assert!(person.ends_with(binding), "{person}");
    }

    #[test]
    fn what_no_role_would_let_through_is_given_none() {
        let quota = r#"leases.coordination.k8s.io "orders" is forbidden: exceeded quota: one, requested: count/leases=1"#;
        let going = r#"leases "orders" is forbidden: unable to create new content in namespace sales because it is being terminated"#;
        for message in [quota, going, "Forbidden", &forbidden("system:anonymous")] {
            assert_eq!(Role::of_refusal("orders", "sales", message), None, "{message}");
        }
    }
}
