//! An API server with a host name, behind a slow name server.

use crate::rig::{
    ApiServer, ELECTION, Leases, NameServer, Names, Proxy, Rig, Store as _, eventually,
};
use std::net::Ipv4Addr;
use std::time::Duration;

/// How long a lookup takes at a dead name server: longer than any call.
const LATE: Duration = Duration::from_secs(6);

const PATIENCE: Duration = Duration::from_secs(30);

/// A call may take 1.7 s here, and each new connection needs a lookup.
#[test]
fn slow_name_server_delays_a_lease_candidate_once() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let proxy = Proxy::to(ApiServer::shared().address());
    let server = NameServer::start(Ipv4Addr::LOCALHOST, Some(LATE));
    let names = Names::served_by(&server);
    let port = proxy.address().port();
    let by_name = rig.store.account.access.at("by-name", &format!("https://localhost:{port}"));
    let leader = rig.candidate("a").by(&by_name).knowing(&names).start();
    eventually(PATIENCE, "a later attempt uses the late answer", || {
        rig.has_standing(&leader, "leading")
    });
    for _ in 0..3 {
        let renewed = rig.store.written(ELECTION);
        proxy.cut();
        eventually(LATE / 2, "the previous addresses are used", || {
            rig.store.written(ELECTION) > renewed
        });
    }
    rig.wait_for_answers();
    assert_eq!(rig.tokens(ELECTION).len(), 1);
}
