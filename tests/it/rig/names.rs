//! Host names that only a test's own processes can resolve: each has a mount namespace with another
//! `/etc/hosts`, which needs no root.

use super::name_server::NameServer;
use super::starter::mortal_within;
use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::process::Command;
use tempfile::TempDir;

/// Mounts the files in the folder `$0` over those in `/etc`, and executes the program.
const ENTER: &str = r#"set -e
for file in hosts nsswitch.conf resolv.conf; do mount --bind "$0/$file" "/etc/$file"; done
exec "$@""#;

pub(crate) struct Names {
    folder: TempDir,
}

impl Names {
    /// One name with these addresses, and no other.
    pub(crate) fn of(name: &str, addresses: &[IpAddr]) -> Self {
        let names = Self::with_source("files", "");
        names.set(name, addresses);
        names
    }

    /// Names from this server. A resolver sends it one query per name and waits 30 seconds.
    pub(crate) fn served_by(server: &NameServer) -> Self {
        let names = Self::with_source(
            "dns",
            &format!("nameserver {}\noptions timeout:30 attempts:1\n", server.ip),
        );
        fs::write(names.folder.path().join("hosts"), "").expect("the folder is ours");
        names
    }

    fn with_source(source: &str, resolver: &str) -> Self {
        let folder = TempDir::with_prefix("baton-names-").expect("temporary folders can be made");
        fs::write(folder.path().join("nsswitch.conf"), format!("hosts: {source}\n"))
            .expect("the folder is ours");
        fs::write(folder.path().join("resolv.conf"), resolver).expect("the folder is ours");
        Self { folder }
    }

    /// Changes the addresses of the name. A concurrent reader may find nothing.
    pub(crate) fn set(&self, name: &str, addresses: &[IpAddr]) {
        let mut text = String::new();
        for address in addresses {
            writeln!(text, "{address} {name}").expect("writing to a String cannot fail");
        }
        // Written in place: the namespaces would not see a new file.
        fs::write(self.folder.path().join("hosts"), text).expect("the folder is ours");
    }

    /// A command that runs `program` where these names can be resolved.
    pub(super) fn command(&self, program: &str) -> Command {
        mortal_within(ENTER, self.folder.path(), program)
    }
}
