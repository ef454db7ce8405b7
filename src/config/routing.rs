//! The addresses that the leader publishes, and the EndpointSlices for them.
//!
//! Pure. Start with [`routing`].

use super::names::is_label;
use super::{Cluster, ConfigError, ErrorCollector, StoreConfig, lease, non_empty};
use crate::cli::{Environment, Settings};
use crate::kubernetes::endpoint_slice::EndpointPort;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The addresses of a leader, and the slices for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingConfig {
    /// The Service, and the prefix of the slices' names.
    pub service: String,
    /// The leader's addresses, at least one.
    pub addresses: Vec<IpAddr>,
    /// The leader's ports, at least one.
    pub ports: Vec<EndpointPort>,
    /// How to reach the API server.
    pub cluster: Cluster,
    /// The namespace; `None` for the Pod's or the context's.
    pub namespace: Option<String>,
}

/// Why the leader's addresses cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// Other flags about routing have no effect without slices.
    #[error(
        "--endpoint-port and --endpoint-addresses do nothing without --endpoint-slice: remove them, \
         or pass, for example, --endpoint-slice=orders"
    )]
    NoSlice,
    /// No Service can have this name.
    #[error(
        "--endpoint-slice {0:?} cannot name a Service: use at most 63 lower-case letters, digits, \
         and '-', with a letter first, for example orders"
    )]
    Service(String),
    /// The ports are unknown.
    #[error(
        "--endpoint-slice needs the application's port: pass, for example, --endpoint-port=8080"
    )]
    NoPort,
    /// The text is no list of ports.
    #[error(
        "--endpoint-port {0:?} is not a list of ports: write 8080, or NAME=PORT for each named port \
         of the Service, for example http=8080,grpc=9090"
    )]
    Port(String),
    /// The addresses are unknown.
    #[error(
        "--endpoint-slice needs this Pod's addresses: set POD_IPS (fieldRef status.podIPs) or pass \
         --endpoint-addresses"
    )]
    NoAddress,
    /// No client of the Service could reach this address.
    #[error(
        "--endpoint-addresses has {0:?}, which is not an IP address that other Pods can reach: pass, \
         for example, --endpoint-addresses=10.1.2.3,fd00::1:2:3"
    )]
    Address(String),
    /// There is no API server.
    #[error(
        "--endpoint-slice needs Kubernetes: run in a Pod, pass --backend lease, or remove the flag"
    )]
    NoKubernetes,
}

/// Checks that `name` is a DNS-1035 label, as the name of a Service must be. Empty is unset.
pub fn check_service(name: &str) -> Result<(), ConfigError> {
    let begins_with_digit = name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || name.len() <= 63 && is_label(name) && !begins_with_digit {
        Ok(())
    } else {
        Err(ConfigError::Routing(RoutingError::Service(name.to_owned())))
    }
}

/// The values of `--endpoint-slice`, `--endpoint-port`, and `--endpoint-addresses`.
pub(super) fn routing(
    settings: &Settings,
    environment: &Environment,
    store: Option<&StoreConfig>,
    errors: &mut ErrorCollector,
) -> Option<RoutingConfig> {
    let flags = &settings.routing;
    let [port, addresses] = [&flags.port, &flags.addresses].map(|flag| non_empty(flag.as_ref()));
    let Some(service) = non_empty(flags.slice.as_ref()) else {
        if port.or(addresses).is_some() {
            errors.0.push(ConfigError::Routing(RoutingError::NoSlice));
        }
        return None;
    };
    if let Err(error) = check_service(service) {
        errors.0.push(error);
    }
    let mut check = |error: RoutingError| errors.0.push(ConfigError::Routing(error));
    let ports = match port {
        Some(text) => parse_ports(text).ok_or_else(|| RoutingError::Port(text.to_owned())),
        None => Err(RoutingError::NoPort),
    };
    let addresses = match addresses.or(environment.pod_ips.as_deref()) {
        Some(text) => text.split(',').map(parse_address).collect(),
        None => Err(RoutingError::NoAddress),
    };
    let ports = ports.map_err(&mut check).ok();
    let addresses = addresses.map_err(&mut check).ok();
    match store? {
        StoreConfig::Lease { .. } => {}
        StoreConfig::ZooKeeper(_) | StoreConfig::Etcd(_) | StoreConfig::File { .. } => {
            if !environment.in_kubernetes {
                check(RoutingError::NoKubernetes);
            }
        }
    }
    let StoreConfig::Lease { cluster, namespace } = lease(settings, environment) else {
        return None;
    };
    let (service, addresses, ports) = (service.to_owned(), addresses?, ports?);
    Some(RoutingConfig { service, addresses, ports, cluster, namespace })
}

/// `PORT`, or `NAME=PORT` with commas between two.
fn parse_ports(text: &str) -> Option<Vec<EndpointPort>> {
    let number = |text: &str| text.parse().ok().filter(|port: &u16| *port > 0);
    if let Some(port) = number(text) {
        return Some(vec![EndpointPort { name: String::new(), port }]);
    }
    let named = text.split(',').map(|part| {
        let (name, port) = part.trim().split_once('=')?;
        (name.len() <= 63 && is_label(name))
            .then_some(EndpointPort { name: name.to_owned(), port: number(port)? })
    });
    let ports: Vec<_> = named.collect::<Option<_>>()?;
    let distinct: BTreeSet<_> = ports.iter().map(|port| &port.name).collect();
    (distinct.len() == ports.len()).then_some(ports)
}

/// An address that the API server accepts for an endpoint.
fn parse_address(text: &str) -> Result<IpAddr, RoutingError> {
    let is_local = |address: &IpAddr| {
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => {
                address.is_unicast_link_local() || address.to_ipv4_mapped().is_some()
            }
        };
        address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local
    };
    let address = text.trim().parse().ok().filter(|address| !is_local(address));
    address.ok_or_else(|| RoutingError::Address(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_number_or_named() {
        let names = |text| -> Option<Vec<(String, u16)>> {
            let ports = parse_ports(text)?.into_iter();
            Some(ports.map(|port| (port.name, port.port)).collect())
        };
        assert_eq!(names("8080"), Some(vec![(String::new(), 8080)]));
        assert_eq!(
            names("http=8080, grpc=9090"),
            Some(vec![("http".to_owned(), 8080), ("grpc".to_owned(), 9090)])
        );
        for text in
            ["", "0", "65536", "http", "http=0", "a=1,a=2", "8080,9090", "A=1", "=1", "a=1,"]
        {
            assert_eq!(names(text), None, "{text}");
        }
    }

    #[test]
    fn only_addresses_of_other_machines_pass() {
        for text in ["10.0.0.1", "fd00::1", " 192.168.0.1"] {
            assert!(parse_address(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "::",
            "169.254.0.1",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "orders.example",
            "10.0.0.1:80",
        ] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}
