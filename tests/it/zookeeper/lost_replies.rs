//! A candidate that never hears that its znode was made, because its connection is lost while the servers take their time:
//! whatever it does then, it must not come to wait for a znode that is its own.

use super::PATIENCE;
use crate::rig::{
    Candidate, Direction, ELECTION, Ensemble, Flow, Proxy, Rig, Settings, Store as _, Znodes,
    eventually, throughout,
};
use std::time::Duration;

/// What stands in no other request of a candidate than the one that makes its znode: the end of a name without a number,
/// behind which the length of the data begins.
const CREATE: &[u8] = b"-latch-\0\0\0";

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
        let ensemble =
            Ensemble::start(Settings { size: 5, sync_limit: 40, lines, ..Settings::default() });
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

    /// Lets through what is held in this way, and waits until it waits at the near server for the majority.
    fn pass_on(&mut self, way: &Proxy) {
        way.set(Direction::Requests, Flow::Pass);
        eventually(PATIENCE, "it is let through", || way.held(Direction::Requests) == 0);
        let near = self.ensemble.member(self.near);
        eventually(PATIENCE, "the server has heard it", || {
            near.count("zk_outstanding_requests") > 0
        });
    }
}

/// How a connection is lost.
type Loss = fn(&Proxy);

/// The numbers of the znodes of a candidate that stand in the line.
fn numbers(rig: &Rig<Znodes>, candidate: &Candidate) -> Vec<u64> {
    let own = |path: &String| {
        rig.store.admin.read(path).is_ok_and(|node| node.data == candidate.identity.as_bytes())
    };
    let line = rig.store.queue(ELECTION);
    line.iter()
        .filter(|path| own(path))
        .map(|path| path[path.len() - 10..].parse().unwrap())
        .collect()
}

#[test]
fn a_znode_whose_making_is_never_heard_of_blocks_nobody() {
    let mut slow = Slow::start();
    let leaders = slow.ensemble.address(slow.ensemble.leader());
    let timing =
        Znodes::CALM.lasting(Duration::from_secs(20)).renewing_for(Duration::from_secs(15));
    let rig = Rig::over(Znodes::on(&slow.ensemble, &leaders.to_string()), timing);
    let leader = rig.start_leader("a");

    let losses: [(&str, Loss); 3] = [
        ("closed", Proxy::cut),
        ("reset", Proxy::reset),
        ("silent", |way| way.set(Direction::Replies, Flow::Lose)),
    ];
    // A way for each, so that nobody else loses a reply.
    let ways = losses.map(|_| Proxy::to(slow.ensemble.address(slow.near)));
    let mut heirs = Vec::new();
    let mut last = 0;
    for ((name, lose), way) in losses.into_iter().zip(&ways) {
        way.hold_at(CREATE);
        let servers = rig.store.servers_at(way.address());
        let heir = rig.candidate(name).flag("--zookeeper-servers", servers).start();
        eventually(PATIENCE, "it asks for its znode", || way.held(Direction::Requests) > 0);
        slow.pause();
        slow.pass_on(way);
        lose(way);
        // It gives up a call, and connects anew, while nothing is decided.
        let connects = || {
            let labels = format!("election=\"{ELECTION}\",outcome=\"unknown\",verb=\"create\"");
            heir.metric(&format!("baton_store_requests_total{{{labels}}}")) >= Some(1.0)
        };
        eventually(PATIENCE, "what became of it is unknown", connects);
        way.set(Direction::Replies, Flow::Pass);
        slow.resume();
        eventually(PATIENCE, "it stands in line", || {
            numbers(&rig, &heir).last() > Some(&(last + 1))
        });
        eventually(PATIENCE, "once", || numbers(&rig, &heir).len() == 1);
        last = numbers(&rig, &heir)[0];
        heirs.push(heir);
    }
    assert!(leader.is_healthy());
    throughout(rig.timing.retry_period, "nobody stands there twice", || {
        rig.store.queue(ELECTION).len() == 1 + heirs.len()
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
