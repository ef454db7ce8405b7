//! A Lease as JSON: the election's fields are read and written, and the rest stays as it came.
//!
//! Pure but for the wall clock that it is handed. Start with [`Object`]. A write changes only the
//! election's fields. The rest of the object keeps the bytes that were read, whatever the version
//! of Kubernetes, so a thousand labels cost their own length and no more. The fields are written
//! exactly as client-go's resourcelock writes them, so its candidates and ours share one Lease.

use baton_election::identity::Identity;
use baton_election::record::messages::{Intent, Record, Snapshot, Stamp, Version, Write};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Fields by name, each as the bytes that it came in.
type Fields = BTreeMap<String, Box<RawValue>>;

/// An answer that is no Lease of ours.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoLease {
    #[error("it is not an object in JSON: see what else answers at its address")]
    Json(#[source] serde_json::Error),
    #[error("its metadata makes no sense")]
    Metadata(#[source] serde_json::Error),
    #[error("the object has no metadata.{0}")]
    Missing(&'static str),
    #[error("it is named {0:?}, and another was asked for")]
    Another(String),
    #[error("resourceVersion {0:?} is not a decimal number, so it cannot be a fencing token")]
    Version(String),
}

/// A Lease as an API server sent it.
pub(super) struct Object {
    /// What it says of the election.
    pub(super) seen: Snapshot,
    fields: Fields,
}

/// The fields that are read from an object's metadata.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Object {
    /// The Lease `name` in these bytes. A malformed field of the election counts as absent.
    pub(super) fn parse(bytes: &[u8], name: &str) -> Result<Self, NoLease> {
        let fields: Fields = serde_json::from_slice(bytes).map_err(NoLease::Json)?;
        let metadata =
            fields.get("metadata").map(|raw| serde_json::from_str(raw.get())).transpose();
        let Metadata { name: named, uid, resource_version } =
            metadata.map_err(NoLease::Metadata)?.unwrap_or_default();
        let named = named.ok_or(NoLease::Missing("name"))?;
        if named != name {
            return Err(NoLease::Another(named));
        }
        let uid = uid.ok_or(NoLease::Missing("uid"))?.into();
        let number = resource_version.ok_or(NoLease::Missing("resourceVersion"))?;
        let number = version_number(&number).ok_or(NoLease::Version(number))?;
        let record = record(&spec_of(&fields));
        Ok(Self { seen: Snapshot { version: Version { uid, number }, record }, fields })
    }
}

/// A resourceVersion as a number, which it is by KEP-5504.
pub(super) fn version_number(text: &str) -> Option<u128> {
    text.parse().ok()
}

fn spec_of(fields: &Fields) -> Fields {
    fields.get("spec").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn record(spec: &Fields) -> Record {
    let text = |field| value::<String>(spec, field).unwrap_or_default();
    let seconds = value(spec, "leaseDurationSeconds").filter(|seconds| *seconds > 0);
    Record {
        holder: Identity::parse_lossy(&text("holderIdentity")),
        duration: seconds.map(Duration::from_secs),
        transitions: value(spec, "leaseTransitions").unwrap_or(0),
        acquired: Stamp(text("acquireTime")),
        renewed: Stamp(text("renewTime")),
    }
}

/// A field's value, if it is of this type.
fn value<'a, T: Deserialize<'a>>(fields: &'a Fields, field: &str) -> Option<T> {
    serde_json::from_str(fields.get(field)?.get()).ok()
}

/// The object that `write` makes of `base`, or of nothing, when the wall clock shows `wall`.
pub(super) fn written(
    base: Option<&Object>,
    name: &str,
    write: &Write,
    wall: SystemTime,
) -> Vec<u8> {
    let mut fields = base.map_or_else(|| nothing(name), |base| base.fields.clone());
    let mut spec = spec_of(&fields);
    let now = after(value::<String>(&spec, "renewTime").as_deref(), wall);
    set(&mut spec, "holderIdentity", &write.holder.as_ref().map_or("", Identity::as_str));
    set(&mut spec, "leaseDurationSeconds", &seconds_rounded_up(write.duration));
    // The API server counts in 32 bits and refuses what is larger.
    set(&mut spec, "leaseTransitions", &write.transitions.min(i32::MAX.unsigned_abs()));
    set(&mut spec, "renewTime", &now);
    match write.intent {
        Intent::Acquire | Intent::Release => set(&mut spec, "acquireTime", &now),
        Intent::Renew => {}
    }
    set(&mut fields, "spec", &spec);
    as_json(&fields).get().to_owned().into_bytes()
}

/// A Lease before it is made.
fn nothing(name: &str) -> Fields {
    let mut fields = Fields::new();
    set(&mut fields, "apiVersion", &"coordination.k8s.io/v1");
    set(&mut fields, "kind", &"Lease");
    set(&mut fields, "metadata", &BTreeMap::from([("name", name)]));
    fields
}

fn set<T: Serialize + ?Sized>(fields: &mut Fields, field: &str, value: &T) {
    fields.insert(field.to_owned(), as_json(value));
}

fn as_json<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    to_raw_value(value).expect("texts, numbers, and maps of texts are JSON")
}

/// The present time, or the next after the one that the record says, where the wall clock has not got past that one: every
/// renewal has to show, and to differ from each before it, for a reader may miss some. A time far ahead is not followed:
/// it is a stranger's, or that of a clock that was put right.
fn after(before: Option<&str>, wall: SystemTime) -> String {
    let before = before.and_then(|text| humantime::parse_rfc3339(text).ok());
    let next = before.and_then(|before| before.checked_add(Duration::from_micros(1)));
    let is_near = |next: &SystemTime| {
        next.duration_since(wall).is_ok_and(|ahead| ahead < Duration::from_mins(1))
    };
    humantime::format_rfc3339_micros(next.filter(is_near).unwrap_or(wall)).to_string()
}

/// Whole seconds are all that a Lease knows: rounded up, so that the others wait no less than we count on.
fn seconds_rounded_up(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(object: &Value) -> Object {
        Object::parse(object.to_string().as_bytes(), "orders").unwrap()
    }

    fn lease(spec: &Value) -> Object {
        let metadata = json!({ "name": "orders", "uid": "u", "resourceVersion": "7", "labels": { "team": "sales" } });
        object(
            &json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec }),
        )
    }

    fn renewal() -> Write {
        let held = lease(&json!({ "holderIdentity": "a" })).seen;
        let identity = Identity::parse("a").unwrap();
        Write::over(Some(&held), Intent::Renew, &identity, Duration::from_millis(1_500))
    }

    /// What a write at the beginning of time makes of `base`.
    fn after_writing(base: &Object, write: &Write) -> Value {
        let bytes = written(Some(base), "orders", write, SystemTime::UNIX_EPOCH);
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn garbage_in_a_field_is_as_good_as_its_absence() {
        let specs = [
            json!({}),
            json!(null),
            json!({ "holderIdentity": "", "leaseDurationSeconds": 0, "leaseTransitions": -1 }),
            json!({ "holderIdentity": null, "leaseDurationSeconds": -15, "leaseTransitions": "many" }),
        ];
        for spec in specs {
            let record = lease(&spec).seen.record;
            assert_eq!(
                (record.holder, record.duration, record.transitions),
                (None, None, 0),
                "{spec}"
            );
        }
    }

    #[test]
    fn a_holder_that_cannot_be_an_identity_holds_the_lease_all_the_same() {
        assert!(lease(&json!({ "holderIdentity": "a\nb" })).seen.record.holder.is_some());
    }

    #[test]
    fn another_lease_is_not_ours() {
        let others = json!({ "metadata": { "name": "bills", "uid": "u", "resourceVersion": "7" } })
            .to_string();
        assert!(matches!(Object::parse(others.as_bytes(), "orders"), Err(NoLease::Another(_))));
        assert!(matches!(Object::parse(b"{}", "orders"), Err(NoLease::Missing("name"))));
        assert!(matches!(Object::parse(b"<html>", "orders"), Err(NoLease::Json(_))));
    }

    #[test]
    fn a_renewal_touches_its_own_fields_only() {
        let before = json!({ "holderIdentity": "a", "acquireTime": "then", "strategy": "theirs", "later": { "field": 1 } });
        let object = after_writing(&lease(&before), &renewal());
        assert_eq!(object["metadata"]["labels"], json!({ "team": "sales" }));
        let spec = &object["spec"];
        assert_eq!((&spec["strategy"], &spec["later"]), (&before["strategy"], &before["later"]));
        assert_eq!(spec["acquireTime"], "then");
        assert_eq!(spec["renewTime"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(spec["leaseDurationSeconds"], 2, "rounded up, not in our favour");
    }

    #[test]
    fn foreign_fields_are_written_back_byte_by_byte() {
        let labels = r#"{ "big": 1e400, "escaped": "\u0041\/", "long": 0.10000000000000000555 }"#;
        let text = format!(
            r#"{{"metadata":{{"name":"orders","uid":"u","resourceVersion":"7","labels":{labels}}},"later":{labels}}}"#
        );
        let base = Object::parse(text.as_bytes(), "orders").unwrap();
        let bytes = written(Some(&base), "orders", &renewal(), SystemTime::UNIX_EPOCH);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches(labels).count(), 2, "{text}");
    }

    #[test]
    fn every_renewal_shows_even_while_the_wall_clock_stands_still() {
        let mut base =
            lease(&json!({ "holderIdentity": "a", "renewTime": "1970-01-01T00:00:00.000000Z" }));
        for expected in [
            "1970-01-01T00:00:00.000001Z",
            "1970-01-01T00:00:00.000002Z",
            "1970-01-01T00:00:00.000003Z",
        ] {
            let renewed = after_writing(&base, &renewal());
            assert_eq!(renewed["spec"]["renewTime"], expected);
            base = object(&renewed);
        }
    }

    #[test]
    fn a_time_that_is_no_clocks_is_not_carried_on() {
        for strange in ["9999-12-31T23:59:59.999999Z", "1970-01-01T00:01:00.000000Z", "yesterday"] {
            let object = after_writing(
                &lease(&json!({ "holderIdentity": "a", "renewTime": strange })),
                &renewal(),
            );
            assert_eq!(object["spec"]["renewTime"], "1970-01-01T00:00:00.000000Z");
        }
    }

    #[test]
    fn a_release_is_what_client_go_writes() {
        let base = lease(&json!({ "holderIdentity": "a", "leaseTransitions": 3 }));
        let identity = Identity::parse("a").unwrap();
        let release =
            Write::over(Some(&base.seen), Intent::Release, &identity, Duration::from_secs(15));
        let spec = after_writing(&base, &release)["spec"].clone();
        let fields =
            [&spec["holderIdentity"], &spec["leaseDurationSeconds"], &spec["leaseTransitions"]];
        assert_eq!(fields, [&json!(""), &json!(1), &json!(3)]);
        assert_eq!(spec["acquireTime"], spec["renewTime"]);
    }

    #[test]
    fn a_lease_that_is_made_has_a_name_and_no_version() {
        let identity = Identity::parse("a").unwrap();
        let create = Write::over(None, Intent::Acquire, &identity, Duration::from_secs(15));
        let bytes = written(None, "orders", &create, SystemTime::UNIX_EPOCH);
        let made: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            (&made["kind"], &made["apiVersion"]),
            (&json!("Lease"), &json!("coordination.k8s.io/v1"))
        );
        assert_eq!(made["metadata"], json!({ "name": "orders" }));
    }
}
