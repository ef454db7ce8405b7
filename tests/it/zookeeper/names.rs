//! Servers whose names are resolved by a slow or a dead name server.

use super::PATIENCE;
use crate::rig::{
    Candidate, ELECTION, Ensemble, NameServer, Names, Proxy, Rig, Store as _, Znodes, eventually,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tempfile::TempDir;

/// How late a slow name server answers: longer than any attempt to connect.
const LATE: Duration = Duration::from_secs(6);

/// How many attempts to connect have had this outcome.
fn connects(candidate: &Candidate, outcome: &str) -> f64 {
    let labels = format!("election=\"{ELECTION}\",outcome=\"{outcome}\",verb=\"connect\"");
    candidate.metric(&format!("baton_store_requests_total{{{labels}}}")).unwrap_or_default()
}

#[test]
fn slow_name_server_delays_the_first_connection_only() {
    let ensemble = Ensemble::shared();
    let proxy = Proxy::to(ensemble.address(0));
    let IpAddr::V4(address) = proxy.address().ip() else { panic!("proxies are reached by IPv4") };
    let server = NameServer::start(address, Some(LATE));
    let names = Names::served_by(&server);
    let servers = format!("zookeeper.test:{}", proxy.address().port());
    let rig = Rig::over(Znodes::on(ensemble, &servers), Znodes::CALM);
    let leader = rig.candidate("a").knowing(&names).start();
    eventually(PATIENCE, "a late answer serves a later attempt", || {
        rig.has_standing(&leader, "leading")
    });
    for _ in 0..3 {
        let before = connects(&leader, "applied");
        proxy.cut();
        eventually(LATE / 2, "the cached addresses are used", || {
            connects(&leader, "applied") > before
        });
    }
    rig.wait_for_answers();
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}

/// The runtime has four blocking threads, and the state directory needs one of them on exit.
#[test]
fn abandoned_lookups_leave_threads_for_files() {
    let server = NameServer::start(Ipv4Addr::LOCALHOST, None);
    let names = Names::served_by(&server);
    let hosts: Vec<_> = (0..6).map(|at| format!("zk-{at}.test")).collect();
    let ensemble = Ensemble::shared();
    let rig = Rig::over(Znodes::on(ensemble, &hosts.join(",")), Znodes::CALM);
    rig.candidate("leader")
        .flag("--zookeeper-servers", rig.store.servers_at(ensemble.address(0)))
        .start();
    rig.leader();
    let folder = TempDir::new().unwrap();
    let candidate = rig.candidate("a").knowing(&names).state_directory(folder.path()).start();
    eventually(PATIENCE, "it has tried all names", || connects(&candidate, "unknown") >= 4.0);
    candidate.terminate();
    assert_eq!(candidate.exit_code(), 0);
    let output = candidate.output();
    assert!(!output.contains("the state directory did not respond"), "{output}");
    rig.wait_for_answers();
}
