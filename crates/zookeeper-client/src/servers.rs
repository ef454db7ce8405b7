//! ZooKeeper's connect string: servers and an optional chroot.
//!
//! Pure. Start with [`Servers`]. Host names are kept as names and looked up at each attempt to
//! connect, since a server's address may change.

use std::fmt;
use std::str::FromStr;

/// The port if none is given.
const DEFAULT_PORT: u16 = 2181;

/// The servers of an ensemble, and the chroot that every path is relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// The servers; at least one.
    pub hosts: Vec<Host>,
    /// Starts with a slash and does not end with one; empty for the root.
    pub chroot: String,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name or address, without the brackets of IPv6.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// Why a connect string is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServersError {
    /// An entry is not a host and port.
    #[error("{0:?} is not a host and port: write it like zk-0.zk:2181 or [::1]:2181")]
    Host(String),
    /// The chroot is not a path.
    #[error(transparent)]
    Chroot(#[from] PathError),
}

/// A path that servers refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the path of a znode: write it like /apps/orders, without empty parts, '.', '..', \
     control characters, private-use characters, and emoji"
)]
pub struct PathError(String);

/// Checks `path` by the rules of ZooKeeper's `PathUtils`; the root is refused too.
pub fn check_path(path: &str) -> Result<(), PathError> {
    // Java represents a character beyond U+FFFF as two surrogates, which it refuses.
    let is_refused =
        |c: char| c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.chars().any(is_refused);
    let parts = path.strip_prefix('/').map(|parts| parts.split('/').all(is_part));
    if parts == Some(true) { Ok(()) } else { Err(PathError(path.to_owned())) }
}

impl FromStr for Servers {
    type Err = ServersError;

    fn from_str(text: &str) -> Result<Self, ServersError> {
        let (hosts, chroot) = match text.find('/') {
            Some(slash) => (&text[..slash], text[slash..].trim_end_matches('/')),
            None => (text, ""),
        };
        if !chroot.is_empty() {
            check_path(chroot)?;
        }
        let hosts = hosts.split(',').map(|host| host.trim().parse()).collect::<Result<_, _>>()?;
        Ok(Self { hosts, chroot: chroot.to_owned() })
    }
}

impl FromStr for Host {
    type Err = ServersError;

    fn from_str(text: &str) -> Result<Self, ServersError> {
        let error = || ServersError::Host(text.to_owned());
        let (name, port) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let (name, port) = bracketed.split_once(']').ok_or_else(error)?;
                (name, port.strip_prefix(':').or_else(|| port.is_empty().then_some("")))
            }
            None => {
                text.split_once(':').map_or((text, Some("")), |(name, port)| (name, Some(port)))
            }
        };
        let port = match port.ok_or_else(error)? {
            "" if !text.ends_with(':') => DEFAULT_PORT,
            port => port.parse().ok().filter(|port| *port != 0).ok_or_else(error)?,
        };
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || matches!(c, '[' | ']')) {
            Err(error())
        } else {
            Ok(Self { name: name.to_owned(), port })
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, host) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}", if at == 0 { "" } else { "," })?;
        }
        f.write_str(&self.chroot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_strings_are_parsed_like_zookeepers() {
        for (input, expected) in [
            ("zk", "zk:2181"),
            ("zk-0.zk:2182,zk-1.zk", "zk-0.zk:2182,zk-1.zk:2181"),
            (
                "10.0.0.1:2181, [::1]:2183,[fe80::1]/apps/one",
                "10.0.0.1:2181,[::1]:2183,[fe80::1]:2181/apps/one",
            ),
            ("zk/", "zk:2181"),
        ] {
            assert_eq!(
                input.parse::<Servers>().map(|servers| servers.to_string()),
                Ok(expected.to_owned()),
                "{input}"
            );
        }
        let bad_hosts = ["", "zk,", ",zk", "[]:1", ":2181", "z k", "[::1", "[[::1]", "zk]"];
        let bad_ports = ["zk:", "zk:0", "zk:port", "zk:1:2", "[::1]2"];
        for wrong in bad_hosts.into_iter().chain(bad_ports) {
            assert!(matches!(wrong.parse::<Servers>(), Err(ServersError::Host(_))), "{wrong}");
        }
        for wrong in ["zk//a", "zk/a//b", "zk/./a", "zk/a/..", "zk/a\u{1}", "zk/\u{e000}"] {
            assert!(matches!(wrong.parse::<Servers>(), Err(ServersError::Chroot(_))), "{wrong}");
        }
    }
}
