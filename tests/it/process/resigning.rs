//! Leaders that give up on purpose: `/resign`, `/done`, and `/stopping` without a SIGTERM.

use crate::rig::{Candidate, ELECTION, Rig, Store, eventually, over_every_store, throughout};
use crate::rig::{Timing, wait_for};
use serde_json::Value;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How soon another candidate leads after a release: docs/concepts/guarantees.md.
const AFTER_A_RELEASE: Duration = Duration::from_millis(100);

over_every_store! {
    resigned_leader_hands_over_and_names_its_successor,
    resigned_leader_campaigns_again_after_the_hold_off,
    withdrawal_without_a_signal_expires,
    poll_does_not_end_a_withdrawal_for_a_stop,
    last_worker_that_is_done_releases_at_once,
}

/// Starts a leader whose application is declared to ask.
fn declared_leader<S: Store>(rig: &Rig<S>) -> Arc<Candidate> {
    let leader = rig.candidate("a").flag("--on-lost", "stay").start();
    rig.leader();
    leader
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(text)))
}

fn resigned_leader_hands_over_and_names_its_successor<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW);
    let old = declared_leader(&rig);
    let [new] = rig.start_followers(["b"]);
    let token = old.ask().body;
    let asked = rig.now();
    let resigned = old.baton("resign");
    assert!(resigned.status.success(), "{resigned:?}");
    rig.successor(&old, asked, rig.timing.answer_validity + AFTER_A_RELEASE + S::NOISE);
    let answer = json(&resigned.stdout);
    assert_eq!(answer["released"], true);
    assert_eq!(answer["token"], json(token.as_bytes())["token"]);
    assert_eq!(answer["successor"], *new.identity, "{answer}");
    assert_eq!(answer["successor_name"], "b");
    let logged = wait_for(S::NOISE, "it logs the end", || old.events("resigned").pop());
    assert_eq!(logged["reason"], "resigned");
    assert_eq!(old.baton("resign").status.code(), Some(1), "it does not lead any more");
    assert!(old.is_healthy());
}

fn resigned_leader_campaigns_again_after_the_hold_off<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let only = declared_leader(&rig);
    // The answer waits three retry periods for a successor.
    let hold_off = 5 * rig.timing.retry_period;
    let asked = rig.now();
    let resigned = only.baton(&format!("resign --hold-off {hold_off:?}"));
    assert!(resigned.status.success(), "{resigned:?}");
    assert_eq!(json(&resigned.stdout)["successor"], Value::Null);
    let led = wait_for(hold_off + rig.timing.retry_period + S::NOISE, "it leads again", || {
        rig.has_standing(&only, "leading").then(|| rig.now())
    });
    assert!(led.since(asked) >= hold_off, "it led again after {:?}", led.since(asked));
}

fn withdrawal_without_a_signal_expires<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let limit = 3 * rig.timing.retry_period;
    let leader = rig.candidate("a").flag("--stopping-limit", format!("{limit:?}")).start();
    rig.leader();
    let [follower] = rig.start_followers(["b"]);
    let asked = rig.now();
    assert!(leader.baton("stopping").status.success());
    let led = wait_for(limit + rig.timing.answer_validity + S::NOISE, "it leads again", || {
        rig.has_standing(&leader, "leading").then(|| rig.now())
    });
    assert!(led.since(asked) + S::NOISE >= limit, "it led again after {:?}", led.since(asked));
    assert_eq!(leader.events("stopping_expired").len(), 1);
    let expired = "baton_stopping_expired_total{election=\"orders\"}";
    assert_eq!(leader.metric(expired), Some(1.0));
    assert!(rig.holds(&leader), "the election never changed hands");
    assert!(rig.first_promise(&follower).is_none());
}

fn poll_does_not_end_a_withdrawal_for_a_stop<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let limit = rig.timing.answer_validity + rig.timing.retry_period;
    let leader =
        rig.candidate("a").unpolled().flag("--require-polling", format!("{limit:?}")).start();
    rig.leader();
    assert!(leader.baton("stopping").status.success());
    let stopping = rig.now();
    rig.must_not_lead(&leader, stopping, "`baton stopping` had returned");
    wait_for(limit + S::NOISE, "it releases what its application does not use", || {
        rig.store.holder(ELECTION).is_empty().then_some(())
    });
    leader.ask();
    throughout(2 * rig.timing.retry_period, "it stays away", || {
        let standing = json(leader.ask().body.as_bytes())["standing"].clone();
        standing != "leading" && rig.store.holder(ELECTION).is_empty()
    });
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    rig.start_leader("b");
    rig.wait_for_answers();
}

/// Four workers share a sidecar. Each asks under a name of its own for each piece of work.
fn last_worker_that_is_done_releases_at_once<S: Store>() {
    let timing = Timing { answer_validity: 3 * S::CALM.retry_period, ..S::CALM };
    let rig = Rig::over(S::fresh(), timing);
    let old = rig.candidate("a").unpolled().flag("--on-lost", "stay").start();
    rig.leader();
    let ask = |worker: u32| {
        let reply = old.get(&format!("/leader?asker=worker-{worker}"));
        json(reply.body.as_bytes())["token"].as_str().expect("it leads").to_owned()
    };
    let done = |worker: u32, token: &str| {
        old.post(&format!("/done?token={token}&asker=worker-{worker}")).0
    };
    let token = ask(0);
    assert_eq!(done(0, &token), 204);
    // A worker that is done and asks again under a new name is not affected by a late duplicate.
    let tokens: Vec<_> = (1..=4).map(ask).collect();
    assert_eq!(done(0, &token), 204);
    assert_eq!(done(1, "1"), 409, "a token of another term");

    let asked = rig.now();
    let resigning = Arc::clone(&old);
    let resigned = thread::spawn(move || resigning.post("/resign"));
    eventually(S::NOISE, "it withdraws", || {
        json(old.get("/leader?promise=none").body.as_bytes())["standing"] == "resigning"
    });
    for worker in 1..4 {
        assert_eq!(done(worker, &tokens[0]), 204);
    }
    throughout(rig.timing.retry_period, "the last worker's promise holds", || rig.holds(&old));
    assert_eq!(done(4, &tokens[0]), 204);
    wait_for(S::NOISE, "it releases at once", || {
        rig.store.holder(ELECTION).is_empty().then_some(())
    });
    let took = rig.now().since(asked);
    assert!(took < rig.timing.answer_validity, "no earlier than without: {took:?}");
    let (status, answer) = resigned.join().unwrap();
    assert_eq!((status, answer["released"].clone()), (200, true.into()), "{answer}");
    assert_eq!(done(4, &tokens[0]), 409, "the term is over");
    rig.start_leader("b");
    rig.wait_for_answers();
}

#[test]
fn undeclared_application_is_never_released_on_request() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    rig.wait_for_answers();
    let refused = leader.baton("resign");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(error.contains("--require-polling") && error.contains("--on-lost"), "{error}");
    assert!(rig.holds(&leader) && leader.ask().status == 200);
}

#[test]
fn resignation_names_what_is_wrong() {
    let rig = Rig::new(Timing::CALM);
    let leader = declared_leader(&rig);
    let follower = rig.candidate("b").flag("--on-lost", "stay").start();
    rig.wait_for_answers();
    for (candidate, path, status, word) in [
        (&follower, "/resign", 409, "does not lead"),
        (&leader, "/resign?token=1", 409, "the token is"),
        (&leader, "/resign?token=x", 400, "decimal"),
        (&leader, "/resign?hold_off=soon", 400, "30s"),
        (&leader, "/resign?hold_off=25h", 400, "24h"),
        (&leader, "/resign?holdoff=30s", 400, "hold_off"),
        (&leader, "/done", 400, "token"),
        (&leader, "/done?token=1&asker=a%20b", 400, "asker"),
        (&leader, "/stopping?limit=1s", 400, "limit"),
    ] {
        let (answered, body) = candidate.post(path);
        let error = body["error"].as_str().unwrap_or_default();
        assert_eq!(answered, status, "{path}: {error}");
        assert!(error.contains(word), "{path}: {error}");
    }
    assert!(rig.holds(&leader) && leader.ask().status == 200);
}

#[test]
fn second_resignation_supersedes_the_first() {
    let timing = Timing { answer_validity: Duration::from_millis(1500), ..Timing::CALM };
    let rig = Rig::new(timing);
    let leader = declared_leader(&rig);
    rig.wait_for_answers();
    let first = Arc::clone(&leader);
    let first = thread::spawn(move || first.post("/resign"));
    eventually(Duration::from_secs(1), "it withdraws", || rig.has_standing(&leader, "resigning"));
    let (status, answer) = leader.post("/resign?hold_off=1s");
    assert_eq!((status, answer["released"].clone()), (200, true.into()), "{answer}");
    let (status, answer) = first.join().unwrap();
    assert_eq!(status, 409, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("superseded"), "{answer}");
}
