//! Servers without container znodes, which reject a request for one and close the connection.

use crate::rig::{ELECTION, Ensemble, Rig, Settings, Store as _, Znodes};
use std::time::Duration;

#[test]
fn election_on_old_servers_uses_a_persistent_path() {
    let ensemble = Ensemble::start(Settings { old: true, ..Settings::default() });
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::FAST);
    let first = rig.start_leader("a");
    rig.start_followers(["b", "c"]);
    let signaled = first.terminate();
    assert_eq!(first.exit_code(), 0);
    let handoff = rig.timing.answer_validity + Duration::from_millis(100) + Znodes::NOISE;
    let (second, _) = rig.successor(&first, signaled, handoff);
    let killed = second.kill();
    rig.successor(&second, killed, rig.store.takeover(rig.timing));
    assert_eq!(rig.store.admin.read(&rig.store.path(ELECTION)).unwrap().owner, None);
}
