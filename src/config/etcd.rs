//! The checked configuration of the etcd store.
//!
//! Pure. Start with [`config`].

use crate::cli::{Environment, Settings};
use crate::config::{ConfigError, ElectionName, ErrorCollector, StoreKind, non_empty};
use hyper::Uri;
use hyper::http::uri::Scheme;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use zookeeper_client::tls::{ClientCertificate, TlsFiles};

/// The longest prefix, in bytes. Every request carries it.
const MAX_PREFIX_BYTES: usize = 1024;

/// An election in etcd, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The members to ask, at least one.
    pub endpoints: Vec<Endpoint>,
    /// The prefix of the election's keys, without a slash at its end.
    pub prefix: String,
    /// The file with our user and password.
    pub user_file: Option<PathBuf>,
    /// The files for TLS; `None` for plain TCP. All endpoints agree.
    pub tls: Option<TlsFiles>,
}

/// A member's address for clients; displays as its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The host's name, or its address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    is_secure: bool,
}

/// Why a list of endpoints cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The text is not a URL with a host and nothing after the port.
    #[error(
        "{0:?} is not a URL of a member: write http://HOST:2379 or https://HOST:2379, with commas \
         between two"
    )]
    Url(String),
    /// The list holds a user or a password, so its text is not shown.
    #[error(
        "they hold a user: write only http://HOST:2379, put user:password into a file, and pass \
         --etcd-user-file"
    )]
    User,
    /// Some endpoints use TLS, and others do not.
    #[error("some use http:// and some https://: a password would cross the network unencrypted")]
    MixedSchemes,
}

/// Why a prefix cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// It ends with a slash, which would double it.
    #[error("it ends with '/': leave that out")]
    Slash,
    /// Logs and commands show keys as text.
    #[error("it has a control character or more than {MAX_PREFIX_BYTES} bytes")]
    Text,
}

/// Checks the settings for etcd. Returns `None` and collects errors if one is invalid.
pub(super) fn config(
    settings: &Settings,
    environment: &Environment,
    election: Option<&ElectionName>,
    errors: &mut ErrorCollector,
) -> Option<EtcdConfig> {
    let endpoints = non_empty(settings.etcd.endpoints.as_ref()).ok_or(ConfigError::NoEtcdEndpoints);
    let endpoints =
        errors.check(endpoints.and_then(|text| parse(text).map_err(ConfigError::EtcdEndpoints)));
    let prefix = errors.check(prefix(settings, environment));
    let is_secure = endpoints.as_ref()?.iter().any(|endpoint| endpoint.is_secure);
    let tls = errors.check(tls(settings, is_secure));
    let user_file = non_empty(settings.etcd.user_file.as_ref()).map(PathBuf::from);
    election?;
    Some(EtcdConfig { endpoints: endpoints?, prefix: prefix?, user_file, tls: tls? })
}

fn parse(text: &str) -> Result<Vec<Endpoint>, EndpointError> {
    // A password may hold a comma, so this check comes before the list is split.
    if text.contains('@') {
        return Err(EndpointError::User);
    }
    let endpoints = text.split(',').map(|url| url.trim().parse());
    let endpoints: Vec<Endpoint> = endpoints.collect::<Result<_, _>>()?;
    let is_secure = |endpoint: &Endpoint| endpoint.is_secure;
    if endpoints.iter().any(is_secure) && !endpoints.iter().all(is_secure) {
        return Err(EndpointError::MixedSchemes);
    }
    Ok(endpoints)
}

fn prefix(settings: &Settings, environment: &Environment) -> Result<String, ConfigError> {
    let flag = non_empty(settings.etcd.prefix.as_ref());
    let namespace = non_empty(settings.namespace.as_ref()).or(environment.pod_namespace.as_deref());
    if flag.is_none() && namespace.is_none() && environment.in_kubernetes {
        return Err(ConfigError::NoEtcdPrefix);
    }
    etcd_prefix(flag, namespace)
}

/// The prefix of the keys: the value of `--etcd-prefix`, or else one that contains the namespace, so
/// that elections of the same name in two namespaces are separate.
pub fn etcd_prefix(flag: Option<&str>, namespace: Option<&str>) -> Result<String, ConfigError> {
    let prefix = match (flag, namespace) {
        (Some(prefix), _) => prefix.to_owned(),
        (None, Some(namespace)) => format!("/baton/{namespace}"),
        (None, None) => "/baton".to_owned(),
    };
    if prefix.ends_with('/') {
        Err(ConfigError::EtcdPrefix(prefix, PrefixError::Slash))
    } else if prefix.len() > MAX_PREFIX_BYTES || prefix.chars().any(char::is_control) {
        Err(ConfigError::EtcdPrefix(prefix, PrefixError::Text))
    } else {
        Ok(prefix)
    }
}

fn tls(settings: &Settings, is_secure: bool) -> Result<Option<TlsFiles>, ConfigError> {
    let store = StoreKind::Etcd;
    let file = |path: &Option<String>| non_empty(path.as_ref()).map(PathBuf::from);
    let client = match (file(&settings.etcd.cert_file), file(&settings.etcd.key_file)) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
        (Some(_), None) | (None, Some(_)) => {
            return Err(ConfigError::CertificateWithoutKey { store });
        }
    };
    match (file(&settings.etcd.ca_file), is_secure) {
        (Some(authorities), true) => Ok(Some(TlsFiles { authorities, client })),
        (None, false) if client.is_none() => Ok(None),
        (Some(_), false) => Err(ConfigError::EtcdAuthorityWithoutTls),
        (None, _) => Err(ConfigError::NoCertificateAuthority { store }),
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let error = || EndpointError::Url(text.to_owned());
        let url: Uri = text.parse().map_err(|_| error())?;
        let is_secure = match url.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(_) | None => return Err(error()),
        };
        let authority = url.authority().ok_or_else(error)?;
        let is_bare = url.path_and_query().is_none_or(|rest| rest.as_str() == "/");
        if !is_bare || authority.host().is_empty() {
            return Err(error());
        }
        // A port that is not a number would count as absent.
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str().len() == authority.host().len() => 2379,
            None => return Err(error()),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port, is_secure })
    }
}

impl Endpoint {
    /// The host and port, as a `Host` header has them.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_with_a_host_only() {
        let shown = |text: &str| {
            let endpoints = parse(text)?;
            Ok(endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" "))
        };
        for (text, expected) in [
            ("http://etcd-0", "http://etcd-0:2379"),
            ("https://a:1, https://b:2/", "https://a:1 https://b:2"),
            ("http://[::1]:2379", "http://[::1]:2379"),
            ("http://10.0.0.1:23790", "http://10.0.0.1:23790"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "etcd-0:2379",
            "ftp://etcd-0",
            "http://a/v3",
            "http://a:99999",
            "http://a,",
            "http://",
            "http://a?x=1",
            "unix:///run/etcd",
        ] {
            assert!(matches!(shown(wrong), Err(EndpointError::Url(_))), "{wrong}");
        }
        assert_eq!(shown("http://a,https://b"), Err(EndpointError::MixedSchemes));
        for with_user in ["http://u:p@a:1", "http://u:p,q@a:1", "u@a"] {
            assert_eq!(shown(with_user), Err(EndpointError::User), "{with_user}");
        }
    }
}
