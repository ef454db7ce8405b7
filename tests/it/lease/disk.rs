//! etcd on a slow disk: each of its writes waits for the disk, and each request waits for etcd.
//!
//! strace delays etcd's fdatasync, which needs neither root nor a separate file system.

use crate::rig::{ApiServer, Delay, ELECTION, Leases, Rig, Store as _, eventually, throughout};
use serde_json::json;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_mins(1);

/// Writes to the Lease. Returns how long that took.
fn write(rig: &Rig<Leases>) -> Duration {
    let begun = Instant::now();
    rig.store
        .namespace
        .admin
        .patch(ELECTION, &json!({ "metadata": { "labels": { "edit": null } } }))
        .ok();
    begun.elapsed()
}

#[test]
fn slow_disk_costs_no_term_and_hanging_disk_costs_one() {
    let server = ApiServer::with_disk();
    let slow = |by| Delay::of_all_threads(server.etcd.pid(), "fdatasync", by);
    let rig = Rig::over(Leases::on(&server), Leases::CALM);
    let leader = rig.start_leader("leader");
    let [follower] = rig.start_followers(["follower"]);

    let delay = Duration::from_millis(300);
    let disk = slow(delay);
    eventually(PATIENCE, "writes are slow", || write(&rig) >= delay);
    throughout(3 * rig.timing.renew_deadline, "the leader keeps leading", || {
        leader.is_healthy() && follower.is_healthy()
    });
    drop(disk);
    assert_eq!(rig.tokens(ELECTION).len(), 1);

    let disk = slow(Duration::from_secs(30));
    let since = rig.now();
    rig.must_not_lead(&leader, since + rig.timing.renew_deadline, "nothing was renewed since");
    leader.loses(PATIENCE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    throughout(rig.timing.retry_period, "the follower waits", || {
        follower.is_healthy() && !rig.has_successor(&leader, since)
    });
    drop(disk);
    let back = rig.now();
    let (new, _) = rig.successor(&leader, back, rig.timing.takeover() + Leases::NOISE);
    assert_eq!(new.identity, follower.identity);
}
