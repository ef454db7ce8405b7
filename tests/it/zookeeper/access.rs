//! How candidates reach ZooKeeper servers and authenticate, configured by flags alone.

use super::{PATIENCE, messages};
use crate::rig::{
    Authority, Candidate, ELECTION, Ensemble, Proxy, Rig, SECURE_PORT, Settings, Store as _, Znodes,
};
use crate::rig::{eventually, wait_for};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zookeeper_client::wire::Code;

fn text(path: &Path) -> &str {
    path.to_str().expect("the paths of the rig are UTF-8")
}

/// Writes a file of credentials.
fn credentials(rig: &Rig<Znodes>, name: &str, lines: &str) -> PathBuf {
    let file = rig.folder().join(name);
    fs::write(&file, lines).unwrap();
    file
}

/// How often a candidate has connected.
fn connects(candidate: &Candidate) -> f64 {
    let labels = format!("election=\"{ELECTION}\",outcome=\"applied\",verb=\"connect\"");
    candidate.metric(&format!("baton_store_requests_total{{{labels}}}")).expect("it is counted")
}

/// Stops the leader, and checks that the follower takes over at once.
fn assert_handoff(rig: &Rig<Znodes>, leader: &Candidate, follower: &Candidate) {
    let signaled = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let handoff = rig.timing.answer_validity + Duration::from_millis(100) + Znodes::NOISE;
    assert_eq!(rig.successor(leader, signaled, handoff).0.identity, follower.identity);
}

#[test]
fn certificates_and_credentials_keep_others_out() {
    let folder = tempfile::TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let authority = Authority::begin(folder.path());
    authority.client("candidate", "shop");
    authority.client("stranger", "bank");
    let ensemble = Ensemble::start(Settings::secured(folder.path(), &authority));
    let secure = SocketAddr::new(ensemble.address(0).ip(), SECURE_PORT);
    wait_for(PATIENCE, "the secure port is open", || TcpStream::connect(secure).ok());
    let proxy = Proxy::to(secure);

    let rig = Rig::over(
        Znodes::on(&ensemble, &format!("localhost:{}", proxy.address().port())),
        Znodes::FAST,
    );
    let shop_credentials = credentials(&rig, "shop", "digest:shop:secret\n");
    let authority = at("ca.crt");
    let trusting = |name| {
        let start = rig.candidate(name).flag("--zookeeper-ca-file", text(&authority));
        start.flag("--zookeeper-path", "/deep/er/orders")
    };
    let certified = |name, certificate: &str| {
        let [certificate, key] = ["crt", "key"].map(|kind| at(&format!("{certificate}.{kind}")));
        let start = trusting(name).flag("--zookeeper-cert-file", text(&certificate));
        start.flag("--zookeeper-key-file", text(&key))
    };
    let authorized = |name| {
        certified(name, "candidate").flag("--zookeeper-auth-file", text(&shop_credentials)).start()
    };
    let leader = authorized("a");
    assert_eq!(rig.leader().identity, leader.identity);
    let follower = authorized("b");
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));

    let others = messages(&leader, "other_administrators");
    assert_eq!(others, [""; 0], "the certificate's subject is one of its own identities");
    let path = rig.store.below("/deep/er/orders");
    let queue = rig.store.admin.children(&path).unwrap();
    assert_eq!(queue.len(), 2);
    let first = format!("{path}/{}", queue[0]);
    assert!(rig.store.admin.read(&first).is_ok(), "everyone may read the queue");
    assert_eq!(rig.store.admin.delete(&first), Err(Code::NoAuth));
    assert_eq!(rig.store.admin.create_ephemeral(&format!("{path}/x")), Err(Code::NoAuth));
    let without_credentials = certified("c", "stranger").start();
    let without_certificate = trusting("d").start();
    eventually(PATIENCE, "the missing credentials are logged", || {
        let logged = messages(&without_credentials, "store_refuses");
        logged.iter().any(|message| message.contains("--zookeeper-auth-file"))
    });
    eventually(PATIENCE, "the unreachable store is logged", || {
        !messages(&without_certificate, "store_unreachable").is_empty()
    });
    assert_eq!(without_credentials.exit_code(), 77);
    assert_handoff(&rig, &leader, &follower);
    assert!(!without_certificate.events("following").iter().any(|line| line["leader"].is_string()));

    // The access lists contain the subject of the certificate too, so it suffices.
    let wrong_credentials = credentials(&rig, "guess", "digest:shop:guess\n");
    let with_our_certificate =
        certified("e", "candidate").flag("--zookeeper-auth-file", text(&wrong_credentials)).start();
    eventually(PATIENCE, "the certificate alone gives access", || {
        rig.has_standing(&with_our_certificate, "following")
    });
}

#[test]
fn sasl_user_with_a_wrong_password_is_refused() {
    let folder = tempfile::TempDir::new().unwrap();
    let ensemble = Ensemble::start(Settings::with_users(folder.path(), "alice", "open sesame"));
    let rig = Rig::over(Znodes::for_users(&ensemble, "sasl:alice:open sesame"), Znodes::FAST);
    let [right, wrong] = [("right", "open sesame"), ("wrong", "closed")]
        .map(|(name, password)| credentials(&rig, name, &format!("sasl:alice:{password}\n")));
    let start =
        |name, file: &Path| rig.candidate(name).flag("--zookeeper-auth-file", text(file)).start();
    let leader = start("a", &right);
    assert_eq!(rig.leader().identity, leader.identity);
    let follower = start("b", &right);
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    let stranger = start("c", &wrong);
    eventually(PATIENCE, "the refusal is logged", || {
        messages(&stranger, "store_refuses")
            .iter()
            .any(|message| message.contains("refused the sasl credentials"))
    });
    assert_eq!(stranger.exit_code(), 77);
    assert_handoff(&rig, &leader, &follower);
}

#[test]
fn clear_text_password_after_a_reload_warns_once() {
    let folder = tempfile::TempDir::new().unwrap();
    let ensemble = Ensemble::start(Settings::with_users(folder.path(), "alice", "open sesame"));
    let proxy = Proxy::to(ensemble.address(0));
    let rig = Rig::over(Znodes::for_users(&ensemble, "sasl:alice:open sesame"), Znodes::CALM);
    let file = credentials(&rig, "shop", "sasl:alice:open sesame\n");
    let start =
        rig.candidate("a").flag("--zookeeper-servers", rig.store.servers_at(proxy.address()));
    let leader = start.flag("--zookeeper-auth-file", text(&file)).start();
    assert_eq!(rig.leader().identity, leader.identity);
    assert_eq!(messages(&leader, "password_in_clear"), [""; 0]);
    for lines in [
        "digest:shop:secret\nsasl:alice:open sesame\n",
        "digest:bank:vault\nsasl:alice:open sesame\n",
    ] {
        credentials(&rig, "shop", lines);
        let before = connects(&leader);
        proxy.cut();
        eventually(PATIENCE, "the leader reconnects", || connects(&leader) > before);
    }
    let warnings = messages(&leader, "password_in_clear");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    rig.wait_for_answers();
}

#[test]
fn broken_credentials_file_leaves_the_last_good_ones_in_use() {
    let ensemble = Ensemble::shared();
    let proxy = Proxy::to(ensemble.address(0));
    let rig = Rig::over(Znodes::on(ensemble, &proxy.address().to_string()), Znodes::CALM);
    let file = credentials(&rig, "shop", "digest:shop:secret\n");
    let leader = rig.candidate("a").flag("--zookeeper-auth-file", text(&file)).start();
    assert_eq!(rig.leader().identity, leader.identity);
    credentials(&rig, "shop", "half-written\n");
    for _ in 0..3 {
        let before = connects(&leader);
        proxy.cut();
        eventually(PATIENCE, "the leader reconnects", || connects(&leader) > before);
    }
    let output = leader.output();
    let warnings = output
        .lines()
        .filter(|line| line.contains("still using the previous") && line.contains("line 1"));
    assert_eq!(warnings.count(), 1, "{output}");
    rig.wait_for_answers();
    assert_eq!(rig.tokens(ELECTION).len(), 1, "the leader can still write");
}

/// Servers are given by name and by address, over IPv4 and IPv6.
#[test]
fn one_reachable_server_is_enough() {
    let ensemble = Ensemble::shared();
    let proxies = [
        Proxy::to(ensemble.address(0)),
        Proxy::on(Ipv6Addr::LOCALHOST.into(), ensemble.address(0)),
    ];
    let [four, six] = proxies.each_ref().map(|proxy| proxy.address().port());
    let servers = format!("no-such-name.invalid:2181,127.0.0.1:1,localhost:{four},[::1]:{six}");
    let rig = Rig::over(Znodes::on(ensemble, &servers), Znodes::CALM);
    let only_six =
        rig.store.flags()["--zookeeper-servers"].replace(&servers, &format!("[::1]:{six}"));
    let leader = rig.candidate("a").flag("--zookeeper-servers", only_six).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let followers: [Arc<Candidate>; 2] = rig.start_followers(["b", "c"]);
    for _ in 0..3 {
        for proxy in &proxies {
            proxy.cut();
        }
        eventually(PATIENCE, "all candidates are back", || {
            let is_back = |candidate: &Candidate| {
                candidate.is_healthy() && rig.store.queue(ELECTION).len() == 3
            };
            is_back(&leader) && followers.iter().all(|follower| is_back(follower))
        });
    }
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    let signaled = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    rig.successor(
        &leader,
        signaled,
        rig.timing.answer_validity + rig.timing.call_timeout() + Znodes::NOISE,
    );
}

/// Reading a FIFO without a writer blocks, like reading from a dead network file system.
#[test]
fn hanging_credentials_file_delays_nothing() {
    let ensemble = Ensemble::shared();
    let proxy = Proxy::to(ensemble.address(0));
    let rig = Rig::over(Znodes::on(ensemble, &proxy.address().to_string()), Znodes::CALM);
    let file = credentials(&rig, "shop", "digest:shop:secret\n");
    let leader = rig.candidate("a").flag("--zookeeper-auth-file", text(&file)).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let fifo = rig.folder().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::rename(&fifo, &file).unwrap();
    for _ in 0..2 {
        let before = connects(&leader);
        proxy.cut();
        eventually(rig.timing.call_timeout(), "the leader reconnects with its old ones", || {
            connects(&leader) > before
        });
    }
    let output = leader.output();
    let warnings = output
        .lines()
        .filter(|line| line.contains("still using the previous") && line.contains("disk"));
    assert_eq!(warnings.count(), 1, "{output}");
    rig.wait_for_answers();
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}
