//! An administrator of etcd: reads, writes, and commands through the JSON gateway.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use std::time::Duration;
use ureq::Agent;

/// How long one member may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

const ANSWERS: &str = "a member answers";

#[derive(Clone)]
pub(crate) struct EtcdAdmin {
    endpoints: Vec<String>,
}

/// A key's value and revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) value: String,
    pub(crate) revision: u64,
}

impl EtcdAdmin {
    pub(super) fn of(endpoints: Vec<String>) -> Self {
        Self { endpoints }
    }

    /// Calls the first member that answers 200.
    pub(crate) fn try_call(&self, path: &str, request: &Value) -> Result<Value, String> {
        let config = Agent::config_builder().proxy(None).http_status_as_error(false);
        let agent = Agent::new_with_config(config.timeout_global(Some(ANSWER)).build());
        let mut failure = String::new();
        for endpoint in &self.endpoints {
            let sent = agent.post(format!("{endpoint}{path}")).send(request.to_string());
            match sent
                .map(|mut answer| (answer.status().as_u16(), answer.body_mut().read_to_string()))
            {
                Ok((200, Ok(body))) => {
                    return serde_json::from_str(&body).map_err(|error| error.to_string());
                }
                other => failure = format!("{endpoint}{path}: {other:?}"),
            }
        }
        Err(failure)
    }

    #[track_caller]
    pub(crate) fn call(&self, path: &str, request: &Value) -> Value {
        self.try_call(path, request).expect(ANSWERS)
    }

    /// The key, or `None` if it does not exist.
    pub(crate) fn try_read(&self, key: &str) -> Result<Option<Found>, String> {
        let answer = self.try_call("/v3/kv/range", &json!({ "key": encode(key) }))?;
        let found = &answer["kvs"][0];
        if found.is_null() {
            return Ok(None);
        }
        let value = BASE64_STANDARD.decode(found["value"].as_str().unwrap_or_default());
        let value = String::from_utf8(value.expect("it is base64")).expect("it is text");
        Ok(Some(Found { value, revision: number(&found["mod_revision"]) }))
    }

    /// Reads the key as it was at this revision. Fails if that was compacted.
    pub(crate) fn read_at(&self, key: &str, revision: u64) -> Result<Value, String> {
        let request = json!({ "key": encode(key), "revision": revision.to_string() });
        self.try_call("/v3/kv/range", &request)
    }

    #[track_caller]
    pub(crate) fn read(&self, key: &str) -> Option<Found> {
        self.try_read(key).expect(ANSWERS)
    }

    pub(crate) fn try_put(&self, key: &str, value: &str) -> Result<u64, String> {
        let put = json!({ "key": encode(key), "value": encode(value) });
        Ok(number(&self.try_call("/v3/kv/put", &put)?["header"]["revision"]))
    }

    /// Returns the new revision.
    #[track_caller]
    pub(crate) fn put(&self, key: &str, value: &str) -> u64 {
        self.try_put(key, value).expect(ANSWERS)
    }

    #[track_caller]
    pub(crate) fn delete(&self, key: &str) {
        self.call("/v3/kv/deleterange", &json!({ "key": encode(key) }));
    }

    /// How many keys there are below `prefix`.
    pub(crate) fn count(&self, prefix: &str) -> usize {
        let answer = self.call("/v3/kv/range", &below(prefix));
        answer["kvs"].as_array().map_or(0, Vec::len)
    }

    /// Deletes the oldest key below `prefix`.
    #[track_caller]
    pub(crate) fn delete_first(&self, prefix: &str) {
        let mut request = below(prefix);
        request["sort_target"] = "CREATE".into();
        request["sort_order"] = "ASCEND".into();
        let answer = self.call("/v3/kv/range", &request);
        let key = &answer["kvs"][0]["key"];
        self.call("/v3/kv/deleterange", &json!({ "key": key }));
    }

    /// The revision of the whole store.
    #[track_caller]
    pub(crate) fn revision(&self) -> u64 {
        let answer = self.call("/v3/kv/range", &json!({ "key": encode("/") }));
        number(&answer["header"]["revision"])
    }

    /// Discards the history before the current revision.
    #[track_caller]
    pub(crate) fn compact(&self) {
        let revision = self.revision().to_string();
        // Another compaction may have gone further.
        let order = json!({ "revision": revision, "physical": true });
        self.try_call("/v3/kv/compaction", &order).ok();
    }
}

/// A request for all keys that begin with `prefix` and a slash.
fn below(prefix: &str) -> Value {
    // '0' comes after '/'.
    json!({ "key": encode(&format!("{prefix}/")), "range_end": encode(&format!("{prefix}0")) })
}

fn encode(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("it is a number in a string")
}
