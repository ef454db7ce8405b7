//! The fencing token as an application is told it: the transaction that made the leader's znode, so larger in each term,
//! whatever became of the path and of the servers in between.

use crate::rig::{Candidate, ELECTION, Ensemble, Rig, Settings, Store as _, Znodes};
use serde_json::Value;

/// The token that a leader tells its application.
#[track_caller]
fn token(rig: &Rig<Znodes>, leader: &Candidate) -> u64 {
    let reply = leader.ask();
    let body: Value = serde_json::from_str(&reply.body).expect("it is JSON");
    assert_eq!(
        (reply.status, body["token"].as_str()),
        (200, reply.fencing_token.as_deref()),
        "{}",
        reply.body
    );
    let token = body["token"].as_str().expect("it leads").parse().expect("it is a number");
    let first = rig.store.queue(ELECTION).into_iter().next().expect("it stands there");
    assert_eq!(rig.store.admin.read(&first).map(|znode| znode.czxid), Ok(token), "of {first}");
    token
}

/// Ends the last of the candidates, so that the line is empty.
fn leave(candidate: &Candidate) {
    candidate.terminate();
    assert_eq!(candidate.exit_code(), 0);
}

#[test]
fn the_token_is_the_transaction_of_the_znode_and_grows_over_a_handoff_a_deleted_path_and_restarted_servers()
 {
    let mut ensemble = Ensemble::start(Settings { size: 3, ..Settings::default() });
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::CALM);
    let first = rig.start_leader("a");
    let [second] = rig.start_followers(["b"]);
    let mut told = vec![token(&rig, &first)];
    first.terminate();
    assert_eq!(first.exit_code(), 0);
    assert_eq!(rig.leader().identity, second.identity);
    told.push(token(&rig, &second));

    leave(&second);
    rig.store.admin.delete(&rig.store.path(ELECTION)).expect("nobody stands there any more");
    let third = rig.start_leader("c");
    assert!(rig.store.queue(ELECTION)[0].ends_with("-0000000000"), "numbers begin anew");
    told.push(token(&rig, &third));

    leave(&third);
    ensemble.restart();
    told.push(token(&rig, &rig.start_leader("d")));
    assert!(told.is_sorted_by(|earlier, later| earlier < later), "{told:x?}");
    assert!(told[3] >> 32 > told[2] >> 32, "the servers count in a new epoch: {told:x?}");
}
