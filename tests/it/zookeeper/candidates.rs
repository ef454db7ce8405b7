//! Candidates with a cut connection or a missing chroot.

use super::{PATIENCE, messages};
use crate::rig::{Direction, Ensemble, Flow, Proxy, Rig, Store as _, Znodes, eventually};
use zookeeper_client::wire::Code;

#[test]
fn disconnected_leader_is_silent_before_another_leads() {
    let ensemble = Ensemble::shared();
    let proxy = Proxy::to(ensemble.address(0));
    let rig = Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), Znodes::FAST);
    let by_proxy = rig.store.servers_at(proxy.address());
    let old = rig.candidate("a").flag("--zookeeper-servers", by_proxy).start();
    assert_eq!(rig.leader().identity, old.identity);
    rig.start_followers(["b"]);
    let cut = rig.now();
    proxy.set(Direction::Requests, Flow::Hold);
    rig.must_not_lead(&old, cut + rig.timing.renew_deadline, "no renewal was acknowledged");
    rig.successor(&old, cut, rig.store.takeover(rig.timing));
    assert_eq!(old.exit_code(), 75);
    proxy.set(Direction::Requests, Flow::Pass);
}

#[test]
fn missing_chroot_is_refused_and_not_created() {
    let ensemble = Ensemble::shared();
    let rig = Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), Znodes::FAST);
    let servers = format!("{}/no-such-place", ensemble.connect_string());
    let stranger = rig.candidate("a").flag("--zookeeper-servers", servers).start();
    eventually(PATIENCE, "the refusal names the chroot", || {
        messages(&stranger, "store_refuses").iter().any(|message| message.contains("chroot"))
    });
    rig.start("b");
    rig.leader();
    assert_eq!(
        ensemble.admin().read("/no-such-place").err(),
        Some(Code::NoNode),
        "it creates no znode"
    );
    assert_eq!(stranger.exit_code(), 77);
}
