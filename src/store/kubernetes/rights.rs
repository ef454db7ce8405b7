//! The API server's report of the rights of this account on the Lease, and of the time.
//!
//! Touches the API server. Start with [`LeaseStore::rights`]. It asks by
//! `SelfSubjectAccessReview`, which any authenticated account may create and which is not stored.

use crate::kubernetes::answer::read_body;
use crate::store::StoreError;
use crate::store::kubernetes::LeaseStore;
use crate::store::kubernetes::lease_object::MAX_OBJECT_BYTES;
use crate::store::kubernetes::refusal::LeaseError;
use hyper::header::DATE;
use k8s_openapi::Resource as _;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::Resource as _;
use kube::api::PostParams;
use kube::core::Request as Requests;
use serde_json::{Value, json};
use std::time::SystemTime;

/// The rights of a candidate, in the order of its requests.
const VERBS: [&str; 4] = ["get", "watch", "create", "update"];

/// The API server's report.
#[derive(Debug)]
pub struct AccessReport {
    /// The rights that the account lacks. `None` if the API server does not say.
    pub missing: Option<Vec<&'static str>>,
    /// The API server's wall-clock time, from the `Date` of its last answer.
    pub server_time: Option<SystemTime>,
}

impl LeaseStore {
    /// Asks for each right of a candidate, until the API server does not say.
    pub async fn rights(&self) -> Result<AccessReport, StoreError> {
        let mut rights = AccessReport { missing: Some(Vec::new()), server_time: None };
        for verb in VERBS {
            let allowed = self.allows(verb, &mut rights.server_time).await?;
            match allowed {
                Some(true) => {}
                Some(false) => rights.missing.iter_mut().for_each(|missing| missing.push(verb)),
                None => {
                    rights.missing = None;
                    break;
                }
            }
        }
        Ok(rights)
    }

    async fn allows(
        &self,
        verb: &str,
        server_time: &mut Option<SystemTime>,
    ) -> Result<Option<bool>, LeaseError> {
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
        let response = match self.api.server.call(request).await? {
            Ok(response) => response,
            Err(kube::Error::Api(_)) => return Ok(None),
            Err(error) => return Err(LeaseError::Transport(error)),
        };
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        *server_time = date.and_then(|date| httpdate::parse_http_date(date).ok()).or(*server_time);
        let review: Value = serde_json::from_slice(&read_body(response, MAX_OBJECT_BYTES).await?)
            .unwrap_or_default();
        Ok(review["status"]["allowed"].as_bool())
    }
}
