//! Addresses that the sidecar listens on.
//!
//! Pure: nothing is bound here. Start with [`ListenAddress`].

use crate::config::ConfigError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// One address, both loopback addresses, or every address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenAddress {
    /// `localhost:PORT`: 127.0.0.1 and, if the machine has IPv6, `::1`, to which Node.js resolves
    /// `localhost` first.
    Localhost(u16),
    /// `:PORT`: every address of both families.
    Everywhere(u16),
    /// `IP:PORT`.
    At(SocketAddr),
}

/// The text is not an address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseListenError;

impl ListenAddress {
    /// Parses the value of `flag`.
    pub(super) fn parse_flag(flag: &'static str, text: &str) -> Result<Self, ConfigError> {
        text.parse()
            .map_err(|ParseListenError| ConfigError::Address { flag, text: text.to_owned() })
    }

    /// Whether the listener accepts connections to `address`, a loopback address.
    pub fn accepts(self, address: SocketAddr) -> bool {
        match self {
            Self::Everywhere(port) => address.port() == port,
            Self::At(listen) if listen.ip().is_unspecified() => address.port() == listen.port(),
            Self::Localhost(_) | Self::At(_) => self.reachable_at().contains(&address),
        }
    }

    /// The addresses at which this machine can reach the listener, in the order to try.
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

impl FromStr for ListenAddress {
    type Err = ParseListenError;

    fn from_str(text: &str) -> Result<Self, ParseListenError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::At(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or(ParseListenError)?;
        let port = port.parse().map_err(|_| ParseListenError)?;
        match host {
            "localhost" => Ok(Self::Localhost(port)),
            "" => Ok(Self::Everywhere(port)),
            _ => Err(ParseListenError),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Localhost(port) => write!(f, "localhost:{port}"),
            Self::Everywhere(port) => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
        }
    }
}
