//! The servers of the tests, tested: they do what they are relied on for, and leave nothing behind.

use super::{Ensemble, Settings, eventually};
use std::path::Path;
use std::time::Duration;
use zookeeper_client::wire::Code;

#[test]
fn a_server_keeps_what_is_put_into_it_over_a_kill() {
    let mut ensemble = Ensemble::start(Settings::default());
    let admin = ensemble.admin();
    admin.create("/a", "one").unwrap();
    ensemble.member(0).restart();
    assert_eq!(admin.read("/a").unwrap().data, b"one");
    assert_eq!(admin.create("/a", "two"), Err(Code::NodeExists));
    admin.delete("/a").unwrap();
    assert_eq!(admin.children("/"), Ok(vec!["zookeeper".to_owned()]));

    let pid = ensemble.member(0).server.pid();
    drop(ensemble);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it is gone");
}

/// After how many ticks of half a second a follower that hears nothing gives up, and how long clocks and threads take.
const HEARS_NOTHING: Duration = Duration::from_millis(2500 + 3000);

#[test]
fn a_follower_that_is_cut_off_serves_its_clients_until_it_gives_up_and_comes_back() {
    let mut ensemble =
        Ensemble::start(Settings { size: 3, can_be_cut: true, ..Settings::default() });
    let [follower, other] = ensemble.followers()[..] else { panic!("two of three follow") };
    assert_eq!(ensemble.member(other).mode().as_deref(), Some("follower"));
    let admin = ensemble.admin();
    admin.create("/a", "one").unwrap();
    assert!(ensemble.count("zk_znode_count") > 0);

    ensemble.cut_off(follower);
    eventually(HEARS_NOTHING, "it gives up", || ensemble.member(follower).mode().is_none());
    assert_eq!(ensemble.member(other).mode().as_deref(), Some("follower"), "the others go on");
    ensemble.heal(follower);
    ensemble.await_serving();
}
