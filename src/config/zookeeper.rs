//! What the flags of the ZooKeeper backend mean.
//!
//! Pure. Mistakes are collected with the others'.

use crate::cli::{Settings, Surroundings};
use crate::config::{ConfigError, ElectionName, Flags, Mistakes, typed};
use baton_election::queue::timing::{SessionTiming, SessionTooShort};
use baton_election::timing::{Drift, Durations, Timing};
use std::path::PathBuf;
use std::time::Duration;
use zookeeper_client::servers::{Servers, check_path};
use zookeeper_client::tls::{ClientCertificate, TlsFiles};

/// Where an election is held in ZooKeeper, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperPlace {
    /// The servers.
    pub servers: Servers,
    /// The election's path, below the servers' chroot.
    pub path: String,
    /// The durations, checked against the servers' tick.
    pub timing: SessionTiming,
    /// Where our credentials are.
    pub auth_file: Option<PathBuf>,
    /// Where our certificates are, when TLS is to be spoken.
    pub tls: Option<TlsFiles>,
}

/// ZooKeeper's own default, as its sample configuration has it.
const TICK: Duration = Duration::from_secs(2);

pub(super) fn place(
    settings: &Settings,
    surroundings: &Surroundings,
    election: Option<&ElectionName>,
    timing: Option<&Timing>,
    mistakes: &mut Mistakes,
) -> Option<ZooKeeperPlace> {
    let servers = typed(settings.zookeeper_servers.as_ref()).ok_or(ConfigError::NoZooKeeperServers);
    let servers =
        mistakes.keep(servers.and_then(|text| text.parse().map_err(ConfigError::ZooKeeperServers)));
    let path = path(settings, surroundings, election);
    let path = mistakes.keep(path);
    let tick =
        mistakes.duration("zookeeper-tick-time", typed(settings.zookeeper_tick_time.as_ref()));
    let tick = tick.unwrap_or(TICK);
    // Their configuration has it in whole milliseconds.
    if tick < Duration::from_millis(1) {
        mistakes.0.push(ConfigError::NoTick);
    }
    let timing = timing.and_then(|timing| {
        let wrong = |error: SessionTooShort| {
            ConfigError::Session(Box::new(error), Flags::new(error.remedy))
        };
        SessionTiming::new(*timing, tick)
            .map_err(|errors| mistakes.0.extend(errors.into_iter().map(wrong)))
            .ok()
    });
    let tls = mistakes.keep(tls(settings));
    let auth_file = typed(settings.zookeeper_auth_file.as_ref()).map(PathBuf::from);
    Some(ZooKeeperPlace { servers: servers?, path: path??, timing: timing?, auth_file, tls: tls? })
}

/// Durations near `lease_duration` that pass with sessions too, so that nobody is refused a second time.
pub(super) fn suggestion(settings: &Settings, lease_duration: Duration, drift: Drift) -> Durations {
    // A tick that cannot be read is a mistake of its own, and named with the place.
    let tick = typed(settings.zookeeper_tick_time.as_ref())
        .and_then(|text| humantime::parse_duration(text).ok());
    SessionTiming::suggestion(lease_duration, drift, tick.unwrap_or(TICK))
}

/// Candidates of one name in two namespaces are not of one election.
fn path(
    settings: &Settings,
    surroundings: &Surroundings,
    election: Option<&ElectionName>,
) -> Result<Option<String>, ConfigError> {
    if let Some(path) = typed(settings.zookeeper_path.as_ref()) {
        check_path(path).map_err(ConfigError::ZooKeeperPath)?;
        return Ok(Some(path.to_owned()));
    }
    let namespace = typed(settings.namespace.as_ref()).or(surroundings.pod_namespace.as_deref());
    let folder = match namespace {
        Some(namespace) => format!("/baton/{namespace}"),
        None if surroundings.in_kubernetes => return Err(ConfigError::NoZooKeeperPath),
        None => "/baton".to_owned(),
    };
    Ok(election.map(|election| format!("{folder}/{election}")))
}

fn tls(settings: &Settings) -> Result<Option<TlsFiles>, ConfigError> {
    let file = |typed_file: &Option<String>| typed(typed_file.as_ref()).map(PathBuf::from);
    let (certificate, key) =
        (file(&settings.zookeeper_cert_file), file(&settings.zookeeper_key_file));
    match (file(&settings.zookeeper_ca_file), certificate, key) {
        (None, None, None) => Ok(None),
        (Some(authorities), None, None) => Ok(Some(TlsFiles { authorities, client: None })),
        (Some(authorities), Some(certificate), Some(key)) => {
            Ok(Some(TlsFiles { authorities, client: Some(ClientCertificate { certificate, key }) }))
        }
        (Some(_), _, _) => Err(ConfigError::HalfACertificate),
        (None, _, _) => Err(ConfigError::NoAuthority),
    }
}
