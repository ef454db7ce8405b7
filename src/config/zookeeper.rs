//! The checked configuration of the ZooKeeper store.
//!
//! Pure. Start with [`config`].

use crate::cli::{Environment, Settings};
use crate::config::{ConfigError, ElectionName, ErrorCollector, StoreKind, TimingFlags, non_empty};
use baton_election::queue::timing::{SessionTiming, SessionTooShort};
use baton_election::timing::{Drift, Durations, Timing};
use std::path::PathBuf;
use std::time::Duration;
use zookeeper_client::servers::{Servers, check_path};
use zookeeper_client::tls::{ClientCertificate, TlsFiles};

/// An election in ZooKeeper, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperConfig {
    /// The servers.
    pub servers: Servers,
    /// The election's path, below the servers' chroot.
    pub path: String,
    /// The durations, checked against the servers' tick.
    pub timing: SessionTiming,
    /// The file with our credentials.
    pub auth_file: Option<PathBuf>,
    /// The files for TLS; `None` for plain TCP.
    pub tls: Option<TlsFiles>,
}

/// The tickTime of ZooKeeper's sample configuration.
const DEFAULT_TICK: Duration = Duration::from_secs(2);

/// Checks the settings for ZooKeeper. Returns `None` and collects errors if one is invalid.
pub(super) fn config(
    settings: &Settings,
    environment: &Environment,
    election: Option<&ElectionName>,
    timing: Option<&Timing>,
    errors: &mut ErrorCollector,
) -> Option<ZooKeeperConfig> {
    let servers =
        non_empty(settings.zookeeper_servers.as_ref()).ok_or(ConfigError::NoZooKeeperServers);
    let servers =
        errors.check(servers.and_then(|text| text.parse().map_err(ConfigError::ZooKeeperServers)));
    let path = path(settings, environment, election);
    let path = errors.check(path);
    let tick =
        errors.duration("zookeeper-tick-time", non_empty(settings.zookeeper_tick_time.as_ref()));
    let tick = tick.unwrap_or(DEFAULT_TICK);
    // A server's tickTime is a whole number of milliseconds.
    if tick < Duration::from_millis(1) {
        errors.0.push(ConfigError::TickTooShort);
    }
    let timing = timing.and_then(|timing| {
        let to_config_error = |error: SessionTooShort| {
            ConfigError::Session(Box::new(error), TimingFlags::new(error.remedy))
        };
        SessionTiming::new(*timing, tick)
            .map_err(|found| errors.0.extend(found.into_iter().map(to_config_error)))
            .ok()
    });
    let tls = errors.check(tls(settings));
    let auth_file = non_empty(settings.zookeeper_auth_file.as_ref()).map(PathBuf::from);
    Some(ZooKeeperConfig { servers: servers?, path: path??, timing: timing?, auth_file, tls: tls? })
}

/// Durations near `lease_duration` that pass the checks of ZooKeeper's sessions too.
pub(super) fn suggestion(settings: &Settings, lease_duration: Duration, drift: Drift) -> Durations {
    // `config` reports a tick that does not parse.
    let tick = non_empty(settings.zookeeper_tick_time.as_ref())
        .and_then(|text| humantime::parse_duration(text).ok());
    SessionTiming::suggestion(lease_duration, drift, tick.unwrap_or(DEFAULT_TICK))
}

/// The path of the election; `None` if `election` is invalid. It contains the namespace, so
/// elections of the same name in two namespaces are separate.
fn path(
    settings: &Settings,
    environment: &Environment,
    election: Option<&ElectionName>,
) -> Result<Option<String>, ConfigError> {
    if let Some(path) = non_empty(settings.zookeeper_path.as_ref()) {
        check_path(path).map_err(ConfigError::ZooKeeperPath)?;
        return Ok(Some(path.to_owned()));
    }
    let namespace = non_empty(settings.namespace.as_ref()).or(environment.pod_namespace.as_deref());
    let parent = match namespace {
        Some(namespace) => format!("/baton/{namespace}"),
        None if environment.in_kubernetes => return Err(ConfigError::NoZooKeeperPath),
        None => "/baton".to_owned(),
    };
    Ok(election.map(|election| format!("{parent}/{election}")))
}

fn tls(settings: &Settings) -> Result<Option<TlsFiles>, ConfigError> {
    let file = |path: &Option<String>| non_empty(path.as_ref()).map(PathBuf::from);
    let (certificate, key) =
        (file(&settings.zookeeper_cert_file), file(&settings.zookeeper_key_file));
    match (file(&settings.zookeeper_ca_file), certificate, key) {
        (None, None, None) => Ok(None),
        (Some(authorities), None, None) => Ok(Some(TlsFiles { authorities, client: None })),
        (Some(authorities), Some(certificate), Some(key)) => {
            Ok(Some(TlsFiles { authorities, client: Some(ClientCertificate { certificate, key }) }))
        }
        (Some(_), _, _) => Err(ConfigError::CertificateWithoutKey { store: StoreKind::ZooKeeper }),
        (None, _, _) => Err(ConfigError::NoCertificateAuthority { store: StoreKind::ZooKeeper }),
    }
}
