//! The rights of this account on the Lease, as the API server reports them.
//!
//! Touches the API server. Start with [`LeaseStore::missing_rights`]. It asks by
//! `SelfSubjectAccessReview`, which any authenticated account may create and which is not stored.

use crate::store::StoreError;
use crate::store::kubernetes::LeaseStore;
use crate::store::kubernetes::bodies::read_body;
use crate::store::kubernetes::refusal::LeaseError;
use k8s_openapi::Resource as _;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::Resource as _;
use kube::api::PostParams;
use kube::core::Request as Requests;
use serde_json::{Value, json};

/// The rights of a candidate, in the order of its requests.
const VERBS: [&str; 4] = ["get", "watch", "create", "update"];

impl LeaseStore {
    /// The rights that this account lacks. `None` if the API server does not say.
    pub async fn missing_rights(&self) -> Result<Option<Vec<&'static str>>, StoreError> {
        let mut missing = Vec::new();
        for verb in VERBS {
            match self.allows(verb).await? {
                Some(true) => {}
                Some(false) => missing.push(verb),
                None => return Ok(None),
            }
        }
        Ok(Some(missing))
    }

    async fn allows(&self, verb: &str) -> Result<Option<bool>, LeaseError> {
        let lease = &self.api.lease;
        let review = json!({
            "apiVersion": SelfSubjectAccessReview::API_VERSION,
            "kind": SelfSubjectAccessReview::KIND,
            "spec": {"resourceAttributes": {
                "namespace": lease.namespace,
                "verb": verb,
                "group": "coordination.k8s.io",
                "resource": "leases",
                "name": lease.name,
            }},
        });
        let body = review.to_string().into_bytes();
        let reviews = Requests::new(SelfSubjectAccessReview::url_path(&(), None));
        let request = reviews.create(&PostParams::default(), body);
        let response = match self.api.call(request).await? {
            Ok(response) => response,
            Err(kube::Error::Api(_)) => return Ok(None),
            Err(error) => return Err(LeaseError::Transport(error)),
        };
        let review: Value = serde_json::from_slice(&read_body(response).await?).unwrap_or_default();
        Ok(review["status"]["allowed"].as_bool())
    }
}
