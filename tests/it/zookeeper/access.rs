//! How candidates reach the servers and are let in, by their flags alone: names and addresses, certificates, credentials,
//! a part of the tree, and what others may do with what is ours.

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

/// How often it has connected.
fn connects(candidate: &Candidate) -> f64 {
    let labels = format!("election=\"{ELECTION}\",outcome=\"applied\",verb=\"connect\"");
    candidate.metric(&format!("baton_store_requests_total{{{labels}}}")).expect("it is counted")
}

/// Has the leader stop, and its follower take over at once.
fn hands_over(rig: &Rig<Znodes>, leader: &Candidate, follower: &Candidate) {
    let asked = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let handoff = rig.timing.answer_validity + Duration::from_millis(100) + Znodes::NOISE;
    assert_eq!(rig.successor(leader, asked, handoff).0.identity, follower.identity);
}

#[test]
fn candidates_with_certificates_and_credentials_elect_where_nobody_else_can_meddle() {
    let folder = tempfile::TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let authority = Authority::begin(folder.path());
    authority.client("candidate", "shop");
    authority.client("stranger", "bank");
    let ensemble = Ensemble::start(Settings::secured(folder.path(), &authority));
    let secure = SocketAddr::new(ensemble.address(0).ip(), SECURE_PORT);
    wait_for(PATIENCE, "the secure port is open", || TcpStream::connect(secure).ok());
    let way = Proxy::to(secure);

    let rig = Rig::over(
        Znodes::on(&ensemble, &format!("localhost:{}", way.address().port())),
        Znodes::FAST,
    );
    let shops = credentials(&rig, "shop", "digest:shop:secret\n");
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
    let ours =
        |name| certified(name, "candidate").flag("--zookeeper-auth-file", text(&shops)).start();
    let leader = ours("a");
    assert_eq!(rig.leader().identity, leader.identity);
    let follower = ours("b");
    eventually(PATIENCE, "it follows", || rig.stands(&follower, "following"));

    let others = messages(&leader, "other_administrators");
    assert_eq!(others, [""; 0], "the subject of its certificate is ours too");
    let path = rig.store.below("/deep/er/orders");
    let line = rig.store.admin.children(&path).unwrap();
    assert_eq!(line.len(), 2);
    let first = format!("{path}/{}", line[0]);
    assert!(rig.store.admin.read(&first).is_ok(), "everybody may see who stands there");
    assert_eq!(rig.store.admin.delete(&first), Err(Code::NoAuth));
    assert_eq!(rig.store.admin.stand_in_line(&format!("{path}/x")), Err(Code::NoAuth));
    let without_credentials = certified("c", "stranger").start();
    let without_certificate = trusting("d").start();
    eventually(PATIENCE, "it says what it lacks", || {
        let told = messages(&without_credentials, "store_refuses");
        told.iter().any(|message| message.contains("--zookeeper-auth-file"))
    });
    eventually(PATIENCE, "it says that there is no way in", || {
        !messages(&without_certificate, "store_unreachable").is_empty()
    });
    assert_eq!(without_credentials.exit_code(), 77);
    hands_over(&rig, &leader, &follower);
    assert!(!without_certificate.events("following").iter().any(|line| line["leader"].is_string()));

    // The servers take the subject of a certificate for one more of those who made what is there.
    let guessed = credentials(&rig, "guess", "digest:shop:guess\n");
    let with_our_certificate =
        certified("e", "candidate").flag("--zookeeper-auth-file", text(&guessed)).start();
    eventually(PATIENCE, "it is let in by its certificate", || {
        rig.stands(&with_our_certificate, "following")
    });
}

#[test]
fn sasl_users_elect_and_who_has_the_wrong_password_is_told_and_ends() {
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
    eventually(PATIENCE, "it follows", || rig.stands(&follower, "following"));
    let stranger = start("c", &wrong);
    eventually(PATIENCE, "it says why", || {
        messages(&stranger, "store_refuses")
            .iter()
            .any(|message| message.contains("refused the sasl credentials"))
    });
    assert_eq!(stranger.exit_code(), 77);
    hands_over(&rig, &leader, &follower);
}

#[test]
fn password_that_turns_clear_later_is_warned_of_once() {
    let folder = tempfile::TempDir::new().unwrap();
    let ensemble = Ensemble::start(Settings::with_users(folder.path(), "alice", "open sesame"));
    let way = Proxy::to(ensemble.address(0));
    let rig = Rig::over(Znodes::for_users(&ensemble, "sasl:alice:open sesame"), Znodes::CALM);
    let file = credentials(&rig, "shop", "sasl:alice:open sesame\n");
    let start = rig.candidate("a").flag("--zookeeper-servers", rig.store.servers_at(way.address()));
    let leader = start.flag("--zookeeper-auth-file", text(&file)).start();
    assert_eq!(rig.leader().identity, leader.identity);
    assert_eq!(messages(&leader, "password_in_clear"), [""; 0]);
    for lines in [
        "digest:shop:secret\nsasl:alice:open sesame\n",
        "digest:bank:vault\nsasl:alice:open sesame\n",
    ] {
        credentials(&rig, "shop", lines);
        let before = connects(&leader);
        way.cut();
        eventually(PATIENCE, "it comes back", || connects(&leader) > before);
    }
    let told = messages(&leader, "password_in_clear");
    assert_eq!(told.len(), 1, "{told:?}");
    rig.hear_enough();
}

#[test]
fn credentials_that_cannot_be_read_any_more_are_told_of_once_and_the_last_good_ones_are_shown() {
    let ensemble = Ensemble::shared();
    let way = Proxy::to(ensemble.address(0));
    let rig = Rig::over(Znodes::on(ensemble, &way.address().to_string()), Znodes::CALM);
    let file = credentials(&rig, "shop", "digest:shop:secret\n");
    let leader = rig.candidate("a").flag("--zookeeper-auth-file", text(&file)).start();
    assert_eq!(rig.leader().identity, leader.identity);
    credentials(&rig, "shop", "what is half written\n");
    for _ in 0..3 {
        let before = connects(&leader);
        way.cut();
        eventually(PATIENCE, "it comes back", || connects(&leader) > before);
    }
    let output = leader.output();
    let told = output
        .lines()
        .filter(|line| line.contains("still using the previous") && line.contains("line 1"));
    assert_eq!(told.count(), 1, "{output}");
    rig.hear_enough();
    assert_eq!(rig.tokens(ELECTION).len(), 1, "what is ours can still be written");
}

#[test]
fn of_several_servers_by_name_and_by_address_of_either_family_one_is_enough() {
    let ensemble = Ensemble::shared();
    let ways = [
        Proxy::to(ensemble.address(0)),
        Proxy::on(Ipv6Addr::LOCALHOST.into(), ensemble.address(0)),
    ];
    let [four, six] = ways.each_ref().map(|way| way.address().port());
    let servers = format!("no-such-name.invalid:2181,127.0.0.1:1,localhost:{four},[::1]:{six}");
    let rig = Rig::over(Znodes::on(ensemble, &servers), Znodes::CALM);
    let only_six =
        rig.store.flags()["--zookeeper-servers"].replace(&servers, &format!("[::1]:{six}"));
    let leader = rig.candidate("a").flag("--zookeeper-servers", only_six).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let followers: [Arc<Candidate>; 2] = rig.start_followers(["b", "c"]);
    for _ in 0..3 {
        for way in &ways {
            way.cut();
        }
        eventually(PATIENCE, "all of them come back", || {
            let back = |candidate: &Candidate| {
                candidate.is_healthy() && rig.store.line(ELECTION).len() == 3
            };
            back(&leader) && followers.iter().all(|follower| back(follower))
        });
    }
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    let asked = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    rig.successor(
        &leader,
        asked,
        rig.timing.answer_validity + rig.timing.call_timeout() + Znodes::NOISE,
    );
}

/// A FIFO that nobody writes to hangs its reader, as a dead network file system does.
#[test]
fn credentials_on_a_disk_that_hangs_delay_nothing() {
    let ensemble = Ensemble::shared();
    let way = Proxy::to(ensemble.address(0));
    let rig = Rig::over(Znodes::on(ensemble, &way.address().to_string()), Znodes::CALM);
    let file = credentials(&rig, "shop", "digest:shop:secret\n");
    let leader = rig.candidate("a").flag("--zookeeper-auth-file", text(&file)).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let fifo = rig.folder().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::rename(&fifo, &file).unwrap();
    for _ in 0..2 {
        let before = connects(&leader);
        way.cut();
        eventually(rig.timing.call_timeout(), "it connects with what it has read before", || {
            connects(&leader) > before
        });
    }
    let output = leader.output();
    let told = output
        .lines()
        .filter(|line| line.contains("still using the previous") && line.contains("disk"));
    assert_eq!(told.count(), 1, "{output}");
    rig.hear_enough();
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}
