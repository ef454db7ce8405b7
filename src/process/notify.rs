//! Tells systemd that this process is ready, alive, or stopping: `sd_notify(3)`.
//!
//! Touches a datagram socket. Start with [`Notifier`]. A stalled election loop sends no ping, and
//! systemd then kills the unit after `WatchdogSec`.

use crate::health::Health;
use crate::process::clock::Clock;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long a message may block the election loop, if systemd does not read.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

/// How to notify systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifySettings {
    /// A path, or the name of an abstract address after `@`: `NOTIFY_SOCKET`.
    socket: String,
    /// How often systemd expects a ping: `WATCHDOG_USEC`.
    watchdog: Option<Duration>,
}

impl NotifySettings {
    /// The settings from the variables of systemd. A watchdog of another process is none.
    pub fn new(socket: String, watchdog_usec: Option<&str>, watchdog_pid: Option<&str>) -> Self {
        let is_ours = watchdog_pid.is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = watchdog_usec.filter(|_| is_ours).and_then(|text| text.parse().ok());
        let watchdog = watchdog.filter(|usec| *usec > 0).map(Duration::from_micros);
        Self { socket, watchdog }
    }
}

/// Sends messages to systemd. Sends nothing if systemd did not start this process.
#[derive(Debug)]
pub struct Notifier {
    systemd: Option<(UnixDatagram, SocketAddr)>,
    ping_period: Option<Duration>,
}

impl Notifier {
    /// Opens a socket. Warns and sends nothing if the address is unusable.
    pub fn new(settings: Option<&NotifySettings>) -> Self {
        let Some(settings) = settings else { return Self { systemd: None, ping_period: None } };
        let systemd = open(&settings.socket).inspect_err(|error| {
            tracing::warn!("cannot notify systemd at {:?}: {error}", settings.socket);
        });
        // systemd recommends half of its period.
        let ping_period = settings.watchdog.map(|period| period / 2);
        Self { systemd: systemd.ok(), ping_period }
    }

    /// Reports that the listeners are bound and the candidate takes part.
    pub fn ready(&self) {
        self.report("READY=1");
    }

    /// Reports that a clean stop began.
    pub fn stopping(&self) {
        self.report("STOPPING=1");
    }

    /// Pings the watchdog as long as the election loop of `health` turns.
    pub async fn ping_while_progressing(&self, health: &Health) -> Infallible {
        let Some(period) = self.ping_period else { return pending().await };
        loop {
            if health.is_progressing(Clock.now()) {
                // systemd acts on a ping that is missing.
                self.send("WATCHDOG=1").ok();
            }
            Clock.sleep_until(Clock.now() + period).await;
        }
    }

    fn report(&self, state: &str) {
        if let Err(error) = self.send(state) {
            tracing::warn!("cannot send {state} to systemd: {error}");
        }
    }

    fn send(&self, state: &str) -> io::Result<()> {
        let Some((socket, address)) = &self.systemd else { return Ok(()) };
        socket.send_to_addr(state.as_bytes(), address).map(drop)
    }
}

fn open(socket: &str) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None if socket.starts_with('/') => SocketAddr::from_pathname(socket)?,
        None => return Err(io::Error::other("it is neither a path nor an abstract address")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok((socket, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watchdog(usec: Option<&str>, pid: Option<&str>) -> Option<Duration> {
        NotifySettings::new("/run/notify".to_owned(), usec, pid).watchdog
    }

    #[test]
    fn watchdog_of_another_process_is_none() {
        let (own, other) = (std::process::id().to_string(), (std::process::id() + 1).to_string());
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog(Some("1000000"), None), second);
        assert_eq!(watchdog(Some("1000000"), Some(&own)), second);
        assert_eq!(watchdog(Some("1000000"), Some(&other)), None);
        assert_eq!(watchdog(None, Some(&own)), None);
        assert_eq!(watchdog(Some("0"), None), None);
        assert_eq!(watchdog(Some("soon"), None), None);
    }

    #[test]
    fn only_paths_and_abstract_addresses_are_accepted() {
        assert!(open("notify").is_err());
        assert!(open("vsock:2:1234").is_err());
        assert!(open("@notify").is_ok() && open("/run/notify").is_ok());
    }
}
