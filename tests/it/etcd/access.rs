//! Users, roles, and tokens; and endpoints that are not what they should be.

use super::PATIENCE;
use crate::rig::{
    Candidate, ELECTION, Etcd, EtcdKeys, EtcdSettings, Rig, Store as _, Timing, eventually, pair,
    throughout,
};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// An etcd with a user whose role is limited to the prefix of a rig.
struct Guarded {
    etcd: Etcd,
    rig: Rig<EtcdKeys>,
}

impl Guarded {
    fn start(flags: &[&str]) -> Self {
        let etcd = Etcd::start(EtcdSettings { is_opaque: true, ..EtcdSettings::with_flags(flags) });
        let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::FAST);
        let guarded = Self { etcd, rig };
        let prefix = format!("{}/", guarded.rig.store.prefix());
        for order in [
            &["user", "add", "root:root"][..],
            &["role", "add", "root"],
            &["user", "grant-role", "root", "root"],
            &["role", "add", "elections"],
            &["role", "grant-permission", "--prefix=true", "elections", "readwrite", &prefix],
            &["user", "add", "shop:s3:cret"],
            &["user", "grant-role", "shop", "elections"],
            &["user", "add", "stranger:stranger"],
            &["auth", "enable"],
        ] {
            guarded.etcd.etcdctl(order);
        }
        guarded
    }

    fn as_root(&self, order: &[&str]) -> String {
        self.etcd.etcdctl(&[&["--user=root:root"], order].concat())
    }

    fn user_file(&self, text: &str) -> PathBuf {
        let file = self.rig.folder().join(text.replace(':', "-"));
        fs::write(&file, text).expect("the folder is ours");
        file
    }

    fn start_as(&self, name: &str, user: &str) -> Arc<Candidate> {
        let file = self.user_file(user);
        self.rig.candidate(name).flag("--etcd-user-file", file.to_str().unwrap()).start()
    }

    /// Waits, and requires one term.
    fn assert_one_term(&self, leader: &Candidate, follower: &Candidate, for_: Duration) {
        throughout(for_, "both are healthy", || leader.is_healthy() && follower.is_healthy());
        assert_eq!(self.rig.tokens(ELECTION).len(), 1);
        assert_eq!(leader.events("store_unreachable").len(), 0, "{}", leader.output());
    }
}

/// A simple token expires three seconds after its last use. The leader uses its token at each
/// renewal, but the follower only watches, so its token expires.
#[test]
fn expired_tokens_are_renewed() {
    let guarded = Guarded::start(&["--auth-token-ttl=3"]);
    let leader = guarded.start_as("leader", "shop:s3:cret");
    assert_eq!(guarded.rig.leader().identity, leader.identity);
    let follower = guarded.start_as("follower", "shop:s3:cret");
    eventually(PATIENCE, "it follows", || guarded.rig.has_standing(&follower, "following"));
    guarded.assert_one_term(&leader, &follower, Duration::from_secs(10));
    // The follower's token has expired.
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = guarded.rig.successor(&leader, guarded.rig.now(), EtcdKeys::NOISE);
    assert_eq!(new.identity, follower.identity);
    assert!(new.events("store_refuses").is_empty(), "{}", new.output());
}

/// A JWT is bound to a revision of the users, which any change of a user advances.
#[test]
fn changed_users_cost_no_term() {
    let keys = tempfile::tempdir().unwrap();
    pair(keys.path(), "token");
    let at = |name: &str| keys.path().join(name).display().to_string();
    let (public, private) = (at("token.pub"), at("token.key"));
    let token =
        format!("--auth-token=jwt,pub-key={public},priv-key={private},sign-method=ES256,ttl=10m");
    let guarded = Guarded::start(&[&token]);
    let leader = guarded.start_as("leader", "shop:s3:cret");
    assert_eq!(guarded.rig.leader().identity, leader.identity);
    let follower = guarded.start_as("follower", "shop:s3:cret");
    eventually(PATIENCE, "it follows", || guarded.rig.has_standing(&follower, "following"));
    for number in 0..3 {
        guarded.as_root(&["user", "add", &format!("another-{number}:x")]);
        guarded.assert_one_term(&leader, &follower, 2 * guarded.rig.timing.retry_period);
    }
}

/// An operator changes the password, and then the file.
#[test]
fn changed_password_is_read_from_the_file() {
    let guarded = Guarded::start(&["--auth-token-ttl=1"]);
    let file = guarded.user_file("shop:s3:cret");
    let leader = guarded.start_as("leader", "shop:s3:cret");
    assert_eq!(guarded.rig.leader().identity, leader.identity);
    let passwd = ["--user=root:root", "user", "passwd", "shop", "--interactive=false"];
    guarded.etcd.etcdctl_with_input(&passwd, "new\n");
    fs::write(&file, "shop:new").unwrap();
    throughout(2 * guarded.rig.timing.renew_deadline, "it leads", || leader.is_healthy());
    assert_eq!(guarded.rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("store_unreachable").len(), 0, "{}", leader.output());
}

#[test]
fn refused_candidate_says_why_and_ends_with_77() {
    let guarded = Guarded::start(&[]);
    let wrong = guarded.start_as("wrong", "shop:wrong");
    let stranger = guarded.start_as("stranger", "stranger:stranger");
    let nobody = guarded.rig.start("nobody");
    for (candidate, cause) in [
        (wrong, "etcd refused the user and password in --etcd-user-file"),
        (stranger, "the user needs readwrite on the election's keys"),
        (nobody, "pass --etcd-user-file"),
    ] {
        assert_eq!(candidate.exit_code(), 77, "{}", candidate.output());
        let events = candidate.events("store_refuses");
        let is_named = events.iter().any(|event| event["message"].to_string().contains(cause));
        assert!(is_named, "{}", candidate.output());
        for secret in ["s3:cret", "shop:wrong"] {
            assert!(!candidate.output().contains(secret), "{}", candidate.output());
        }
    }
    // Enough answers for the check of the history.
    let leader = guarded.start_as("leader", "shop:s3:cret");
    assert_eq!(guarded.rig.leader().identity, leader.identity);
    guarded.rig.wait_for_answers();
}

/// The user is configured before the administrator turns authentication on.
#[test]
fn authentication_is_turned_on_under_a_leader() {
    let etcd = Etcd::start(EtcdSettings { is_opaque: true, ..EtcdSettings::default() });
    let rig = Rig::over(EtcdKeys::on(&etcd), EtcdKeys::FAST);
    let file = rig.folder().join("user");
    fs::write(&file, "root:root\n").unwrap();
    let leader = rig.candidate("leader").flag("--etcd-user-file", file.to_str().unwrap()).start();
    assert_eq!(rig.leader().identity, leader.identity);
    for order in [
        &["user", "add", "root:root"][..],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        etcd.etcdctl(order);
    }
    throughout(2 * rig.timing.renew_deadline, "it leads", || leader.is_healthy());
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

#[test]
fn endpoint_without_a_gateway_is_named() {
    let etcd = Etcd::start(EtcdSettings {
        is_opaque: true,
        ..EtcdSettings::with_flags(&["--enable-grpc-gateway=false"])
    });
    let shared = Etcd::shared();
    let rig = Rig::over(EtcdKeys::on(shared), EtcdKeys::FAST);
    let candidate = rig.candidate("lost").flag("--etcd-endpoints", etcd.url(0)).start();
    assert_eq!(candidate.exit_code(), 77, "{}", candidate.output());
    assert!(candidate.output().contains("--enable-grpc-gateway=false"), "{}", candidate.output());
    rig.start_leader("leader");
    rig.wait_for_answers();
}

/// etcd may serve HTTP on another port. Then the client port speaks only gRPC.
#[test]
fn port_without_http_is_named() {
    let other = Etcd::shared();
    let rig = Rig::over(EtcdKeys::on(other), EtcdKeys::FAST);
    let http = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let flag = format!("--listen-client-http-urls=http://{http}");
    let etcd = Etcd::start(EtcdSettings { is_opaque: true, ..EtcdSettings::with_flags(&[&flag]) });
    let candidate = rig.candidate("lost").flag("--etcd-endpoints", etcd.url(0)).start();
    eventually(PATIENCE, "it names the cause", || {
        candidate.output().contains("--listen-client-http-urls")
    });
    let url = format!("http://{http}");
    let found = rig.candidate("found").flag("--etcd-endpoints", url).start();
    assert_eq!(rig.leader().identity, found.identity);
    rig.wait_for_answers();
}

/// Without TLS, etcd may serve some host names only.
#[test]
fn host_that_etcd_does_not_serve_is_named() {
    let etcd = Etcd::start(EtcdSettings {
        is_opaque: true,
        ..EtcdSettings::with_flags(&["--host-whitelist=etcd.example"])
    });
    let rig = Rig::over(EtcdKeys::fresh(), EtcdKeys::FAST);
    let candidate = rig.candidate("lost").flag("--etcd-endpoints", etcd.url(0)).start();
    assert_eq!(candidate.exit_code(), 77, "{}", candidate.output());
    assert!(candidate.output().contains("--host-whitelist"), "{}", candidate.output());
    rig.start_leader("leader");
    rig.wait_for_answers();
}

/// Two clusters, and their URLs in one list.
fn two_clusters() -> ([Etcd; 2], String) {
    let clusters = ["one", "two"].map(|token| {
        let flag = format!("--initial-cluster-token={token}");
        Etcd::start(EtcdSettings::with_flags(&[&flag]))
    });
    let both = clusters.each_ref().map(|cluster| cluster.url(0)).join(",");
    (clusters, both)
}

/// Two clusters would hold two elections, with a leader each.
#[test]
fn endpoints_of_two_clusters_are_refused_at_the_start() {
    let ([first, second], both) = two_clusters();
    let rig = Rig::over(EtcdKeys::on(&first), EtcdKeys::FAST);
    let turned = [second.url(0), first.url(0)].join(",");
    for (name, endpoints, other) in [("one", both, &second), ("two", turned, &first)] {
        let lost = rig.candidate(name).flag("--etcd-endpoints", &endpoints);
        let (code, output) = lost.ends();
        assert_eq!(code, 2, "{output}");
        let named = format!("{} belongs to another cluster", other.url(0));
        assert!(output.contains(&named), "{output}");
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_baton"));
        doctor.env_clear().args(["doctor", "--election", ELECTION, "--backend", "etcd"]);
        let doctor = doctor.args(["--etcd-endpoints", &endpoints]).output().unwrap();
        assert_eq!(doctor.status.code(), Some(2));
        let lines = String::from_utf8(doctor.stdout).unwrap();
        assert!(lines.contains(&named), "{lines}");
    }
    let key = rig.store.record_key(ELECTION);
    for cluster in [&first, &second] {
        assert_eq!(cluster.admin().read(&key), None, "nothing was written");
    }
    rig.start_leader("leader");
    rig.wait_for_answers();
}

/// The listeners wait for the comparison of the endpoints, and kubelet waits for the listeners. At
/// these durations, half the time limit of a call is twelve seconds.
#[test]
fn silent_endpoint_delays_the_start_by_seconds_only() {
    let mut silent = Etcd::start(EtcdSettings::default());
    silent.member(0).server.pause();
    let shared = Etcd::shared();
    let endpoints = [silent.url(0), shared.url(0)].join(",");
    let patient = Timing::of_ms(120_000, 90_000, 20_000, 1000);
    let rig = Rig::over(EtcdKeys::at(shared, &endpoints), patient);
    // The rig waits ten seconds for the listeners.
    rig.start("candidate");
    rig.wait_for_answers();
}

/// An endpoint that is down when a candidate starts is compared when it answers.
#[test]
fn cluster_that_answers_later_is_refused() {
    let ([mut first, mut second], both) = two_clusters();
    let rig = Rig::over(EtcdKeys::at(&first, &both), EtcdKeys::FAST);
    second.member(0).server.kill();
    let leader = rig.start_leader("leader");
    second.member(0).server.restart();
    second.await_serving();
    first.member(0).server.kill();
    leader.loses(rig.timing.renew_deadline + EtcdKeys::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    assert!(leader.output().contains("another cluster"), "{}", leader.output());
    let key = rig.store.record_key(ELECTION);
    assert_eq!(second.admin().read(&key), None, "nothing was written there");
}
