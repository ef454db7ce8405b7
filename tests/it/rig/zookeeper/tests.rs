//! Tests of the servers: they behave as the other tests expect, and leave nothing behind.

use super::{Ensemble, Settings, eventually};
use std::path::Path;
use std::time::Duration;
use zookeeper_client::wire::Code;

#[test]
fn server_keeps_its_data_over_a_kill() {
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
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the server has ended");
}

/// How long a partitioned follower serves: five ticks of half a second, and three seconds for
/// clocks and threads.
const PARTITION_NOTICED: Duration = Duration::from_millis(2500 + 3000);

#[test]
fn partitioned_follower_stops_serving() {
    let mut ensemble =
        Ensemble::start(Settings { size: 3, can_be_cut: true, ..Settings::default() });
    let [follower, other] = ensemble.followers()[..] else { panic!("two of three follow") };
    assert_eq!(ensemble.member(other).mode().as_deref(), Some("follower"));
    let admin = ensemble.admin();
    admin.create("/a", "one").unwrap();
    assert!(ensemble.count("zk_znode_count") > 0);

    ensemble.cut_off(follower);
    eventually(PARTITION_NOTICED, "it stops serving", || {
        ensemble.member(follower).mode().is_none()
    });
    assert_eq!(
        ensemble.member(other).mode().as_deref(),
        Some("follower"),
        "the others keep serving"
    );
    ensemble.heal(follower);
    ensemble.await_serving();
}
