//! The `Host` header of a request, which tells requests of web pages from those of programs.
//!
//! Pure, but for axum's request parts. Start with [`OwnHost`], and [`names_loopback`].
//!
//! A web page reaches a loopback listener by DNS rebinding: its own domain resolves to 127.0.0.1.
//! The browser lets the page read the answers, but names that domain as the host of each request.

use super::{AppState, error};
use axum::extract::FromRequestParts;
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use std::net::IpAddr;
use std::sync::Arc;

/// A request that names as its host `localhost`, an IP address, or this candidate's name, which is
/// that of its Pod. Or it names none, as in HTTP/1.0, which browsers do not send.
pub(super) struct OwnHost;

impl FromRequestParts<Arc<AppState>> for OwnHost {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Response> {
        let names_us = |host: &HeaderValue| {
            name(host).is_some_and(|name| {
                is_localhost(name)
                    || address(name).is_some()
                    || name.eq_ignore_ascii_case(state.identity.name())
            })
        };
        if parts.headers.get(HOST).is_none_or(names_us) {
            Ok(Self)
        } else {
            Err(error(
                StatusCode::FORBIDDEN,
                "a web page could have sent this request: name localhost, an IP address, or this \
                 candidate's name as the host",
            ))
        }
    }
}

/// Whether a request names a loopback address as its host, and not a domain that resolves to one.
pub(super) fn names_loopback(host: Option<&HeaderValue>) -> bool {
    host.and_then(name).is_some_and(|name| {
        is_localhost(name) || address(name).is_some_and(|address| address.is_loopback())
    })
}

/// The host without its port. `None` if the header is malformed.
fn name(host: &HeaderValue) -> Option<&str> {
    let host = host.to_str().ok()?;
    let end = if host.starts_with('[') {
        host.find(']')? + 1
    } else {
        host.find(':').unwrap_or(host.len())
    };
    let (name, rest) = host.split_at(end);
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// Host names are case-insensitive: RFC 9110, section 4.2.3. A final dot makes a name absolute.
fn is_localhost(name: &str) -> bool {
    name.strip_suffix('.').unwrap_or(name).eq_ignore_ascii_case("localhost")
}

/// Parses a host that is an IP address. Brackets enclose an IPv6 address, and some clients keep the
/// zone of a link-local one, after `%`.
fn address(name: &str) -> Option<IpAddr> {
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => {
            let (address, _zone) = address.split_once('%').unwrap_or((address, ""));
            address.parse().ok().map(IpAddr::V6)
        }
        None => name.parse().ok().map(IpAddr::V4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_loopback(host: &'static str) -> bool {
        names_loopback(Some(&HeaderValue::from_static(host)))
    }

    #[test]
    fn loopback_hosts_are_recognized() {
        for host in [
            "localhost:4040",
            "127.0.0.1",
            "127.1.2.3:80",
            "[::1]:4040",
            "LocalHost",
            "localhost.:4040",
        ] {
            assert!(is_loopback(host), "{host}");
        }
    }

    #[test]
    fn address_may_have_a_zone() {
        let link_local = "fe80::1".parse().ok();
        for host in ["[fe80::1]", "[fe80::1%25eth0]", "[fe80::1%eth0]"] {
            assert_eq!(address(host), link_local, "{host}");
        }
        assert_eq!(address("[%eth0]"), None);
    }

    #[test]
    fn other_and_malformed_hosts_are_not_loopback() {
        for host in [
            "evil.example",
            "localhost..",
            "localhost.evil.example",
            "10.0.0.1:4040",
            "[2001:db8::1]:4040",
            "[::1].evil.example:4040",
            "[::1]4040",
            "[::1]:4\"40",
            "[::1",
            "[127.0.0.1]",
            "localhost:evil.example",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
        assert!(!names_loopback(None));
    }
}
