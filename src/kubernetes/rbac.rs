//! The RBAC manifest that an election on Kubernetes needs.
//!
//! Pure. Start with [`RbacManifest`]. Its Role is limited to the Lease's name by `resourceNames`,
//! even for creation: that is a PUT, which is authorized with the name. A POST is not.

use crate::kubernetes::endpoint_slice::Family;
use std::fmt;

/// A Role and its binding; displays as YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbacManifest {
    /// The name of the election, the Lease, the Role, and the binding.
    pub election: String,
    /// The namespace of the Lease and Role; if absent, the manifest names none.
    pub namespace: Option<String>,
    /// The account that gets the rights.
    pub subject: Subject,
    /// The objects that the rights are for.
    pub rights: Rights,
}

/// The objects that a candidate needs rights to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// The Lease, unless the election is held elsewhere.
    pub lease: bool,
    /// The EndpointSlices of this Service.
    pub service: Option<String>,
    /// Events of the Lease.
    pub events: bool,
}

impl Rights {
    /// The rights that every election over a Lease needs.
    pub const LEASE: Self = Self { lease: true, service: None, events: false };
}

/// An account that gets rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A service account.
    ServiceAccount {
        /// The name.
        name: String,
        /// The namespace, which may differ from the Lease's.
        namespace: Option<String>,
    },
    /// A user, for example from a client certificate or an identity provider.
    User(String),
}

impl RbacManifest {
    /// The manifest with `rights`, for the account that `message`, a refusal by the API server, names.
    /// `None` if no Role would help: because of a quota, an admission plugin, or the deletion of
    /// the namespace.
    pub fn for_refusal(
        election: &str,
        namespace: &str,
        rights: &Rights,
        message: &str,
    ) -> Option<Self> {
        // Missing rights: … is forbidden: User "jane" cannot get resource "leases" in API group …
        let (user, _) = message.split_once("User \"")?.1.split_once("\" cannot ")?;
        if user == "system:anonymous" {
            // An anonymous caller needs credentials, not rights.
            return None;
        }
        let account =
            user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
        let subject = match account {
            Some((namespace, name)) => Subject::ServiceAccount {
                name: name.to_owned(),
                namespace: Some(namespace.to_owned()),
            },
            // The message quotes as Go does: CORP\\jane.
            None => Subject::User(user.replace(r"\\", r"\")),
        };
        let (election, namespace) = (election.to_owned(), Some(namespace.to_owned()));
        Some(Self { election, namespace, subject, rights: rights.clone() })
    }
}

impl fmt::Display for RbacManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { election, namespace, subject, rights } = self;
        let namespace_line = |indent: &str, namespace: Option<&String>| {
            namespace
                .map_or_else(String::new, |namespace| format!("\n{indent}namespace: {namespace:?}"))
        };
        let object_namespace = namespace_line("  ", namespace.as_ref());
        let subject = match subject {
            Subject::ServiceAccount { name, namespace } => {
                format!(
                    "kind: ServiceAccount\n    name: {name:?}{}",
                    namespace_line("    ", namespace.as_ref())
                )
            }
            Subject::User(name) => {
                format!("kind: User\n    apiGroup: rbac.authorization.k8s.io\n    name: {name:?}")
            }
        };
        let mut rules = String::new();
        if rights.lease {
            rules += &rule(
                "coordination.k8s.io",
                "leases",
                &format!("{election:?}"),
                r#""get", "watch", "create", "update""#,
            );
        }
        if let Some(service) = &rights.service {
            let names = Family::ALL.map(|family| format!("{:?}", family.slice_name(service)));
            let group = "discovery.k8s.io";
            rules += &rule(group, "endpointslices", &names.join(", "), r#""get", "update""#);
            rules += CREATION;
        }
        if rights.events {
            rules += EVENTS;
        }
        write!(
            f,
            "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {election:?}{object_namespace}
rules:{rules}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {election:?}{object_namespace}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {election:?}
subjects:
  - {subject}"
        )
    }
}

/// Why the Role does not let the account create the slices.
const CREATION: &str = "
  # Create the slices with their Service. Kubernetes cannot limit the right to create endpointslices
  # by name: whoever has it can add endpoints to any Service of the namespace.";

/// The rule for Events.
const EVENTS: &str = r#"
  # Kubernetes cannot limit this right by name.
  - apiGroups: [""]
    resources: ["events"]
    verbs: ["create"]"#;

/// A rule about objects with these names.
fn rule(group: &str, resource: &str, names: &str, verbs: &str) -> String {
    format!(
        r#"
  - apiGroups: ["{group}"]
    resources: ["{resource}"]
    resourceNames: [{names}]
    verbs: [{verbs}]"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(user: &str) -> String {
        format!(
            "leases.coordination.k8s.io \"orders\" is forbidden: User \"{user}\" cannot get \
             resource \"leases\" in API group"
        )
    }

    #[test]
    fn refusal_yields_manifest_for_the_refused_subject() {
        let manifest = |user| {
            let message = forbidden(user);
            RbacManifest::for_refusal("orders", "infra", &Rights::LEASE, &message).unwrap()
        };
        let pod = manifest("system:serviceaccount:sales:shop");
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

        let person = manifest("jane").to_string();
        let binding = "- kind: User\n    apiGroup: rbac.authorization.k8s.io\n    name: \"jane\"";
        assert!(person.ends_with(binding), "{person}");
    }

    #[test]
    fn no_manifest_if_no_role_would_help() {
        let quota = "leases.coordination.k8s.io \"orders\" is forbidden: exceeded quota: one, \
                     requested: count/leases=1";
        let deleting = "leases \"orders\" is forbidden: unable to create new content in namespace \
                        sales because it is being terminated";
        for message in [quota, deleting, "Forbidden", &forbidden("system:anonymous")] {
            let manifest = RbacManifest::for_refusal("orders", "sales", &Rights::LEASE, message);
            assert_eq!(manifest, None, "{message}");
        }
    }
}
