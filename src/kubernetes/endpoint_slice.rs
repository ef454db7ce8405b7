//! An EndpointSlice as JSON: reads and writes the fields of routing, and keeps all others.
//!
//! Pure. Start with [`SliceObject`]. The rules for these fields are those of `discovery.k8s.io/v1`.

use baton_election::claim::FencingToken;
use serde_json::{Map, Value, json};
use std::fmt;
use std::net::IpAddr;

/// The label that names the Service of a slice.
const SERVICE: &str = "kubernetes.io/service-name";
/// The label that names the program that writes the endpoints. Kubernetes' own controller leaves
/// slices of others alone.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] in our slices.
const BATON: &str = "baton";
/// The annotation with the fencing token of the leader that wrote the slice.
const TOKEN: &str = "baton/token";

/// The kind of the addresses in a slice: one slice has one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The `addressType` of a slice.
    pub const fn address_type(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Whether an address is of this kind.
    pub const fn contains(self, address: &IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }

    /// The name of the slice of this kind for a Service.
    pub fn slice_name(self, service: &str) -> String {
        format!("{service}-{}", self.address_type().to_lowercase())
    }
}

/// A TCP port of the leader. An empty name is that of a Service's only port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointPort {
    /// The name of the port in the Service.
    pub name: String,
    /// The number.
    pub port: u16,
}

/// The name of a slice and what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SliceRef {
    pub(crate) service: String,
    pub(crate) family: Family,
}

impl SliceRef {
    /// The slice's name.
    pub(crate) fn name(&self) -> String {
        self.family.slice_name(&self.service)
    }
}

impl fmt::Display for SliceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointSlice {}", self.name())
    }
}

/// The endpoints and ports for the clients of a Service. `None` stands for anything that Baton does not
/// write, such as an endpoint that is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// The token of the leader that wrote it.
    pub(crate) token: Option<FencingToken>,
    pub(crate) addresses: Vec<Option<IpAddr>>,
    pub(crate) ports: Vec<Option<EndpointPort>>,
}

/// A slice as the API server sent it.
#[derive(Debug, Clone)]
pub(crate) struct SliceObject {
    fields: Map<String, Value>,
    version: String,
    pub(crate) content: Content,
}

/// Why a response is not the expected slice.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidSlice {
    #[error("it is not a JSON object")]
    Json(#[source] serde_json::Error),
    #[error("it is named {0:?}, which is not the requested name")]
    WrongName(String),
    #[error("it has no metadata.resourceVersion")]
    NoVersion,
}

/// Why Baton leaves a slice alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Foreign {
    #[error(
        "its label {MANAGED_BY} is {0:?} and not {BATON:?}: choose another --endpoint-slice, or set \
         the label if no other program writes its endpoints"
    )]
    Manager(String),
    #[error(
        "its label {SERVICE} is {0:?}, so it belongs to another Service: set the label to the value \
         of --endpoint-slice, or choose another"
    )]
    Service(String),
    #[error("its addressType is {0:?}, which cannot be changed: delete it")]
    AddressType(String),
}

impl SliceObject {
    /// Parses the slice `name`.
    pub(crate) fn parse(bytes: &[u8], name: &str) -> Result<Self, InvalidSlice> {
        let fields: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(InvalidSlice::Json)?;
        let metadata = fields.get("metadata").cloned().unwrap_or_default();
        if metadata["name"] != name {
            let named = metadata["name"].as_str().unwrap_or_default();
            return Err(InvalidSlice::WrongName(named.to_owned()));
        }
        let version = metadata["resourceVersion"].as_str().ok_or(InvalidSlice::NoVersion)?;
        let items = |field| fields.get(field).and_then(Value::as_array).into_iter().flatten();
        let token = metadata["annotations"][TOKEN].as_str().and_then(|text| text.parse().ok());
        let content = Content {
            token: token.map(FencingToken::new),
            addresses: items("endpoints").map(ready_address).collect(),
            ports: items("ports").map(tcp_port).collect(),
        };
        Ok(Self { version: version.to_owned(), fields, content })
    }

    /// The version that a write must name to replace this one.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Why this slice is not one that Baton writes, if so.
    pub(crate) fn foreign(&self, slice: &SliceRef) -> Option<Foreign> {
        let labels = &self.fields["metadata"]["labels"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (manager, service) = (text(&labels[MANAGED_BY]), text(&labels[SERVICE]));
        let address_type = text(self.fields.get("addressType").unwrap_or(&Value::Null));
        if manager != BATON {
            Some(Foreign::Manager(manager))
        } else if service != slice.service {
            Some(Foreign::Service(service))
        } else if address_type != slice.family.address_type() {
            Some(Foreign::AddressType(address_type))
        } else {
            None
        }
    }

    /// The JSON of this version of the slice with another content.
    pub(crate) fn with(&self, content: &Content) -> Vec<u8> {
        let mut fields = self.fields.clone();
        set_content(&mut fields, content);
        Value::from(fields).to_string().into_bytes()
    }
}

/// The JSON of a slice to create.
pub(crate) fn new_slice(slice: &SliceRef, content: &Content) -> Vec<u8> {
    let mut fields = Map::new();
    fields.insert("apiVersion".to_owned(), "discovery.k8s.io/v1".into());
    fields.insert("kind".to_owned(), "EndpointSlice".into());
    let labels = json!({ SERVICE: slice.service, MANAGED_BY: BATON });
    fields.insert("metadata".to_owned(), json!({ "name": slice.name(), "labels": labels }));
    fields.insert("addressType".to_owned(), slice.family.address_type().into());
    set_content(&mut fields, content);
    Value::from(fields).to_string().into_bytes()
}

fn set_content(fields: &mut Map<String, Value>, content: &Content) {
    let endpoints = content.addresses.iter().flatten();
    let endpoints =
        endpoints.map(|address| json!({ "addresses": [address], "conditions": { "ready": true } }));
    let ports = content
        .ports
        .iter()
        .flatten()
        .map(|port| json!({ "name": port.name, "port": port.port, "protocol": "TCP" }));
    let (endpoints, ports): (Vec<_>, Vec<_>) = (endpoints.collect(), ports.collect());
    fields.insert("endpoints".to_owned(), endpoints.into());
    fields.insert("ports".to_owned(), ports.into());
    if let Some(token) = content.token {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if !metadata["annotations"].is_object() {
            metadata["annotations"] = json!({});
        }
        metadata["annotations"][TOKEN] = token.to_string().into();
    }
}

fn ready_address(endpoint: &Value) -> Option<IpAddr> {
    let [address] = endpoint["addresses"].as_array()?.as_slice() else { return None };
    let is_ready = endpoint["conditions"]["ready"] == true;
    address.as_str()?.parse().ok().filter(|_| is_ready)
}

fn tcp_port(port: &Value) -> Option<EndpointPort> {
    let name = port["name"].as_str().unwrap_or_default().to_owned();
    let number = port["port"].as_u64().and_then(|number| u16::try_from(number).ok())?;
    (port["protocol"] == "TCP").then_some(EndpointPort { name, port: number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> SliceRef {
        SliceRef { service: "orders".to_owned(), family: Family::V4 }
    }

    fn content(token: u128, addresses: &[&str]) -> Content {
        let port = EndpointPort { name: "http".to_owned(), port: 8080 };
        Content {
            token: Some(FencingToken::new(token)),
            addresses: addresses.iter().map(|text| Some(text.parse().unwrap())).collect(),
            ports: vec![Some(port)],
        }
    }

    fn parse(object: &Value) -> Result<SliceObject, InvalidSlice> {
        SliceObject::parse(object.to_string().as_bytes(), "orders-ipv4")
    }

    /// The chart's slice, as the API server stores it.
    fn empty() -> Value {
        json!({
            "metadata": {
                "name": "orders-ipv4",
                "uid": "u",
                "resourceVersion": "7",
                "labels": { SERVICE: "orders", MANAGED_BY: "baton", "team": "sales" },
            },
            "addressType": "IPv4",
            "endpoints": null,
            "ports": null,
        })
    }

    #[test]
    fn written_content_is_read_back() {
        let slice = parse(&empty()).unwrap();
        assert_eq!(slice.foreign(&orders()), None);
        let written = content(9, &["10.0.0.1"]);
        assert_ne!(slice.content, written);
        let bytes = slice.with(&written);
        assert_eq!(SliceObject::parse(&bytes, "orders-ipv4").unwrap().content, written);
        let object: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(object["metadata"]["resourceVersion"], "7", "the write is conditional");
        assert_eq!(object["metadata"]["uid"], "u", "the write is conditional");
        assert_eq!(object["metadata"]["labels"]["team"], "sales", "other fields are kept");
        assert_eq!(object["endpoints"][0]["conditions"], json!({ "ready": true }));
    }

    #[test]
    fn annotations_of_another_type_are_replaced() {
        let mut object = empty();
        object["metadata"]["annotations"] = json!(["a"]);
        let bytes = parse(&object).unwrap().with(&content(9, &["10.0.0.1"]));
        let written = SliceObject::parse(&bytes, "orders-ipv4").unwrap();
        assert_eq!(written.content.token, Some(FencingToken::new(9)));
    }

    #[test]
    fn created_slice_is_ours() {
        let mut created: Value =
            serde_json::from_slice(&new_slice(&orders(), &content(9, &["10.0.0.1"]))).unwrap();
        assert!(created["metadata"]["resourceVersion"].is_null());
        created["metadata"]["resourceVersion"] = "8".into();
        let slice = parse(&created).unwrap();
        assert_eq!(slice.foreign(&orders()), None);
        assert_eq!(slice.content, content(9, &["10.0.0.1"]));
    }

    #[test]
    fn edited_endpoint_differs_from_ours() {
        let ours = parse(&empty()).unwrap().with(&content(9, &["10.0.0.1"]));
        let ours: Value = serde_json::from_slice(&ours).unwrap();
        for (pointer, edit) in [
            ("/endpoints/0/conditions/ready", json!(false)),
            ("/endpoints/0/addresses", json!(["10.0.0.1", "10.0.0.2"])),
            ("/endpoints", json!(null)),
            ("/ports/0/port", json!(81)),
            ("/ports/0/name", json!("")),
            ("/ports/0/protocol", json!("UDP")),
            ("/metadata/annotations", json!(null)),
        ] {
            let mut edited = ours.clone();
            *edited.pointer_mut(pointer).unwrap() = edit;
            assert_ne!(parse(&edited).unwrap().content, content(9, &["10.0.0.1"]), "{pointer}");
        }
    }

    #[test]
    fn slices_of_others_are_foreign() {
        for (pointer, edit, expected) in [
            ("/metadata/labels", json!({}), Foreign::Manager(String::new())),
            (
                "/metadata/labels",
                json!({ MANAGED_BY: "endpointslice-controller.k8s.io" }),
                Foreign::Manager("endpointslice-controller.k8s.io".to_owned()),
            ),
            (
                "/metadata/labels",
                json!({ MANAGED_BY: "baton", SERVICE: "bills" }),
                Foreign::Service("bills".to_owned()),
            ),
            ("/addressType", json!("FQDN"), Foreign::AddressType("FQDN".to_owned())),
        ] {
            let mut other = empty();
            *other.pointer_mut(pointer).unwrap() = edit;
            assert_eq!(parse(&other).unwrap().foreign(&orders()), Some(expected));
        }
    }

    #[test]
    fn other_objects_are_refused() {
        assert!(matches!(parse(&json!([])), Err(InvalidSlice::Json(_))));
        assert!(matches!(parse(&json!({})), Err(InvalidSlice::WrongName(_))));
        let mut other = empty();
        other["metadata"]["resourceVersion"] = json!(null);
        assert!(matches!(parse(&other), Err(InvalidSlice::NoVersion)));
    }
}
