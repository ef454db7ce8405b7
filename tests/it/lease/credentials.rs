//! Credentials of every kind that a kubeconfig or a Pod can have, and their replacement while the
//! candidate runs.

use crate::rig::{
    ApiServer, ELECTION, Leases, Pod, Proxy, Rig, Store as _, Timing, eventually, throughout,
};
use serde_json::{Value, json};
use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const PATIENCE: Duration = Duration::from_secs(30);

/// How long an API server may accept a revoked token: it caches its validity for ten seconds.
const REVOCATION_DELAY: Duration = Duration::from_secs(15);

/// How long a token that expires [`soon`] is still accepted: enough to lead and to be followed.
const GRACE: Duration = Duration::from_secs(8);

/// How long an API server may accept such a token, cache included.
const EXPIRY_NOTICED: Duration = Duration::from_secs(GRACE.as_secs() + REVOCATION_DELAY.as_secs());

/// Time for that, and for a candidate to find a new token.
const PATIENT: Timing = Timing::of_ms(60_000, 45_000, 1000, 1000);

/// A kubeconfig user with a program that prints a token, as `aws eks get-token` does.
fn exec_user(folder: &Path) -> Value {
    let credential = folder.join("credential");
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [credential],
        "interactiveMode": "Never",
    } })
}

fn write_exec_credential(folder: &Path, token: &str) {
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": { "token": token },
    });
    replace(&folder.join("credential"), &credential.to_string());
}

/// A kubeconfig user whose token is in a file.
fn token_file_user(folder: &Path) -> Value {
    json!({ "tokenFile": folder.join("token") })
}

/// Writes the token with a newline, as `kubectl create token` prints it.
fn write_token_file(folder: &Path, token: &str) {
    replace(&folder.join("token"), &format!("{token}\n"));
}

fn replace(path: &Path, content: &str) {
    let draft: PathBuf = path.with_extension("draft");
    fs::write(&draft, content).expect("the folder is ours");
    fs::rename(draft, path).expect("the folder is ours");
}

#[test]
fn kubeconfig_may_name_a_certificate_token_file_or_program() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let (account, admin) = (&rig.store.account, &rig.store.namespace.admin);
    write_token_file(rig.folder(), &account.token);
    write_exec_credential(rig.folder(), &account.token);
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
        ("file", account.access.identified_by("file", token_file_user(rig.folder()))),
        ("program", account.access.identified_by("program", exec_user(rig.folder()))),
        ("certifier", account.access.identified_by("certifier", exec_user(&certified))),
    ] {
        let candidate = rig.candidate(name).by(&access).start();
        assert_eq!(rig.leader().identity, candidate.identity, "{name}");
        rig.wait_for_answers();
        candidate.terminate();
        assert_eq!(candidate.exit_code(), 0);
    }
}

#[test]
fn pod_needs_only_its_service_account_and_no_resolver() {
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
    let lease = format!("Lease {}/{ELECTION}", rig.store.namespace.name);
    assert_eq!(leader.events("starting")[0]["place"], *lease, "the namespace is the mounted one");
    let successor = rig.candidate("second").within(&pods[1]).start();
    eventually(PATIENCE, "it follows over IPv6", || rig.has_standing(&successor, "following"));

    // A host name needs a resolver, and the Pod's never answers.
    let waiting = Pod::of(account, server).named("localhost");
    let waiting = rig.candidate("waiting").within(&waiting).start();
    eventually(PATIENCE, "it waits for a resolver", || {
        !waiting.events("store_unreachable").is_empty()
    });
    let message = waiting.events("store_unreachable")[0]["message"].to_string();
    assert!(message.contains("did not answer within"), "{message}");
    assert_eq!(waiting.probe("/readyz"), 503);

    let stopped = leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let (new, _) = rig.successor(&leader, stopped, rig.timing.takeover() + Leases::NOISE);
    assert_eq!(new.identity, successor.identity);
}

#[test]
fn token_that_kubelet_replaces_is_used_before_the_old_ends() {
    // A server of its own: the test counts rejected tokens, and a candidate recovers from a 401.
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
    throughout(REVOCATION_DELAY, "it keeps leading", || leader.is_healthy() && rig.holds(&leader));
    assert_eq!(
        server.refused_credentials(),
        refused,
        "the old token was used after the new one was mounted"
    );
    let access = account.access.identified_by("old", json!({ "token": old.text }));
    assert!(
        access.lease(ELECTION).is_err() && server.refused_credentials() > refused,
        "a rejected token is counted"
    );
}

/// A leader whose token expires, and which receives another before its renew deadline.
fn expired_credential_is_replaced(user: fn(&Path) -> Value, give: fn(&Path, &str)) {
    let rig = Rig::over(Leases::fresh(), PATIENT);
    let account = &rig.store.account;
    give(rig.folder(), &account.token_until(soon()));
    let access = account.access.identified_by("renewed", user(rig.folder()));
    let leader = rig.candidate("leader").by(&access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(EXPIRY_NOTICED, "its token is rejected", || {
        !leader.events("store_refuses").is_empty()
    });
    let message = leader.events("store_refuses")[0]["message"].to_string();
    assert!(message.contains("(401)"), "{message}");
    give(rig.folder(), &account.token);
    eventually(PATIENCE, "it is admitted again", || !leader.events("store_back").is_empty());
    assert!(leader.is_healthy() && rig.holds(&leader));
    assert_eq!(rig.tokens(ELECTION).len(), 1, "there was one term");
}

#[test]
fn token_file_replaced_after_its_expiry_costs_no_term() {
    expired_credential_is_replaced(token_file_user, write_token_file);
}

#[test]
fn credential_program_runs_again_when_its_token_expires() {
    expired_credential_is_replaced(exec_user, write_exec_credential);
}

#[test]
fn leader_whose_token_expires_is_succeeded() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let account = &rig.store.account;
    write_token_file(rig.folder(), &account.token_until(soon()));
    let access = account.access.identified_by("ended", token_file_user(rig.folder()));
    let leader = rig.candidate("leader").by(&access).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let [follower] = rig.start_followers(["follower"]);
    eventually(EXPIRY_NOTICED, "its token is rejected", || {
        !leader.events("store_refuses").is_empty()
    });
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

/// The program asks a cloud that is unavailable at first.
#[test]
fn credential_program_that_fails_at_the_start_runs_again() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let account = &rig.store.account;
    let access = account.access.identified_by("failing", exec_user(rig.folder()));
    let candidate = rig.candidate("waiting").by(&access).start();
    eventually(PATIENCE, "it logs what is missing", || {
        !candidate.events("store_unreachable").is_empty()
    });
    let message = candidate.events("store_unreachable")[0]["message"].to_string();
    assert!(message.contains("cat ended with") && message.contains("No such file"), "{message}");
    throughout(2 * rig.timing.lease_duration, "it waits", || {
        candidate.is_healthy() && candidate.probe("/readyz") == 503
    });
    write_exec_credential(rig.folder(), &account.token);
    assert_eq!(rig.leader().identity, candidate.identity);
    rig.wait_for_answers();
}

/// The expiry of a token that ends during a test: the API server accepts it for a minute longer.
fn soon() -> SystemTime {
    SystemTime::now() - Duration::from_mins(1) + GRACE
}
