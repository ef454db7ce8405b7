//! The settings of a server: its configuration file and its Java arguments.

use super::super::keys::Authority;
use super::super::proxy::Proxy;
use super::{CLIENT_PORT, ELECTION_PORT, JARS, OLD_JARS, QUORUM_PORT, SECURE_PORT};
use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

#[derive(Clone)]
pub(crate) struct Settings {
    /// How many servers; one is standalone.
    pub(crate) size: usize,
    pub(crate) tick: Duration,
    /// How many ticks a server waits for its leader, or the leader for a server, before it
    /// disconnects.
    pub(crate) sync_limit: u32,
    /// Whether links between the servers can be cut.
    pub(crate) can_be_cut: bool,
    /// Whether the servers are too old to support container znodes.
    pub(crate) old: bool,
    /// Whether they also accept TLS.
    pub(crate) secured: bool,
    /// More configuration lines.
    pub(crate) lines: Vec<String>,
    /// More system properties, `name=value`.
    pub(crate) properties: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        let tick = Duration::from_millis(500);
        Self {
            size: 1,
            tick,
            sync_limit: 5,
            can_be_cut: false,
            old: false,
            secured: false,
            lines: Vec::new(),
            properties: Vec::new(),
        }
    }
}

impl Settings {
    /// A server that also accepts TLS, from clients with certificates of this authority. Its own
    /// certificate is written into `folder`.
    pub(crate) fn secured(folder: &Path, authority: &Authority) -> Self {
        let at = |name: &str| folder.join(name);
        authority.server("server", &["localhost", "127.0.0.1"]);
        let [key, certificate] =
            ["server.key", "server.crt"].map(|name| fs::read_to_string(at(name)).expect("issued"));
        fs::write(at("server.pem"), key + &certificate).expect("the folder is ours");
        let lines = vec![
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
            format!("ssl.keyStore.location={}", at("server.pem").display()),
            format!("ssl.trustStore.location={}", at("ca.crt").display()),
            "ssl.trustStore.type=PEM".to_owned(),
            "ssl.clientAuth=need".to_owned(),
            // A client is identified by its certificate, not by its address.
            "ssl.clientHostnameVerification=false".to_owned(),
        ];
        Self { secured: true, lines, ..Self::default() }
    }

    /// A server that admits only one SASL user, with this name and password.
    pub(crate) fn with_users(folder: &Path, user: &str, password: &str) -> Self {
        let jaas = folder.join("jaas.conf");
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
        let password = password.replace('"', "\\\"");
        let text = format!("Server {{ {module} required user_{user}=\"{password}\"; }};");
        fs::write(&jaas, text).expect("the folder is ours");
        Self {
            lines: vec![
                "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
                    .to_owned(),
            ],
            properties: vec![
                format!("java.security.auth.login.config={}", jaas.display()),
                "zookeeper.sessionRequireClientSASLAuth=true".to_owned(),
            ],
            ..Self::default()
        }
    }

    /// Writes the configuration of the server `own` into its folder. It reaches the others' quorum
    /// ports through `links`, if there are any.
    pub(super) fn write(&self, folder: &Path, ips: &[IpAddr], own: usize, links: &[Proxy]) {
        let data = folder.join("data");
        fs::create_dir_all(&data).expect("the folder is ours");
        let (tick, sync_limit, address) = (self.tick.as_millis(), self.sync_limit, ips[own]);
        let mut text = format!(
            "tickTime={tick}\ninitLimit=10\nsyncLimit={sync_limit}\ndataDir={}\nclientPort={CLIENT_PORT}\n\
             clientPortAddress={address}\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
            data.display()
        );
        if self.size > 1 {
            text += "standaloneEnabled=false\nreconfigEnabled=false\n";
            fs::write(data.join("myid"), (own + 1).to_string()).expect("the folder is ours");
            let mut links = links.iter();
            for (at, address) in ips.iter().enumerate() {
                let link = if at == own { None } else { links.next() };
                let port = link.map_or(QUORUM_PORT, |link| link.address().port());
                writeln!(text, "server.{}={address}:{port}:{ELECTION_PORT}", at + 1)
                    .expect("writing to a String cannot fail");
            }
        }
        if self.secured {
            // Without the address it would listen on all of them.
            write!(text, "secureClientPort={SECURE_PORT}\nsecureClientPortAddress={address}\n")
                .expect("writing to a String cannot fail");
        }
        for line in &self.lines {
            text += line;
            text.push('\n');
        }
        fs::write(folder.join("zoo.cfg"), text).expect("the folder is ours");
    }

    /// The folder of the server's jars.
    pub(super) fn jars(&self) -> &'static str {
        if self.old { OLD_JARS } else { JARS }
    }

    /// Java arguments for a server that starts fast and stays small.
    pub(super) fn java(&self, folder: &Path) -> Vec<String> {
        let fixed = [
            "-Xms16m",
            "-Xmx96m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-Dzookeeper.forceSync=no", // these tests cut no power
            "-Dzookeeper.jmx.log4j.disable=true", // an old server would look for log4j
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        ];
        let mut arguments: Vec<String> = fixed.map(str::to_owned).into();
        arguments.extend(self.properties.iter().map(|property| format!("-D{property}")));
        arguments.extend(["-cp".to_owned(), format!("{}/*", self.jars())]);
        arguments.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned());
        arguments.push(folder.join("zoo.cfg").display().to_string());
        arguments
    }
}
