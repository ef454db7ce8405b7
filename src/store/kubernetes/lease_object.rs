//! A Lease as JSON: reads and writes the election's fields, and keeps all others unchanged.
//!
//! Pure: the caller provides the wall-clock time. Start with [`LeaseObject`]. Other fields are kept
//! as unparsed bytes, so those of any version of Kubernetes survive. The election's fields are
//! written as client-go's resourcelock writes them, so that its candidates and ours can share a
//! Lease.

use baton_election::identity::Identity;
use baton_election::record::messages::{Intent, Record, Snapshot, Stamp, Version, Write};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The largest object that is read, in bytes. An election's Lease has less than one thousand.
pub(super) const MAX_OBJECT_BYTES: usize = 64 * 1024;

/// Fields by name, each as the JSON it arrived in.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Why a response is not the expected Lease.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidLease {
    #[error("it is not a JSON object: check what answers at the API server's address")]
    Json(#[source] serde_json::Error),
    #[error("its metadata is malformed")]
    Metadata(#[source] serde_json::Error),
    #[error("it has no metadata.{0}")]
    Missing(&'static str),
    #[error("it is named {0:?}, which is not the requested name")]
    WrongName(String),
    #[error("resourceVersion {0:?} is not a decimal number, so it cannot be a fencing token")]
    Version(String),
}

/// A Lease as the API server sent it.
pub(super) struct LeaseObject {
    /// The election's record and version.
    pub(super) snapshot: Snapshot,
    fields: Fields,
}

/// The metadata fields that are read.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

/// The metadata of a Lease to create. An inventory finds Leases by the label.
#[derive(Serialize)]
struct NewMetadata<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
}

impl LeaseObject {
    /// Parses the Lease `name`. A malformed field of the election counts as absent.
    pub(super) fn parse(bytes: &[u8], name: &str) -> Result<Self, InvalidLease> {
        let fields: Fields = serde_json::from_slice(bytes).map_err(InvalidLease::Json)?;
        let metadata =
            fields.get("metadata").map(|raw| serde_json::from_str(raw.get())).transpose();
        let Metadata { name: named, uid, resource_version } =
            metadata.map_err(InvalidLease::Metadata)?.unwrap_or_default();
        let named = named.ok_or(InvalidLease::Missing("name"))?;
        if named != name {
            return Err(InvalidLease::WrongName(named));
        }
        let uid = uid.ok_or(InvalidLease::Missing("uid"))?.into();
        let number = resource_version.ok_or(InvalidLease::Missing("resourceVersion"))?;
        let number = version_number(&number).ok_or(InvalidLease::Version(number))?;
        let record = record(&spec_of(&fields));
        Ok(Self { snapshot: Snapshot { version: Version { uid, number }, record }, fields })
    }
}

/// A resourceVersion as a number, which KEP-5504 guarantees it to be.
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

/// A field's value if it has this type.
fn value<'a, T: Deserialize<'a>>(fields: &'a Fields, field: &str) -> Option<T> {
    serde_json::from_str(fields.get(field)?.get()).ok()
}

/// The JSON of `base`, or of a new Lease, with the fields of `write` at the time `wall`.
pub(super) fn to_json(
    base: Option<&LeaseObject>,
    name: &str,
    write: &Write,
    wall: SystemTime,
) -> Vec<u8> {
    let mut fields = base.map_or_else(|| new_lease(name), |base| base.fields.clone());
    let mut spec = spec_of(&fields);
    let now = next_renew_time(value::<String>(&spec, "renewTime").as_deref(), wall);
    set(&mut spec, "holderIdentity", &write.holder.as_ref().map_or("", Identity::as_str));
    set(&mut spec, "leaseDurationSeconds", &seconds_rounded_up(write.duration));
    // The field is an int32, and the API server refuses more.
    set(&mut spec, "leaseTransitions", &write.transitions.min(i32::MAX.unsigned_abs()));
    set(&mut spec, "renewTime", &now);
    match write.intent {
        Intent::Acquire | Intent::Release => set(&mut spec, "acquireTime", &now),
        Intent::Renew => {}
    }
    set(&mut fields, "spec", &spec);
    as_json(&fields).get().to_owned().into_bytes()
}

/// A Lease to create.
fn new_lease(name: &str) -> Fields {
    let mut fields = Fields::new();
    set(&mut fields, "apiVersion", &"coordination.k8s.io/v1");
    set(&mut fields, "kind", &"Lease");
    let labels = BTreeMap::from([("app.kubernetes.io/managed-by", "baton")]);
    set(&mut fields, "metadata", &NewMetadata { name, labels });
    fields
}

fn set<T: Serialize + ?Sized>(fields: &mut Fields, field: &str, value: &T) {
    fields.insert(field.to_owned(), as_json(value));
}

fn as_json<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    to_raw_value(value).expect("strings, numbers, and maps of strings serialize")
}

/// The time to write: `wall`, or just after `before` if the clock has not advanced past it. Every
/// renewal must differ from all earlier ones, since a reader may miss some. A time a minute or more
/// ahead is ignored: another writer set it, or our clock was set back.
fn next_renew_time(before: Option<&str>, wall: SystemTime) -> String {
    let before = before.and_then(|text| humantime::parse_rfc3339(text).ok());
    let next = before.and_then(|before| before.checked_add(Duration::from_micros(1)));
    let is_near = |next: &SystemTime| {
        next.duration_since(wall).is_ok_and(|ahead| ahead < Duration::from_mins(1))
    };
    humantime::format_rfc3339_micros(next.filter(is_near).unwrap_or(wall)).to_string()
}

/// Rounds up to whole seconds, the Lease's unit: other candidates must not wait less than we
/// assume.
fn seconds_rounded_up(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(object: &Value) -> LeaseObject {
        LeaseObject::parse(object.to_string().as_bytes(), "orders").unwrap()
    }

    fn lease(spec: &Value) -> LeaseObject {
        object(&json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "orders",
                "uid": "u",
                "resourceVersion": "7",
                "labels": { "team": "sales" },
            },
            "spec": spec,
        }))
    }

    fn renewal() -> Write {
        let held = lease(&json!({ "holderIdentity": "a" })).snapshot;
        let identity = Identity::parse("a").unwrap();
        Write::over(Some(&held), Intent::Renew, &identity, Duration::from_millis(1_500))
    }

    /// The object after `write` replaces `base` at the Unix epoch.
    fn after_writing(base: &LeaseObject, write: &Write) -> Value {
        let bytes = to_json(Some(base), "orders", write, SystemTime::UNIX_EPOCH);
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn malformed_field_counts_as_absent() {
        let specs = [
            json!({}),
            json!(null),
            json!({ "holderIdentity": "", "leaseDurationSeconds": 0, "leaseTransitions": -1 }),
            json!({ "holderIdentity": null, "leaseDurationSeconds": -5, "leaseTransitions": "x" }),
        ];
        for spec in specs {
            let record = lease(&spec).snapshot.record;
            assert_eq!(
                (record.holder, record.duration, record.transitions),
                (None, None, 0),
                "{spec}"
            );
        }
    }

    #[test]
    fn invalid_identity_still_holds_the_lease() {
        assert!(lease(&json!({ "holderIdentity": "a\nb" })).snapshot.record.holder.is_some());
    }

    #[test]
    fn another_lease_is_refused() {
        let others = json!({ "metadata": { "name": "bills", "uid": "u", "resourceVersion": "7" } })
            .to_string();
        assert!(matches!(
            LeaseObject::parse(others.as_bytes(), "orders"),
            Err(InvalidLease::WrongName(_))
        ));
        assert!(matches!(LeaseObject::parse(b"{}", "orders"), Err(InvalidLease::Missing("name"))));
        assert!(matches!(LeaseObject::parse(b"<html>", "orders"), Err(InvalidLease::Json(_))));
    }

    #[test]
    fn renewal_changes_only_its_own_fields() {
        let before = json!({
            "holderIdentity": "a",
            "acquireTime": "then",
            "strategy": "theirs",
            "later": { "field": 1 },
        });
        let object = after_writing(&lease(&before), &renewal());
        assert_eq!(object["metadata"]["labels"], json!({ "team": "sales" }));
        let spec = &object["spec"];
        assert_eq!((&spec["strategy"], &spec["later"]), (&before["strategy"], &before["later"]));
        assert_eq!(spec["acquireTime"], "then");
        assert_eq!(spec["renewTime"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(spec["leaseDurationSeconds"], 2, "rounded up");
    }

    #[test]
    fn foreign_fields_keep_their_bytes() {
        let labels = r#"{ "big": 1e400, "escaped": "\u0041\/", "long": 0.10000000000000000555 }"#;
        let text = format!(
            r#"{{"metadata":{{"name":"orders","uid":"u","resourceVersion":"7",
                "labels":{labels}}},"later":{labels}}}"#
        );
        let base = LeaseObject::parse(text.as_bytes(), "orders").unwrap();
        let bytes = to_json(Some(&base), "orders", &renewal(), SystemTime::UNIX_EPOCH);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches(labels).count(), 2, "{text}");
    }

    #[test]
    fn every_renewal_differs_while_wall_clock_is_stopped() {
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
    fn far_or_malformed_renew_time_is_ignored() {
        for time in ["9999-12-31T23:59:59.999999Z", "1970-01-01T00:01:00.000000Z", "yesterday"] {
            let object = after_writing(
                &lease(&json!({ "holderIdentity": "a", "renewTime": time })),
                &renewal(),
            );
            assert_eq!(object["spec"]["renewTime"], "1970-01-01T00:00:00.000000Z");
        }
    }

    #[test]
    fn release_matches_client_go() {
        let base = lease(&json!({ "holderIdentity": "a", "leaseTransitions": 3 }));
        let identity = Identity::parse("a").unwrap();
        let release =
            Write::over(Some(&base.snapshot), Intent::Release, &identity, Duration::from_secs(15));
        let spec = after_writing(&base, &release)["spec"].clone();
        let fields =
            [&spec["holderIdentity"], &spec["leaseDurationSeconds"], &spec["leaseTransitions"]];
        assert_eq!(fields, [&json!(""), &json!(1), &json!(3)]);
        assert_eq!(spec["acquireTime"], spec["renewTime"]);
    }

    #[test]
    fn created_lease_has_name_and_label_and_no_version() {
        let identity = Identity::parse("a").unwrap();
        let create = Write::over(None, Intent::Acquire, &identity, Duration::from_secs(15));
        let bytes = to_json(None, "orders", &create, SystemTime::UNIX_EPOCH);
        let made: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            (&made["kind"], &made["apiVersion"]),
            (&json!("Lease"), &json!("coordination.k8s.io/v1"))
        );
        let labels = json!({ "app.kubernetes.io/managed-by": "baton" });
        assert_eq!(made["metadata"], json!({ "name": "orders", "labels": labels }));
    }
}
