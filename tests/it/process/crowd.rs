//! Many candidates, many elections, high load: leadership changes only after a fault.

use crate::noise::{Assumption, assume};
use crate::rig::{ELECTION, ELECTIONS, Rig, Store, over_every_store, throughout};
use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

over_every_store! {
    fifty_candidates_have_one_leader_and_one_successor,
    elections_in_one_store_are_independent,
    load_alone_changes_no_leader,
}

/// A case that loads the machine itself may lose most of each second. Beyond this bound, the
/// machine itself was stopped.
const STILL_AWAKE: &[Assumption] = &[Assumption::LosesAtMost(Duration::from_millis(1500))];

fn fifty_candidates_have_one_leader_and_one_successor<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let candidates: Vec<_> = (0..50).map(|number| rig.start(&format!("c{number}"))).collect();
    let old = rig.leader();

    let used = || candidates.iter().map(|candidate| candidate.processor_time()).sum::<Duration>();
    let (begun, used_before) = (rig.now(), used());
    throughout(4 * rig.timing.retry_period, "the leader keeps leading", || rig.holds(&old));
    let share =
        used().saturating_sub(used_before).as_secs_f64() / rig.now().since(begun).as_secs_f64();
    assert!(share < 0.5, "fifty idle candidates used {share:.2} of a processor");
    assert_eq!(rig.tokens(ELECTION).len(), 1);

    let killed = old.kill();
    let (new, _) = rig.successor(&old, killed, rig.store.takeover(rig.timing) + S::NOISE);
    throughout(2 * rig.timing.retry_period, "the successor keeps leading", || rig.holds(&new));
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

fn elections_in_one_store_are_independent<S: Store>() {
    let rig = Rig::over(S::fresh(), S::FAST);
    for election in ELECTIONS {
        for name in ["x", "y", "z"] {
            rig.candidate(&format!("{name}-{election}")).election(election).start();
        }
    }

    let leaders = BTreeMap::from(ELECTIONS.map(|election| (election, rig.leader_of(election))));
    let killed = leaders[ELECTION].kill();
    rig.takeover(&leaders[ELECTION], killed);
    for election in ELECTIONS {
        let terms = if election == ELECTION { 2 } else { 1 };
        assert_eq!(rig.tokens(election).len(), terms, "{election}");
        assert_eq!(rig.leader_of(election).election, election);
    }
}

fn load_alone_changes_no_leader<S: Store>() {
    assume(STILL_AWAKE);
    let rig = Rig::over(S::fresh(), S::CALM);
    let leader = rig.start_leader("a");
    let [b, c] = rig.start_followers(["b", "c"]);

    let is_calm = || rig.holds(&leader) && c.is_healthy();
    let busy = AtomicBool::new(true);
    thread::scope(|scope| {
        let _idle = Idle(&busy);
        for _ in 0..4 {
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        throughout(rig.timing.lease_duration / 2, "the leader keeps leading", is_calm);
        b.kill();
        throughout(rig.timing.lease_duration / 2, "an ended follower changes nothing", is_calm);
        rig.start("d");
        throughout(rig.timing.lease_duration / 2, "a new follower changes nothing", is_calm);
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1);
    assert!(leader.events("lost").is_empty());
}

/// Ends the load, even if the test panics.
struct Idle<'a>(&'a AtomicBool);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
