//! A Lease as JSON, read and written field by field.
//!
//! Pure but for the wall clock that it is handed. Only the fields of the election are touched: whatever else stands in
//! the object, of this version of Kubernetes or a later one, goes back as it was read. The fields are written exactly
//! as client-go's resourcelock writes them, so that its candidates and ours share one Lease.

use crate::election::record::{Intent, Record, Snapshot, Stamp, Version, Write};
use crate::identity::Identity;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::{Map, Value, json};
use std::time::{Duration, SystemTime};

/// An object that is no Lease with a version.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoLease {
    #[error("the object has no metadata.{0}")]
    Missing(&'static str),
    #[error("resourceVersion {0:?} is not a decimal number, so it cannot be a fencing token")]
    Version(String),
}

/// What `object` says of the election. A field that makes no sense counts as absent, and keeps nobody from reading on.
pub(super) fn snapshot(object: &DynamicObject) -> Result<Snapshot, NoLease> {
    let spec = &object.data["spec"];
    let text = |field: &str| spec[field].as_str().unwrap_or_default();
    let seconds = spec["leaseDurationSeconds"].as_u64().filter(|seconds| *seconds > 0);
    let record = Record {
        holder: Identity::lossy(text("holderIdentity")),
        duration: seconds.map(Duration::from_secs),
        transitions: spec["leaseTransitions"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        acquired: Stamp(text("acquireTime").to_owned()),
        renewed: Stamp(text("renewTime").to_owned()),
    };
    Ok(Snapshot { version: version(object)?, record })
}

fn version(object: &DynamicObject) -> Result<Version, NoLease> {
    let uid = object.metadata.uid.as_deref().ok_or(NoLease::Missing("uid"))?;
    let number = object.metadata.resource_version.as_deref().ok_or(NoLease::Missing("resourceVersion"))?;
    let number = number.parse().map_err(|_| NoLease::Version(number.to_owned()))?;
    Ok(Version { uid: uid.into(), number })
}

/// The object that `write` makes of `base`, or of nothing, when the wall clock shows `wall`.
pub(super) fn written(
    base: Option<&DynamicObject>,
    name: &str,
    resource: &ApiResource,
    write: &Write,
    wall: SystemTime,
) -> DynamicObject {
    let mut object = match base {
        Some(base) => base.clone(),
        None => DynamicObject::new(name, resource).data(json!({})),
    };
    if !object.data["spec"].is_object() {
        object.data["spec"] = Value::Object(Map::new());
    }
    let spec = &mut object.data["spec"];
    let now = after(spec["renewTime"].as_str(), wall);
    spec["holderIdentity"] = write.holder.as_ref().map_or("", Identity::as_str).into();
    spec["leaseDurationSeconds"] = seconds_rounded_up(write.duration).into();
    // The API server counts in 32 bits and refuses what is larger.
    spec["leaseTransitions"] = write.transitions.min(i32::MAX.unsigned_abs()).into();
    spec["renewTime"] = now.clone().into();
    match write.intent {
        Intent::Acquire | Intent::Release => spec["acquireTime"] = now.into(),
        Intent::Renew => {}
    }
    object
}

/// The present time, or the next after the one that the record says, where the wall clock has not got past that one: every
/// renewal has to show, and to differ from each before it, for a reader may miss some. A time far ahead is not followed:
/// it is a stranger's, or that of a clock that was put right.
fn after(before: Option<&str>, wall: SystemTime) -> String {
    let before = before.and_then(|text| humantime::parse_rfc3339(text).ok());
    let next = before.and_then(|before| before.checked_add(Duration::from_micros(1)));
    let is_near = |next: &SystemTime| next.duration_since(wall).is_ok_and(|ahead| ahead < Duration::from_mins(1));
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

    fn lease(spec: &Value) -> DynamicObject {
        let metadata = json!({ "name": "orders", "uid": "u", "resourceVersion": "7", "labels": { "team": "sales" } });
        let object =
            json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec });
        serde_json::from_value(object).unwrap()
    }

    fn renewal() -> Write {
        let held = snapshot(&lease(&json!({ "holderIdentity": "a" }))).unwrap();
        let identity = Identity::parse("a").unwrap();
        Write::over(Some(&held), Intent::Renew, &identity, Duration::from_millis(1_500))
    }

    fn resource() -> ApiResource {
        ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&())
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
            let record = snapshot(&lease(&spec)).unwrap().record;
            assert_eq!((record.holder, record.duration, record.transitions), (None, None, 0), "{spec}");
        }
    }

    #[test]
    fn a_holder_that_cannot_be_an_identity_holds_the_lease_all_the_same() {
        let record = snapshot(&lease(&json!({ "holderIdentity": "a\nb" }))).unwrap().record;
        assert!(record.holder.is_some());
    }

    #[test]
    fn a_renewal_touches_its_own_fields_only() {
        let before =
            json!({ "holderIdentity": "a", "acquireTime": "then", "strategy": "theirs", "later": { "field": 1 } });
        let base = lease(&before);
        let object = written(Some(&base), "orders", &resource(), &renewal(), SystemTime::UNIX_EPOCH);
        assert_eq!(object.metadata, base.metadata);
        let spec = &object.data["spec"];
        assert_eq!((&spec["strategy"], &spec["later"]), (&before["strategy"], &before["later"]));
        assert_eq!(spec["acquireTime"], "then");
        assert_eq!(spec["renewTime"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(spec["leaseDurationSeconds"], 2, "rounded up, not in our favour");
    }

    #[test]
    fn every_renewal_shows_even_while_the_wall_clock_stands_still() {
        let mut object = lease(&json!({ "holderIdentity": "a", "renewTime": "1970-01-01T00:00:00.000000Z" }));
        for expected in ["1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000002Z", "1970-01-01T00:00:00.000003Z"] {
            object = written(Some(&object), "orders", &resource(), &renewal(), SystemTime::UNIX_EPOCH);
            assert_eq!(object.data["spec"]["renewTime"], expected);
        }
    }

    #[test]
    fn a_time_that_is_no_clocks_is_not_carried_on() {
        for strange in ["9999-12-31T23:59:59.999999Z", "1970-01-01T00:01:00.000000Z", "yesterday"] {
            let base = lease(&json!({ "holderIdentity": "a", "renewTime": strange }));
            let object = written(Some(&base), "orders", &resource(), &renewal(), SystemTime::UNIX_EPOCH);
            assert_eq!(object.data["spec"]["renewTime"], "1970-01-01T00:00:00.000000Z");
        }
    }

    #[test]
    fn a_release_is_what_client_go_writes() {
        let held = snapshot(&lease(&json!({ "holderIdentity": "a", "leaseTransitions": 3 }))).unwrap();
        let release =
            Write::over(Some(&held), Intent::Release, &Identity::parse("a").unwrap(), Duration::from_secs(15));
        let base = lease(&json!({ "holderIdentity": "a", "leaseTransitions": 3 }));
        let spec = written(Some(&base), "orders", &resource(), &release, SystemTime::UNIX_EPOCH).data["spec"].clone();
        let fields = [&spec["holderIdentity"], &spec["leaseDurationSeconds"], &spec["leaseTransitions"]];
        assert_eq!(fields, [&json!(""), &json!(1), &json!(3)]);
        assert_eq!(spec["acquireTime"], spec["renewTime"]);
    }
}
