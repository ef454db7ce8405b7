//! A candidate that never hears that its znode was made, because its connection is lost while the servers take their time:
//! whatever it does then, it must not come to wait for a znode that is its own.

use super::PATIENCE;
use crate::rig::{Candidate, ELECTION, Ensemble, Proxy, Rig, Settings, Store as _, Znodes, eventually, throughout};
use std::sync::Arc;
use std::time::Duration;

/// Five servers, of whom three can be made to keep the others waiting for as long as a leader of ours has patience.
struct Slow {
    ensemble: Ensemble,
    /// Where the candidate connects.
    near: usize,
    /// Without them there is no quorum.
    majority: [usize; 3],
}

impl Slow {
    fn start() -> Self {
        let lines = vec!["maxSessionTimeout=60000".to_owned()];
        let ensemble = Ensemble::start(Settings { size: 5, sync_limit: 40, lines, ..Settings::default() });
        let [near, a, b, c] = ensemble.followers()[..] else { panic!("four of five follow") };
        Self { ensemble, near, majority: [a, b, c] }
    }

    fn pause(&mut self) {
        for at in self.majority {
            self.ensemble.member(at).server.pause();
        }
    }

    fn resume(&mut self) {
        for at in self.majority {
            self.ensemble.member(at).server.resume();
        }
    }

    /// Waits until a request of a client of the near server waits for the majority.
    fn await_request(&mut self) {
        let near = self.ensemble.member(self.near);
        eventually(PATIENCE, "the znode is asked for", || near.count("zk_outstanding_requests") > 0);
    }
}

/// How a connection is lost.
type Loss = fn(&Proxy);

/// The numbers of the znodes of a candidate that stand in the line.
fn numbers(rig: &Rig<Znodes>, candidate: &Candidate) -> Vec<u64> {
    let own = |path: &String| rig.store.admin.read(path).is_ok_and(|node| node.data == candidate.identity.as_bytes());
    let line = rig.store.line(ELECTION);
    line.iter().filter(|path| own(path)).map(|path| path[path.len() - 10..].parse().unwrap()).collect()
}

/// A candidate that is connected and stands in line only a while later: its last run ended badly.
fn about_to_join(rig: &Rig<Znodes>, way: &Proxy, name: &str) -> Arc<Candidate> {
    let state = rig.folder().join(name);
    std::fs::create_dir(&state).unwrap();
    let servers = rig.store.servers_at(way.address());
    let nowhere = rig.candidate(name).state_directory(&state).flag("--zookeeper-servers", "127.0.0.1:1").start();
    // Who is killed before it has noted that it runs ended in no way.
    eventually(PATIENCE, "it runs", || !nowhere.events("store_unreachable").is_empty());
    nowhere.kill();
    let candidate = rig.candidate(name).state_directory(&state).flag("--zookeeper-servers", servers).start();
    eventually(PATIENCE, "it has read who leads", || rig.stands(&candidate, "following"));
    assert_eq!(numbers(rig, &candidate), [0; 0], "it stands there already: this run shows nothing");
    candidate
}

#[test]
fn a_znode_whose_making_is_never_heard_of_blocks_nobody() {
    let mut slow = Slow::start();
    let way = Proxy::to(slow.ensemble.address(slow.near));
    let leaders = slow.ensemble.address(slow.ensemble.leader());
    let timing = Znodes::CALM.lasting(Duration::from_secs(20)).renewing_for(Duration::from_secs(15));
    let rig = Rig::over(Znodes::on(&slow.ensemble, &leaders.to_string()), timing);
    let leader = rig.start_leader("a");

    let mut heirs = Vec::new();
    let mut last = 0;
    let losses: [(&str, Loss); 2] = [("closed", Proxy::cut), ("reset", Proxy::reset)];
    for (name, lose) in losses {
        let heir = about_to_join(&rig, &way, name);
        slow.pause();
        slow.await_request();
        lose(&way);
        // It gives up a call, and connects anew, while nothing is decided.
        let connects = || {
            let labels = format!("election=\"{ELECTION}\",outcome=\"unknown\",verb=\"create\"");
            heir.metric(&format!("baton_store_requests_total{{{labels}}}")) >= Some(1.0)
        };
        eventually(PATIENCE, "what became of it is unknown", connects);
        slow.resume();
        eventually(PATIENCE, "it stands in line", || numbers(&rig, &heir).last() > Some(&(last + 1)));
        eventually(PATIENCE, "once", || numbers(&rig, &heir).len() == 1);
        last = numbers(&rig, &heir)[0];
        heirs.push(heir);
    }
    assert!(leader.is_healthy());
    throughout(rig.timing.retry_period, "nobody stands there twice", || {
        rig.store.line(ELECTION).len() == 1 + heirs.len()
    });
    let mut old = leader;
    for heir in heirs {
        let asked = old.terminate();
        assert_eq!(old.exit_code(), 0);
        let handoff = rig.timing.answer_validity + Duration::from_millis(100) + Znodes::NOISE;
        assert_eq!(rig.successor(&old, asked, handoff).0.identity, heir.identity);
        old = heir;
    }
}
