//! Answers of etcd's JSON gateway, or of a proxy in its place, compared with a second reading of
//! the same JSON.
//!
//! The first byte selects the kind of answer, and for errors the status. The rest is the body, which
//! may end anywhere.

use super::json;
use baton::store::etcd::messages::{
    Answer, KeyValue, TxnOutcome, WatchLine, WatchMessage, authenticate_answer, range_answer,
    txn_answer,
};
use baton::store::etcd::record_value::StoredRecord;
use baton::store::etcd::refusal::Failure;
use serde_json::Value;

const STATUSES: [u16; 8] = [400, 401, 403, 404, 421, 429, 500, 503];
/// The longest text that is kept of an error, in bytes: 200 characters.
const MAX_TEXT_BYTES: usize = 800;

pub(super) fn read(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else { return };
    match kind % 8 {
        0 => range(body),
        1 => txn(body),
        2 => watch(body),
        3 => record(body),
        4 => drop(authenticate_answer(body)),
        _ => error(STATUSES[usize::from(kind / 8) % STATUSES.len()], body),
    }
}

fn range(body: &[u8]) {
    let Ok(Answer { cluster_id, revision, content }) = range_answer(body) else { return };
    let value = json(body).expect("only JSON is an answer");
    check_header(&value, cluster_id, revision);
    let keys = value["kvs"].as_array().map_or(0, Vec::len);
    assert_eq!(
        content.is_none(),
        keys == 0,
        "a missing key must be told from an answer without it"
    );
    if let Some(found) = content {
        check_record(&found);
    }
}

fn txn(body: &[u8]) {
    let Ok(Answer { cluster_id, revision, content }) = txn_answer(body) else { return };
    let value = json(body).expect("only JSON is an answer");
    check_header(&value, cluster_id, revision);
    let is_applied = value["succeeded"] == Value::Bool(true);
    assert_eq!(content == TxnOutcome::Applied, is_applied);
}

/// An answer without a header may be anything, so it must be neither a conflict nor a missing key.
fn check_header(answer: &Value, cluster_id: u64, revision: u64) {
    let header = &answer["header"];
    let number = |name: &str| header[name].as_str().and_then(|text| text.parse::<u64>().ok());
    assert_eq!(number("revision"), Some(revision));
    assert!(revision > 0, "a store has a revision from its start on");
    assert_eq!(number("cluster_id"), Some(cluster_id));
    assert!(cluster_id > 0, "an answer without a cluster must pin none");
}

fn check_record(found: &KeyValue) {
    assert!(found.create_revision > 0 && found.mod_revision >= found.create_revision);
    if let Ok((_, snapshot)) = StoredRecord::parse(found) {
        assert_eq!(snapshot.version.number, u128::from(found.mod_revision));
        assert_eq!(*snapshot.version.uid, found.create_revision.to_string());
    }
}

fn watch(body: &[u8]) {
    let Ok(WatchMessage { header, line }) = WatchMessage::parse(body) else { return };
    let value = json(body).expect("only JSON is a message");
    assert!(header.is_none() || value["error"].is_null());
    let is_canceled = value["result"]["canceled"] == Value::Bool(true);
    match line {
        WatchLine::Put(found) => {
            assert!(!is_canceled);
            check_record(&found);
        }
        WatchLine::Deleted(revision) => assert!(revision > 0 && !is_canceled),
        WatchLine::Idle => assert!(!is_canceled && value["error"].is_null()),
        WatchLine::Compacted => assert!(is_canceled),
        WatchLine::Ended(_) => assert!(is_canceled || !value["error"].is_null()),
    }
}

fn record(body: &[u8]) {
    check_record(&KeyValue { value: body.to_vec(), create_revision: 3, mod_revision: 7 });
}

fn error(status: u16, body: &[u8]) {
    let code = json(body).and_then(|value| value["code"].as_u64());
    match Failure::of(status, body) {
        Failure::TokenRefused(text) => {
            assert!(matches!(code, Some(3 | 16)), "{code:?} does not mean that a token is needed");
            assert!(text.len() <= MAX_TEXT_BYTES);
        }
        Failure::AuthenticationOff => assert_eq!(code, Some(9)),
        Failure::Other(refusal) => assert!(refusal.to_string().lines().count() <= 1),
    }
}
