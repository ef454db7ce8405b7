//! Names of hosts that only processes of a test know: a mount namespace of each shows them another `/etc/hosts`, which needs
//! no root.

use super::name_server::NameServer;
use super::starter::mortal_within;
use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::process::Command;
use tempfile::TempDir;

/// Shows the files in the folder `$0` in `/etc`, and becomes the program.
const ENTER: &str = r#"set -e
for file in hosts nsswitch.conf resolv.conf; do mount --bind "$0/$file" "/etc/$file"; done
exec "$@""#;

pub(crate) struct Names {
    folder: TempDir,
}

impl Names {
    /// One name, which stands for these addresses; there is no other.
    pub(crate) fn of(name: &str, addresses: &[IpAddr]) -> Self {
        let names = Self::looked_up("files", "");
        names.set(name, addresses);
        names
    }

    /// Names from this server, which gets one query for each and half a minute to answer.
    pub(crate) fn told_by(server: &NameServer) -> Self {
        let names = Self::looked_up(
            "dns",
            &format!("nameserver {}\noptions timeout:30 attempts:1\n", server.ip),
        );
        fs::write(names.folder.path().join("hosts"), "").expect("the folder is ours");
        names
    }

    fn looked_up(by: &str, resolver: &str) -> Self {
        let folder = TempDir::with_prefix("baton-names-").expect("temporary folders can be made");
        fs::write(folder.path().join("nsswitch.conf"), format!("hosts: {by}\n"))
            .expect("the folder is ours");
        fs::write(folder.path().join("resolv.conf"), resolver).expect("the folder is ours");
        Self { folder }
    }

    /// Lets the name stand for these from now on. Whoever reads meanwhile may find nothing.
    pub(crate) fn set(&self, name: &str, addresses: &[IpAddr]) {
        let mut text = String::new();
        for address in addresses {
            writeln!(text, "{address} {name}").expect("a String takes everything");
        }
        // Into the same file: another one in its place would not be seen in the namespaces.
        fs::write(self.folder.path().join("hosts"), text).expect("the folder is ours");
    }

    /// A command that runs `program` where these names are known.
    pub(super) fn command(&self, program: &str) -> Command {
        mortal_within(ENTER, self.folder.path(), program)
    }
}
