//! ZooKeeper's own connect string: servers, and the part of their tree that is ours (chroot).
//!
//! Pure. Host names stay names: they are looked up anew for each attempt to connect, because a Pod that is started
//! again has another address.

use std::fmt;
use std::str::FromStr;

/// The port of a server that names none.
const PORT: u16 = 2181;

/// The servers of an ensemble, and where in their tree our paths begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// At least one.
    pub hosts: Vec<Host>,
    /// Begins with a slash and ends without one; empty where the whole tree is ours.
    pub chroot: String,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name or address, without the brackets of IPv6.
    pub name: String,
    /// Its port.
    pub port: u16,
}

/// A connect string that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServersError {
    /// An entry that is no host and port.
    #[error("{0:?} is not a host and a port: write it like zk-0.zk:2181 or [::1]:2181")]
    Host(String),
    /// A chroot that is no path.
    #[error("{0}")]
    Chroot(#[from] PathError),
}

/// A path that no server would take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the path of a znode: write it like /baton/orders, without empty parts, '.' and '..', control \
     characters, private ones and emoji"
)]
pub struct PathError(String);

/// Checks that `path` can be a znode's, by the rules of ZooKeeper's `PathUtils`; the root is none.
pub fn check_path(path: &str) -> Result<(), PathError> {
    // Java sees what is beyond U+FFFF as two surrogates, which stand in the first of these ranges for it.
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
        let wrong = || ServersError::Host(text.to_owned());
        let (name, port) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let (name, port) = bracketed.split_once(']').ok_or_else(wrong)?;
                (name, port.strip_prefix(':').or_else(|| port.is_empty().then_some("")))
            }
            None => {
                text.split_once(':').map_or((text, Some("")), |(name, port)| (name, Some(port)))
            }
        };
        let port = match port.ok_or_else(wrong)? {
            "" if !text.ends_with(':') => PORT,
            port => port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?,
        };
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || matches!(c, '[' | ']')) {
            Err(wrong())
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
    fn connect_strings_are_read_as_zookeeper_reads_them() {
        for (written, meant) in [
            ("zk", "zk:2181"),
            ("zk-0.zk:2182,zk-1.zk", "zk-0.zk:2182,zk-1.zk:2181"),
            (
                "10.0.0.1:2181, [::1]:2183,[fe80::1]/apps/one",
                "10.0.0.1:2181,[::1]:2183,[fe80::1]:2181/apps/one",
            ),
            ("zk/", "zk:2181"),
        ] {
            assert_eq!(
                written.parse::<Servers>().map(|servers| servers.to_string()),
                Ok(meant.to_owned()),
                "{written}"
            );
        }
        let no_host = ["", "zk,", ",zk", "[]:1", ":2181", "z k", "[::1", "[[::1]", "zk]"];
        let no_port = ["zk:", "zk:0", "zk:port", "zk:1:2", "[::1]2"];
        for wrong in no_host.into_iter().chain(no_port) {
            assert!(matches!(wrong.parse::<Servers>(), Err(ServersError::Host(_))), "{wrong}");
        }
        for wrong in ["zk//a", "zk/a//b", "zk/./a", "zk/a/..", "zk/a\u{1}", "zk/\u{e000}"] {
            assert!(matches!(wrong.parse::<Servers>(), Err(ServersError::Chroot(_))), "{wrong}");
        }
    }
}
