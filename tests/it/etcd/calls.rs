//! Requests that get no answer, and connections that carry none for a long time.

use super::PATIENCE;
use crate::rig::{
    Direction, ELECTION, Etcd, EtcdKeys, Flow, Proxy, Rig, Store as _, eventually, throughout,
};
use std::collections::BTreeSet;
use std::fs;

/// The first endpoint accepts requests and swallows the answers. Only the next endpoint can renew in
/// time.
#[test]
fn request_after_an_unknown_outcome_goes_to_the_next_member() {
    let etcd = Etcd::shared();
    let proxy = Proxy::to(etcd.address(0));
    let endpoints = format!("http://{},{}", proxy.address(), etcd.url(0));
    let rig = Rig::over(EtcdKeys::at(etcd, &endpoints), EtcdKeys::CALM);
    let leader = rig.start_leader("leader");
    proxy.set(Direction::Replies, Flow::Hold);
    eventually(PATIENCE, "an answer is lost", || proxy.held(Direction::Replies) > 0);
    throughout(rig.timing.lease_duration, "it leads", || leader.is_healthy());
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert_eq!(leader.events("lost").len(), 0);
}

/// Candidates need etcd although nothing listens there.
#[test]
fn unreachable_members_are_named_with_a_remedy() {
    let rig = Rig::over(EtcdKeys::fresh(), EtcdKeys::FAST);
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{unused}");
    let lost = rig.candidate("lost").flag("--etcd-endpoints", &url).start();
    eventually(PATIENCE, "it names the cause and the remedy", || {
        let output = lost.output();
        [&url, "Connection refused", "check that etcd runs at each URL in --etcd-endpoints"]
            .iter()
            .all(|text| output.contains(*text))
    });
    rig.start_leader("leader");
    rig.wait_for_answers();
}

/// A firewall may forget a silent connection. So the kernel probes each one, and ends a dead one.
#[test]
fn idle_connections_are_probed() {
    let rig = Rig::over(EtcdKeys::fresh(), EtcdKeys::SLOW);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);
    for candidate in [&leader, &follower] {
        eventually(PATIENCE, "the kernel will probe its connections within ten seconds", || {
            let timers = timers(candidate.pid(), Etcd::shared().address(0).port());
            !timers.is_empty()
                && timers.iter().all(|timer| timer.is_some_and(|hundredths| hundredths <= 1000))
        });
    }
    rig.wait_for_answers();
}

/// For each connection of this process to `port`: in how many hundredths of a second the kernel
/// probes it, if at all.
fn timers(pid: u32, port: u16) -> Vec<Option<u64>> {
    const ESTABLISHED: &str = "01";
    const KEEPALIVE: &str = "02";
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("it is alive").flatten();
    let sockets: BTreeSet<String> = descriptors
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("it is alive");
    let remote = format!(":{port:04X}");
    let connections = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    connections
        .filter(|fields| {
            fields[2].ends_with(&remote) && fields[3] == ESTABLISHED && sockets.contains(fields[9])
        })
        .map(|fields| {
            let (kind, hundredths) = fields[5].split_once(':').expect("the kernel writes both");
            let hundredths = u64::from_str_radix(hundredths, 16).expect("it is a number");
            (kind == KEEPALIVE).then_some(hundredths)
        })
        .collect()
}
