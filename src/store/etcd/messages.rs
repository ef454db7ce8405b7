//! Requests and answers of etcd's JSON gateway, as protobuf's JSON mapping writes them.
//!
//! Pure. Start with [`range_answer`], [`txn_answer`], and [`WatchMessage::parse`]. 64-bit integers
//! are strings, and bytes are base64. Zeros, `false`, and empty lists are left out, so `{}` would read
//! as a conflict: only an answer with a header is etcd's.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// An answer, and what its header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    /// The cluster that answered.
    pub cluster_id: u64,
    /// The revision of the whole store, as of the answer.
    pub revision: u64,
    /// The content.
    pub content: T,
}

/// A key's value and revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The value.
    pub value: Vec<u8>,
    /// The revision that created the key.
    pub create_revision: u64,
    /// The revision of the last put.
    pub mod_revision: u64,
}

/// The outcome of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxnOutcome {
    /// The key was as compared, and the puts were applied at the revision of the answer.
    Applied,
    /// The key had changed.
    Conflict,
}

/// A message of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchMessage {
    /// Which member's store sent it. An error of the gateway has none.
    pub header: Option<Header>,
    /// The content.
    pub line: WatchLine,
}

/// The content of a message of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchLine {
    /// Nothing changed.
    Idle,
    /// The key was put.
    Put(KeyValue),
    /// The key was deleted at this revision.
    Deleted(u64),
    /// The watch began before the oldest revision that is kept. The stream stays open, silent.
    Compacted,
    /// The watch ended, or never began.
    Ended(String),
}

/// Why an answer is not etcd's.
#[derive(Debug, thiserror::Error)]
pub enum InvalidAnswer {
    /// It is not the JSON of such an answer.
    #[error("it is not JSON of etcd's API")]
    Json(#[from] serde_json::Error),
    /// It names no cluster, or no revision of the store.
    #[error("it has no header with a cluster and a revision")]
    NoHeader,
    /// A key without a revision.
    #[error("its key has no revision")]
    NoRevision,
}

/// A transaction: it compares one key, and puts keys if that comparison holds.
#[derive(Debug)]
pub(crate) struct Txn<'a> {
    /// The key that is compared.
    pub(super) key: &'a str,
    /// The expected value and revisions; `None` if the key must not exist.
    pub(super) expected: Option<&'a KeyValue>,
    /// The keys to put, with their values.
    pub(super) puts: &'a [(&'a str, &'a [u8])],
}

#[derive(Serialize)]
struct RangeRequest {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
}

#[derive(Serialize)]
struct TxnRequest {
    compare: Vec<Compare>,
    success: Vec<RequestOp>,
}

#[derive(Serialize)]
struct Compare {
    key: String,
    result: &'static str,
    #[serde(flatten)]
    target: CompareTarget,
}

#[derive(Serialize)]
#[serde(tag = "target")]
enum CompareTarget {
    #[serde(rename = "MOD")]
    Mod { mod_revision: String },
    #[serde(rename = "CREATE")]
    Create { create_revision: String },
    #[serde(rename = "VALUE")]
    Value { value: String },
}

#[derive(Serialize)]
struct RequestOp {
    request_put: RequestPut,
}

#[derive(Serialize)]
struct RequestPut {
    key: String,
    value: String,
}

#[derive(Serialize)]
struct WatchRequest {
    create_request: WatchCreateRequest,
}

#[derive(Serialize)]
struct WatchCreateRequest {
    key: String,
    start_revision: String,
}

#[derive(Serialize)]
struct AuthenticateRequest<'a> {
    name: &'a str,
    password: &'a str,
}

/// The body of a request for a token.
pub(super) fn authenticate_request(name: &str, password: &str) -> Vec<u8> {
    to_json(&AuthenticateRequest { name, password })
}

/// The body of a linearizable read of `key`, as it is now, or as it was `at` a revision.
pub(super) fn range_request(key: &str, at: Option<u64>) -> Vec<u8> {
    let revision = at.map(|revision| revision.to_string());
    to_json(&RangeRequest { key: base64(key.as_bytes()), revision })
}

impl Txn<'_> {
    /// The body of this transaction.
    ///
    /// After a restore, revisions climb past those of before, so an old revision may name another
    /// record. Its value differs.
    pub(super) fn request(&self) -> Vec<u8> {
        let (create_revision, mod_revision) = self
            .expected
            .map_or((0, 0), |expected| (expected.create_revision, expected.mod_revision));
        let targets = [
            CompareTarget::Mod { mod_revision: mod_revision.to_string() },
            CompareTarget::Create { create_revision: create_revision.to_string() },
        ];
        let value = self.expected.map(|expected| base64(&expected.value));
        let value = value.map(|value| CompareTarget::Value { value });
        let compare =
            |target| Compare { key: base64(self.key.as_bytes()), result: "EQUAL", target };
        let put = |(key, value): &(&str, &[u8])| RequestOp {
            request_put: RequestPut { key: base64(key.as_bytes()), value: base64(value) },
        };
        to_json(&TxnRequest {
            compare: targets.into_iter().chain(value).map(compare).collect(),
            success: self.puts.iter().map(put).collect(),
        })
    }
}

/// The body of a request to watch `key` from the first revision after `after`.
pub(super) fn watch_request(key: &str, after: u64) -> Vec<u8> {
    let start_revision = after.saturating_add(1).to_string();
    let create_request = WatchCreateRequest { key: base64(key.as_bytes()), start_revision };
    to_json(&WatchRequest { create_request })
}

fn to_json(request: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(request).expect("a request of strings serializes")
}

fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The state of the store that sent an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(default)]
pub struct Header {
    /// The cluster.
    #[serde(deserialize_with = "number")]
    pub cluster_id: u64,
    /// The revision of the whole store.
    #[serde(deserialize_with = "number")]
    pub revision: u64,
}

#[derive(Deserialize)]
struct RangeResponse {
    header: Option<Object<Header>>,
    #[serde(default)]
    kvs: Vec<Object<WireKeyValue>>,
}

#[derive(Deserialize)]
struct TxnResponse {
    header: Option<Object<Header>>,
    #[serde(default)]
    succeeded: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireKeyValue {
    #[serde(deserialize_with = "bytes")]
    value: Vec<u8>,
    #[serde(deserialize_with = "number")]
    create_revision: u64,
    #[serde(deserialize_with = "number")]
    mod_revision: u64,
}

#[derive(Deserialize)]
struct WireWatchMessage {
    result: Option<Object<WatchResponse>>,
    error: Option<Object<StreamError>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WatchResponse {
    header: Option<Object<Header>>,
    canceled: bool,
    #[serde(deserialize_with = "number")]
    compact_revision: u64,
    cancel_reason: String,
    events: Vec<Object<WatchEvent>>,
}

/// The type of a put is the enum's zero, so it is left out.
#[derive(Deserialize, Default)]
#[serde(default)]
struct WatchEvent {
    r#type: EventType,
    kv: Object<WireKeyValue>,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
enum EventType {
    #[default]
    Put,
    Delete,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StreamError {
    message: String,
}

#[derive(Deserialize)]
struct AuthenticateResponse {
    token: String,
}

/// Parses the answer to a request for a token.
pub fn authenticate_answer(body: &[u8]) -> Result<String, InvalidAnswer> {
    let Object(AuthenticateResponse { token }) = serde_json::from_slice(body)?;
    Ok(token)
}

/// Parses the answer to a read: the key, or `None` if it does not exist.
pub fn range_answer(body: &[u8]) -> Result<Answer<Option<KeyValue>>, InvalidAnswer> {
    let Object(RangeResponse { header, kvs }) = serde_json::from_slice(body)?;
    let found = kvs.into_iter().next().map(|Object(found)| found.try_into()).transpose()?;
    answer(header, found)
}

/// Parses the answer to a transaction.
pub fn txn_answer(body: &[u8]) -> Result<Answer<TxnOutcome>, InvalidAnswer> {
    let Object(TxnResponse { header, succeeded }) = serde_json::from_slice(body)?;
    answer(header, if succeeded { TxnOutcome::Applied } else { TxnOutcome::Conflict })
}

impl WatchMessage {
    /// Parses a message of a watch. Of several events, the last one counts.
    pub fn parse(line: &[u8]) -> Result<Self, InvalidAnswer> {
        let Object(WireWatchMessage { result, error }) = serde_json::from_slice(line)?;
        if let Some(Object(StreamError { message })) = error {
            return Ok(Self { header: None, line: WatchLine::Ended(message) });
        }
        let Object(mut result) = result.ok_or(InvalidAnswer::NoHeader)?;
        let header = result.header.take().map(|Object(header)| header);
        Ok(Self { header, line: WatchLine::of(result)? })
    }
}

impl WatchLine {
    fn of(response: WatchResponse) -> Result<Self, InvalidAnswer> {
        let WatchResponse { header: _, canceled, compact_revision, cancel_reason, events } =
            response;
        if canceled {
            let is_compacted = compact_revision > 0;
            return Ok(if is_compacted { Self::Compacted } else { Self::Ended(cancel_reason) });
        }
        match events.into_iter().next_back() {
            None => Ok(Self::Idle),
            Some(Object(WatchEvent { r#type, kv: Object(kv) })) => match r#type {
                EventType::Put => Ok(Self::Put(kv.try_into()?)),
                EventType::Delete if kv.mod_revision == 0 => Err(InvalidAnswer::NoRevision),
                EventType::Delete => Ok(Self::Deleted(kv.mod_revision)),
            },
        }
    }
}

fn answer<T>(header: Option<Object<Header>>, content: T) -> Result<Answer<T>, InvalidAnswer> {
    match header.map(|Object(Header { cluster_id, revision })| (cluster_id, revision)) {
        Some((cluster_id, revision)) if cluster_id > 0 && revision > 0 => {
            Ok(Answer { cluster_id, revision, content })
        }
        Some(_) | None => Err(InvalidAnswer::NoHeader),
    }
}

impl TryFrom<WireKeyValue> for KeyValue {
    type Error = InvalidAnswer;

    fn try_from(wire: WireKeyValue) -> Result<Self, InvalidAnswer> {
        let WireKeyValue { value, create_revision, mod_revision } = wire;
        if create_revision == 0 || mod_revision < create_revision {
            return Err(InvalidAnswer::NoRevision);
        }
        Ok(Self { value, create_revision, mod_revision })
    }
}

/// A JSON object. Derived code alone would also accept an array of its fields.
#[derive(Default)]
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// A number in a string.
fn number<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
{
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Bytes in base64.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    BASE64_STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        r#""header":{"cluster_id":"7", "member_id":"1", "revision":"6", "raft_term":"2"}"#;

    fn with_header(rest: &str) -> String {
        format!("{{{HEADER}{rest}}}")
    }

    #[test]
    fn conflict_is_an_answer_with_a_header_only() {
        let outcome = |body: &str| txn_answer(body.as_bytes()).map(|answer| answer.content);
        assert_eq!(outcome(&with_header(r#","succeeded":true"#)).unwrap(), TxnOutcome::Applied);
        assert_eq!(outcome(&with_header("")).unwrap(), TxnOutcome::Conflict);
        for other in [
            "{}",
            r#"{"succeeded":true}"#,
            r#"{"header":{}}"#,
            r#"{"header":{"cluster_id":"7"}}"#,
            r#"{"header":{"revision":"6"}}"#,
            r#"{"code":14,"message":"etcdserver: request timed out"}"#,
            r#"[{"cluster_id":"7","revision":"6"},true]"#,
            r#"{"header":["7","6"],"succeeded":true}"#,
            "<html>",
            "",
        ] {
            assert!(outcome(other).is_err(), "{other}");
        }
    }

    #[test]
    fn missing_key_is_an_answer_with_a_header_only() {
        let found = |body: &str| range_answer(body.as_bytes()).map(|answer| answer.content);
        assert_eq!(found(&with_header("")).unwrap(), None);
        assert!(found("{}").is_err());
        let key = r#","kvs":[{"create_revision":"2","mod_revision":"3","value":"eA=="}]"#;
        let expected = KeyValue { value: b"x".to_vec(), create_revision: 2, mod_revision: 3 };
        assert_eq!(found(&with_header(key)).unwrap(), Some(expected));
        // An empty value is left out.
        let empty = r#","kvs":[{"create_revision":"2","mod_revision":"3"}]"#;
        assert_eq!(found(&with_header(empty)).unwrap().unwrap().value, b"");
        let without_revision = r#","kvs":[{"value":"eA=="}]"#;
        assert!(found(&with_header(without_revision)).is_err());
    }

    #[test]
    fn read_is_linearizable() {
        let body = |at| String::from_utf8(range_request("r", at)).unwrap();
        assert_eq!(body(None), r#"{"key":"cg=="}"#, "`serializable` is absent, so it is false");
        assert_eq!(body(Some(3)), r#"{"key":"cg==","revision":"3"}"#);
    }

    #[test]
    fn watch_tells_what_happened_to_the_key() {
        let line = |result: &str| {
            let message = format!(r#"{{"result":{{{HEADER}{result}}}}}"#);
            let message = WatchMessage::parse(message.as_bytes()).unwrap();
            assert_eq!(message.header, Some(Header { cluster_id: 7, revision: 6 }));
            message.line
        };
        assert_eq!(line(r#","created":true"#), WatchLine::Idle);
        let put = r#"{"kv":{"create_revision":"2","mod_revision":"3","value":"eA=="}}"#;
        let found = KeyValue { value: b"x".to_vec(), create_revision: 2, mod_revision: 3 };
        assert_eq!(line(&format!(r#","events":[{put}]"#)), WatchLine::Put(found));
        let deleted = r#"{"type":"DELETE","kv":{"mod_revision":"5"}}"#;
        let both = format!(r#","events":[{put},{deleted}]"#);
        assert_eq!(line(&both), WatchLine::Deleted(5), "the last event counts");
        let compacted = r#","canceled":true,"compact_revision":"4""#;
        assert_eq!(line(compacted), WatchLine::Compacted);
        let reason = r#","created":true,"canceled":true,"cancel_reason":"why""#;
        assert_eq!(line(reason), WatchLine::Ended("why".to_owned()));
        let error = br#"{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}"#;
        let ended = WatchLine::Ended("etcdserver: no leader".to_owned());
        let message = WatchMessage { header: None, line: ended };
        assert_eq!(WatchMessage::parse(error).unwrap(), message);
        assert!(WatchMessage::parse(b"{}").is_err());
    }

    /// After a restore without `--bump-revision`, two records may have the same revisions.
    #[test]
    fn transaction_compares_revisions_and_value() {
        let record = KeyValue { value: b"x".to_vec(), create_revision: 2, mod_revision: 3 };
        let puts: [(&str, &[u8]); 2] = [("r", b"y"), ("t", b"")];
        let txn = Txn { key: "r", expected: Some(&record), puts: &puts };
        assert_eq!(
            String::from_utf8(txn.request()).unwrap(),
            concat!(
                r#"{"compare":[{"key":"cg==","result":"EQUAL","target":"MOD","mod_revision":"3"},"#,
                r#"{"key":"cg==","result":"EQUAL","target":"CREATE","create_revision":"2"},"#,
                r#"{"key":"cg==","result":"EQUAL","target":"VALUE","value":"eA=="}],"#,
                r#""success":[{"request_put":{"key":"cg==","value":"eQ=="}},"#,
                r#"{"request_put":{"key":"dA==","value":""}}]}"#
            )
        );
        let creation = Txn { key: "r", expected: None, puts: &puts[..1] };
        assert_eq!(
            String::from_utf8(creation.request()).unwrap(),
            concat!(
                r#"{"compare":[{"key":"cg==","result":"EQUAL","target":"MOD","mod_revision":"0"},"#,
                r#"{"key":"cg==","result":"EQUAL","target":"CREATE","create_revision":"0"}],"#,
                r#""success":[{"request_put":{"key":"cg==","value":"eQ=="}}]}"#
            )
        );
    }
}
