//! client-go's own candidates, tested: what the comparison with them rests on.

use super::ClientGo;
use crate::rig::apiserver::{Access, ApiServer};
use crate::rig::wait_for;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

const FLAGS: [&str; 4] = ["--lease-duration=3s", "--renew-deadline=2s", "--retry-period=100ms", "--release-on-cancel"];

fn start(access: &Access, identity: &str) -> ClientGo {
    ClientGo::start(access, "orders", identity, &FLAGS)
}

#[test]
fn one_leads_after_the_other() {
    // It creates by POST, which no Role can limit to one name.
    let access = ApiServer::shared().namespace().admin;
    let mut first = start(&access, "first");
    wait_for(PATIENCE, "the first leads", || first.told("started_leading"));
    let second = start(&access, "second");
    wait_for(PATIENCE, "the second has heard of the first", || second.told("new_leader"));
    assert_eq!(first.answer().unwrap()["is_leader"], true);
    assert_eq!(second.answer().unwrap()["is_leader"], false);

    first.process.terminate();
    let started = wait_for(PATIENCE, "the second leads", || second.told("started_leading"));
    let stopped = first.told("work_cancelled").unwrap();
    assert!(stopped < started, "it stopped at {stopped:?}, its successor started at {started:?}");
}
