//! By what a candidate is let in: whatever a kubeconfig can name, and what a Pod has; and how it goes on when that is
//! replaced while it lives.

use crate::rig::{
    ApiServer, ELECTION, Leases, Pod, Proxy, Rig, Store as _, Timing, eventually, throughout,
};
use serde_json::{Value, json};
use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const PATIENCE: Duration = Duration::from_secs(30);

/// How long an API server may go on to take a token that was taken back: it remembers what it found out for ten seconds.
const REVOKED: Duration = Duration::from_secs(15);

/// How long a token is still good that ends [`soon`], so that its bearer can lead and be followed before.
const TERM: Duration = Duration::from_secs(8);

/// How long an API server may take a token that ends soon.
const ENDED: Duration = Duration::from_secs(TERM.as_secs() + REVOKED.as_secs());

/// Slack for that, and for a new token to be found.
const PATIENT: Timing = Timing::of_ms(60_000, 45_000, 1000, 1000);

/// The user of a kubeconfig who has a program print a token, as `aws eks get-token` and its like do.
fn printed(folder: &Path) -> Value {
    let credential = folder.join("credential");
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [credential],
        "interactiveMode": "Never",
    } })
}

fn print(folder: &Path, token: &str) {
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": { "token": token },
    });
    replace(&folder.join("credential"), &credential.to_string());
}

/// The user of a kubeconfig whose token is in a file.
fn filed(folder: &Path) -> Value {
    json!({ "tokenFile": folder.join("token") })
}

/// A line, as `kubectl create token` writes one.
fn file(folder: &Path, token: &str) {
    replace(&folder.join("token"), &format!("{token}\n"));
}

fn replace(path: &Path, content: &str) {
    let draft: PathBuf = path.with_extension("draft");
    fs::write(&draft, content).expect("the folder is ours");
    fs::rename(draft, path).expect("the folder is ours");
}

#[test]
fn a_kubeconfig_may_name_a_certificate_a_token_a_file_or_a_program() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let (account, admin) = (&rig.store.account, &rig.store.namespace.admin);
    file(rig.folder(), &account.token);
    print(rig.folder(), &account.token);
    let certified = rig.folder().join("certified");
    fs::create_dir(&certified).expect("the folder is ours");
    let key = |name: &str| {
        fs::read_to_string(admin.kubeconfig().with_file_name(name)).expect("it was issued")
    };
    let status =
        json!({ "clientCertificateData": key("admin.crt"), "clientKeyData": key("admin.key") });
    replace(
        &certified.join("credential"),
        &json!({ "kind": "ExecCredential", "status": status }).to_string(),
    );
    let line = json!({ "token": format!("{}\n", account.token) });
    for (name, access) in [
        ("certificate", admin.clone()),
        ("token", account.access.clone()),
        ("line", account.access.identified_by("line", line)),
        ("file", account.access.identified_by("file", filed(rig.folder()))),
        ("program", account.access.identified_by("program", printed(rig.folder()))),
        ("certifier", account.access.identified_by("certifier", printed(&certified))),
    ] {
        let candidate = rig.candidate(name).by(&access).start();
        assert_eq!(rig.leader().identity, candidate.identity, "{name}");
        rig.hear_enough();
        candidate.terminate();
        assert_eq!(candidate.exit_code(), 0);
    }
}

#[test]
fn a_pod_needs_nothing_but_what_kubernetes_gives_it_and_asks_no_resolver() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let account = &rig.store.account;
    let server = ApiServer::shared().address();
    let over_ipv6 = Proxy::on(Ipv6Addr::LOCALHOST.into(), server);
    let pods = [Pod::of(account, server), Pod::of(account, over_ipv6.address())];
    let leader = rig.candidate("first").within(&pods[0]).start();
    assert_eq!(rig.leader().identity, leader.identity);
    assert!(
        leader.identity.starts_with("first_"),
        "{} is not named after its Pod",
        leader.identity
    );
    let place = format!("Lease {}/{ELECTION}", rig.store.namespace.name);
    assert_eq!(leader.events("starting")[0]["place"], *place, "the namespace is the mounted one");
    let successor = rig.candidate("second").within(&pods[1]).start();
    eventually(PATIENCE, "it follows over IPv6", || rig.stands(&successor, "following"));

    // A name would have to be resolved, and nobody is there to do it.
    let waiting = Pod::of(account, server).named("localhost");
    let waiting = rig.candidate("waiting").within(&waiting).start();
    eventually(PATIENCE, "it waits for a resolver", || {
        !waiting.events("store_unreachable").is_empty()
    });
    let told = waiting.events("store_unreachable")[0]["message"].to_string();
    assert!(told.contains("did not answer within"), "{told}");
    assert_eq!(waiting.probe("/readyz"), 503);

    let stopped = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, stopped, rig.timing.takeover() + Leases::NOISE);
    assert_eq!(new.identity, successor.identity);
}

#[test]
fn a_token_that_kubelet_replaces_is_used_before_the_old_one_ends() {
    // Its own: it counts whom it refuses, and a 401 is cured by itself.
    let server = ApiServer::start();
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let account = &rig.store.account;
    let pod = Pod::of(account, server.address());
    let (old, new) = (account.another_token(), account.another_token());
    pod.mount(&old.text, account);
    let leader = rig.candidate("leader").within(&pod).start();
    assert_eq!(rig.leader().identity, leader.identity);
    pod.mount(&new.text, account);
    let renewed = rig.store.written(ELECTION);
    eventually(PATIENCE, "it renews twice", || {
        rig.store.written(ELECTION) > renewed + 2 * rig.timing.retry_period
    });
    old.revoke();
    let refused = server.refused_credentials();
    throughout(REVOKED, "it leads on", || leader.is_healthy() && rig.holds(&leader));
    assert_eq!(
        server.refused_credentials(),
        refused,
        "the old token was used after the new one was there"
    );
    let access = account.access.identified_by("old", json!({ "token": old.text }));
    assert!(
        access.lease(ELECTION).is_err() && server.refused_credentials() > refused,
        "a token that is refused counts"
    );
}

/// A leader whose token ends, and who is given another within its slack.
fn ends_and_is_replaced(user: fn(&Path) -> Value, give: fn(&Path, &str)) {
    let rig = Rig::over(Leases::fresh(), PATIENT);
    let account = &rig.store.account;
    give(rig.folder(), &account.token_until(soon()));
    let access = account.access.identified_by("renewed", user(rig.folder()));
    let leader = rig.candidate("leader").by(&access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(ENDED, "it is refused", || !leader.events("store_refuses").is_empty());
    let told = leader.events("store_refuses")[0]["message"].to_string();
    assert!(told.contains("(401)"), "{told}");
    give(rig.folder(), &account.token);
    eventually(PATIENCE, "it is let in again", || !leader.events("store_back").is_empty());
    assert!(leader.is_healthy() && rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1, "one term all along");
}

#[test]
fn a_token_file_that_is_replaced_after_its_end_costs_no_term() {
    ends_and_is_replaced(filed, file);
}

#[test]
fn a_program_is_asked_anew_when_what_it_gave_has_ended() {
    ends_and_is_replaced(printed, print);
}

#[test]
fn a_token_that_ends_and_that_nobody_replaces_costs_the_leader_its_term_and_lets_another_lead() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let account = &rig.store.account;
    file(rig.folder(), &account.token_until(soon()));
    let access = account.access.identified_by("ended", filed(rig.folder()));
    let leader = rig.candidate("leader").by(&access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let [follower] = rig.start_followers(["follower"]);
    eventually(ENDED, "it is refused", || !leader.events("store_refuses").is_empty());
    let refused = rig.now();
    leader.loses(rig.timing.renew_deadline + Leases::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    let (new, _) = rig.successor(
        &leader,
        refused,
        rig.timing.lease_duration + rig.timing.takeover() + Leases::NOISE,
    );
    assert_eq!(new.identity, follower.identity);
}

/// A program that asks a cloud, which is unavailable at first.
#[test]
fn program_that_fails_at_the_start_is_run_again() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let account = &rig.store.account;
    let access = account.access.identified_by("failing", printed(rig.folder()));
    let candidate = rig.candidate("waiting").by(&access).start();
    eventually(PATIENCE, "it says what is missing", || {
        !candidate.events("store_unreachable").is_empty()
    });
    let told = candidate.events("store_unreachable")[0]["message"].to_string();
    assert!(told.contains("cat ended with") && told.contains("No such file"), "{told}");
    throughout(2 * rig.timing.lease_duration, "it waits", || {
        candidate.is_healthy() && candidate.probe("/readyz") == 503
    });
    print(rig.folder(), &account.token);
    assert_eq!(rig.leader().identity, candidate.identity);
    rig.hear_enough();
}

/// When a token has to say that it ends, for a test to see it: the API server takes it for a minute longer.
fn soon() -> SystemTime {
    SystemTime::now() - Duration::from_mins(1) + TERM
}
