//! Answers by a gateway in front of the API server: none of them says anything about the Lease.

use crate::rig::{
    Candidate, ELECTION, Gateway, Leases, Page, Rig, Store as _, eventually, throughout,
};
use hyper::Method;
use serde_json::json;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Responses of load balancers and similar gateways. The last is a truncated Lease.
const PAGES: [Page; 12] = [
    Page::new(400, "<html><h1>400 Bad Request</h1></html>"),
    Page::new(404, "<html><h1>404 Not Found</h1></html>"),
    Page::new(
        404,
        r#"{"kind": "Status", "status": "Failure", "message": "no such route", "code": 404}"#,
    ),
    Page::new(409, "conflict"),
    Page::new(422, r#"{"error": "metadata.resourceVersion"}"#),
    Page::new(
        429,
        r#"{"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429}"#,
    ),
    Page::new(500, ""),
    Page::new(503, "<html><h1>503 Service Unavailable</h1></html>"),
    Page::new(504, r#"{"kind": "Status", "status": "Failure", "reason": "Timeout", "code": 504}"#),
    Page::new(200, "<html><h1>Welcome!</h1></html>"),
    Page::new(200, "{}"),
    Page {
        code: 200,
        body: r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "#,
        is_cut: true,
    },
];

fn start(rig: &Rig<Leases>, gateway: &Gateway, name: &str) -> Arc<Candidate> {
    rig.candidate(name).by(&rig.store.account.access.at("behind", &gateway.url())).start()
}

#[test]
fn gateway_pages_do_not_decide_the_outcome() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let gateway = Gateway::before(&rig.store.namespace.admin);
    let leader = start(&rig, &gateway, "leader");
    assert_eq!(rig.leader().identity, leader.identity);
    let follower = start(&rig, &gateway, "follower");
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    for page in PAGES {
        let renewed = rig.store.written(ELECTION);
        let answered = gateway.answered();
        gateway.answer(None, page);
        eventually(PATIENCE, "the gateway answers", || gateway.answered() >= answered + 2);
        assert!(leader.is_healthy() && follower.is_healthy(), "{page:?}");
        gateway.pass();
        eventually(PATIENCE, "it renews", || rig.store.written(ELECTION) > renewed);
        assert!(rig.holds(&leader), "{page:?}");
    }
    assert_eq!(rig.tokens(ELECTION).len(), 1, "there was one term");
    let events = leader.events("store_refuses");
    let is_refused = events.iter().any(|event| event["message"].to_string().contains("refuses"));
    assert!(!events.is_empty() && !is_refused, "a page is not a refusal: {events:?}");
}

/// A renewal conflicts with an edit, and the read that follows receives a page.
#[test]
fn page_for_404_is_not_a_deleted_lease() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let gateway = Gateway::before(&rig.store.namespace.admin);
    // Without a watch, the candidate learns of the edit only from the conflict.
    let account =
        rig.store.namespace.account_that_may(&["get", "create", "update"], "blind", &[ELECTION]);
    let leader = rig.candidate("leader").by(&account.access.at("behind", &gateway.url())).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let reads = || {
        let series = format!(
            "baton_store_requests_total{{election=\"{ELECTION}\",outcome=\"unknown\",verb=\"read\"}}"
        );
        leader.metric(&series)
    };
    assert_eq!(reads(), Some(0.0));
    gateway.answer(Some(Method::GET), Page::new(404, "<html><h1>404 Not Found</h1></html>"));
    let edit = json!({ "metadata": { "labels": { "edit": "one" } } });
    rig.store.namespace.admin.patch(ELECTION, &edit).expect("the administrator may");
    eventually(PATIENCE, "it receives the page", || !leader.is_alive() || reads() > Some(0.0));
    gateway.pass();
    throughout(rig.timing.renew_deadline, "it keeps leading", || {
        leader.is_healthy() && rig.holds(&leader)
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1, "there was one term");
}

#[test]
fn candidate_that_a_gateway_refuses_ends_with_77() {
    let rig = Rig::over(Leases::fresh(), Leases::FAST);
    // An unaffected candidate, since the checker needs answers.
    rig.start_leader("leader");
    let gateway = Gateway::before(&rig.store.namespace.admin);
    // There is no code in the body of oauth2-proxy's answer, for example.
    gateway.answer(None, Page::new(403, r#"{"error": "access denied"}"#));
    let refused = start(&rig, &gateway, "refused");
    eventually(PATIENCE, "it ends", || !refused.is_alive());
    assert_eq!(refused.exit_code(), 77);
    let message = refused.events("store_refuses")[0]["message"].to_string();
    assert!(message.contains("(403)") && message.contains("access denied"), "{message}");
    assert!(!message.contains("kind: Role"), "a Role would not help: {message}");
}

#[test]
fn status_401_without_a_code_in_the_body_renews_credentials() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let gateway = Gateway::before(&rig.store.namespace.admin);
    let (access, runs) = (&rig.store.account.access, rig.folder().join("runs"));
    let credential =
        json!({ "kind": "ExecCredential", "status": { "token": rig.store.account.token } });
    let script = format!("echo run >> {}; echo '{credential}'", runs.display());
    let program = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script], "interactiveMode": "Never",
    } });
    let leader = rig
        .candidate("leader")
        .by(&access.at("behind", &gateway.url()).identified_by("program", program))
        .start();
    assert_eq!(rig.leader().identity, leader.identity);
    let run_count = || fs::read_to_string(&runs).expect("it ran").lines().count();
    assert_eq!(run_count(), 1, "it runs only once at the start");
    gateway.answer(None, Page::new(401, r#"{"error": "who are you?"}"#));
    eventually(PATIENCE, "it runs again", || run_count() > 1);
    gateway.pass();
    throughout(rig.timing.renew_deadline, "it keeps leading", || {
        leader.is_healthy() && rig.holds(&leader)
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1, "there was one term");
}
