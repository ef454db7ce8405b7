//! Where to listen, and where to reach a sidecar that listens there.
//!
//! Pure: nothing is bound here.

use crate::config::ConfigError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Where to listen: one address or both loopbacks or every address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// `localhost:PORT`: 127.0.0.1 and, where there is one, `::1` (Node.js resolves localhost to it
    /// first).
    Localhost(u16),
    /// `:PORT`: every address of both families.
    Everywhere(u16),
    /// `IP:PORT`.
    At(SocketAddr),
}

/// A text that is no address to listen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoAddress;

impl Listen {
    /// The value of `flag`.
    pub(super) fn typed(flag: &'static str, text: &str) -> Result<Self, ConfigError> {
        text.parse().map_err(|NoAddress| ConfigError::Address { flag, text: text.to_owned() })
    }

    /// The addresses that reach this listener from this machine, in the order to try.
    pub fn reachable_at(self) -> Vec<SocketAddr> {
        let loopbacks = |port| {
            vec![
                SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
            ]
        };
        match self {
            Self::Localhost(port) | Self::Everywhere(port) => loopbacks(port),
            Self::At(address) => match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => loopbacks(address.port()),
                IpAddr::V6(ip) if ip.is_unspecified() => loopbacks(address.port()),
                IpAddr::V4(_) | IpAddr::V6(_) => vec![address],
            },
        }
    }
}

impl FromStr for Listen {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        if let Ok(address) = text.parse() {
            return Ok(Self::At(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or(NoAddress)?;
        let port = port.parse().map_err(|_| NoAddress)?;
        match host {
            "localhost" => Ok(Self::Localhost(port)),
            "" => Ok(Self::Everywhere(port)),
            _ => Err(NoAddress),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Localhost(port) => write!(f, "localhost:{port}"),
            Self::Everywhere(port) => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
        }
    }
}
