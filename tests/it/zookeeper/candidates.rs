//! What meets candidates on the servers: a path that is deleted, a cut connection, a missing chroot, limits.

use crate::rig::{ELECTION, Ensemble, Flow, Proxy, Rig, Settings, Store as _, Way, Znodes, eventually};
use baton::zookeeper::wire::Code;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn tokens_grow_over_the_deletion_of_the_path() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let old = rig.start_leader("a");
    let first = rig.store.line(ELECTION);
    old.terminate();
    assert_eq!(old.exit_code(), 0);
    rig.store.admin.delete(&rig.store.path(ELECTION)).unwrap();
    let new = rig.start("b");
    assert_eq!(rig.leader().identity, new.identity);
    let second = rig.store.line(ELECTION);
    let number = |line: &[String]| line.first().map(|path| path[path.len() - 10..].to_owned());
    assert_eq!((number(&first), number(&second)), (Some("0000000000".to_owned()), Some("0000000000".to_owned())));
    // The judge compares the two tokens when the rig is dropped.
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

#[test]
fn a_leader_that_is_cut_off_from_the_servers_is_silent_before_another_leads() {
    let ensemble = Ensemble::shared();
    let proxy = Proxy::to(ensemble.address(0));
    let rig = Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), Znodes::FAST);
    let by_proxy =
        rig.store.flags()["--zookeeper-servers"].replace(&ensemble.connect_string(), &proxy.address().to_string());
    let old = rig.candidate("a").flag("--zookeeper-servers", by_proxy).start();
    assert_eq!(rig.leader().identity, old.identity);
    rig.start_followers(["b"]);
    let cut = rig.now();
    proxy.set(Way::Requests, Flow::Hold);
    rig.must_be_silent(&old, cut + rig.timing.renew_deadline, "nothing was acknowledged since");
    rig.successor(&old, cut, rig.timing.takeover() + 2 * Znodes::NOISE);
    assert_eq!(old.exit_code(), 75);
    proxy.set(Way::Requests, Flow::Pass);
}

#[test]
fn a_chroot_that_is_not_there_is_named() {
    let ensemble = Ensemble::shared();
    let rig = Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), Znodes::FAST);
    let servers = format!("{}/no-such-place", ensemble.connect_string());
    let stranger = rig.candidate("a").flag("--zookeeper-servers", servers).start();
    eventually(PATIENCE, "it says why", || {
        stranger.events("store_refuses").iter().any(|line| line["message"].to_string().contains("chroot"))
    });
    rig.start("b");
    rig.leader();
    assert_eq!(ensemble.admin().read("/no-such-place").err(), Some(Code::NoNode), "and makes nothing");
    assert_eq!(stranger.exit_code(), 77);
}

#[test]
fn a_session_time_out_that_the_servers_cut_is_told_or_refused() {
    let ensemble =
        Ensemble::start(Settings { lines: vec!["maxSessionTimeout=5000".to_owned()], ..Settings::default() });
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::FAST);
    let leader = rig.start_leader("a");
    eventually(PATIENCE, "it says so", || !leader.events("session_granted").is_empty());
    let long = [("--lease-duration", "60s"), ("--renew-deadline", "40s"), ("--retry-period", "4s")];
    let start = long.into_iter().fold(rig.candidate("b"), |start, (flag, value)| start.flag(flag, value));
    let (code, output) = start.ends();
    assert_eq!(code, 2, "{output}");
    assert!(output.contains("session_too_short") && output.contains("these would pass"), "{output}");
    rig.hear_enough();
}
