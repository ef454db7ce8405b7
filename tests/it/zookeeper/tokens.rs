//! The fencing token that an application gets: the ID of the transaction that created the leader's
//! znode. It grows with each term, even if the path is deleted or the servers restart in between.

use crate::rig::{Candidate, ELECTION, Ensemble, Rig, Settings, Store as _, Znodes};
use serde_json::Value;

/// The token that a leader answers, which has to be its znode's transaction.
#[track_caller]
fn token(rig: &Rig<Znodes>, leader: &Candidate) -> u64 {
    let reply = leader.ask();
    let body: Value = serde_json::from_str(&reply.body).expect("the body is JSON");
    assert_eq!(
        (reply.status, body["token"].as_str()),
        (200, reply.fencing_token.as_deref()),
        "{}",
        reply.body
    );
    let token = body["token"].as_str().expect("it leads").parse().expect("the token is a number");
    let first = rig.store.queue(ELECTION).into_iter().next().expect("it is in the queue");
    assert_eq!(rig.store.admin.read(&first).map(|znode| znode.czxid), Ok(token), "of {first}");
    token
}

/// Stops the only candidate, which empties the queue.
fn stop_last(candidate: &Candidate) {
    candidate.terminate();
    assert_eq!(candidate.exit_code(), 0);
}

#[test]
fn token_is_the_creating_transaction_and_grows_with_each_term() {
    let mut ensemble = Ensemble::start(Settings { size: 3, ..Settings::default() });
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::CALM);
    let first = rig.start_leader("a");
    let [second] = rig.start_followers(["b"]);
    let mut tokens = vec![token(&rig, &first)];
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    assert_eq!(rig.leader().identity, second.identity);
    tokens.push(token(&rig, &second));

    stop_last(&second);
    rig.store.admin.delete(&rig.store.path(ELECTION)).expect("the queue is empty");
    let third = rig.start_leader("c");
    assert!(rig.store.queue(ELECTION)[0].ends_with("-0000000000"), "sequence numbers restart");
    tokens.push(token(&rig, &third));

    stop_last(&third);
    ensemble.restart();
    tokens.push(token(&rig, &rig.start_leader("d")));
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:x?}");
    assert!(tokens[3] >> 32 > tokens[2] >> 32, "the servers are in a new epoch: {tokens:x?}");
}
