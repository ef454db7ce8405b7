//! The environment of a container in a Pod: the address of the API server in variables, and the
//! files of the service account where Kubernetes mounts them. Each process gets a mount namespace
//! for that, which needs no root.
//!
//! A name lookup in such a Pod blocks forever: the files that a resolver reads first are pipes
//! without a writer.

use super::Account;
use super::starter::mortal_within;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::process::Command;
use tempfile::TempDir;

/// Mounts the folder `$0` where Kubernetes mounts a service account, and executes the program.
const ENTER: &str = r#"set -e
mount -t tmpfs tmpfs /var/run/
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
mount --bind "$0/account" /var/run/secrets/kubernetes.io/serviceaccount
for file in hosts resolv.conf nsswitch.conf; do
  if [ -f "/etc/$file" ]; then mount --bind "$0/pipe" "/etc/$file"; fi
done
exec "$@""#;

pub(crate) struct Pod {
    folder: TempDir,
    host: String,
    port: u16,
}

impl Pod {
    /// A Pod with this account's files; `server` is the API server or a proxy to it.
    pub(crate) fn of(account: &Account, server: SocketAddr) -> Self {
        let folder = TempDir::with_prefix("baton-pod-").expect("temporary folders can be made");
        let files = folder.path().join("account");
        fs::create_dir(&files).expect("the folder is new");
        for file in ["token", "ca.crt", "namespace"] {
            symlink(format!("..data/{file}"), files.join(file)).expect("the folder is new");
        }
        let piped = Command::new("mkfifo")
            .arg(folder.path().join("pipe"))
            .status()
            .expect("coreutils are installed");
        assert!(piped.success(), "the folder is new");
        let pod = Self { folder, host: server.ip().to_string(), port: server.port() };
        pod.mount(&account.token, account);
        pod
    }

    /// The same, but the API server is given by name.
    pub(crate) fn named(self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self }
    }

    /// Replaces all files at once, as kubelet does: by exchanging a link to their folder.
    pub(crate) fn mount(&self, token: &str, account: &Account) {
        let files = self.folder.path().join("account");
        let data = TempDir::with_prefix_in("..", &files).expect("the folder is ours").keep();
        let contents = [
            ("token", token),
            ("ca.crt", &account.access.authority()),
            ("namespace", &account.namespace),
        ];
        for (name, content) in contents {
            fs::write(data.join(name), content).expect("the folder is ours");
        }
        let link = files.join("..data_tmp");
        symlink(data.file_name().expect("it has a name"), &link).expect("the link is new");
        fs::rename(link, files.join("..data")).expect("the folder is ours");
    }

    /// A command that runs `program` in this Pod, with this Pod name.
    pub(super) fn command(&self, name: &str, program: &str) -> Command {
        let mut command = mortal_within(ENTER, self.folder.path(), program);
        command.env("POD_NAME", name);
        command
            .env("KUBERNETES_SERVICE_HOST", &self.host)
            .env("KUBERNETES_SERVICE_PORT", self.port.to_string());
        command
    }
}
