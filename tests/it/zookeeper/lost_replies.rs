//! A candidate that loses its connection before the reply to its create request. It must never wait
//! for a znode of its own.

use super::PATIENCE;
use crate::rig::{
    Candidate, Direction, ELECTION, Ensemble, Flow, Proxy, Rig, Settings, Store as _, Znodes,
    eventually, throughout,
};
use std::time::Duration;

/// Bytes that only a candidate's create request contains: the end of a name without its sequence
/// number, and the beginning of the data's length.
const CREATE: &[u8] = b"-latch-\0\0\0";

/// Five servers, of which three can be paused for as long as a leader's session lasts.
struct SlowEnsemble {
    ensemble: Ensemble,
    /// The server that candidates connect to.
    near: usize,
    /// The servers without which there is no quorum.
    majority: [usize; 3],
}

impl SlowEnsemble {
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

    /// Forwards the held request, and waits until it is pending at the near server for want of a
    /// quorum.
    fn forward(&mut self, proxy: &Proxy) {
        proxy.set(Direction::Requests, Flow::Pass);
        eventually(PATIENCE, "the request passes", || proxy.held(Direction::Requests) == 0);
        let near = self.ensemble.member(self.near);
        eventually(PATIENCE, "the request is pending at the server", || {
            near.count("zk_outstanding_requests") > 0
        });
    }
}

/// A fault that loses the connection.
type Loss = fn(&Proxy);

/// The sequence numbers of a candidate's znodes in the queue.
fn numbers(rig: &Rig<Znodes>, candidate: &Candidate) -> Vec<u64> {
    let own = |path: &String| {
        rig.store.admin.read(path).is_ok_and(|node| node.data == candidate.identity.as_bytes())
    };
    let queue = rig.store.queue(ELECTION);
    queue
        .iter()
        .filter(|path| own(path))
        .map(|path| path[path.len() - 10..].parse().unwrap())
        .collect()
}

#[test]
fn lost_create_reply_leaves_one_znode_per_candidate() {
    let mut slow = SlowEnsemble::start();
    let leaders = slow.ensemble.address(slow.ensemble.leader());
    let timing =
        Znodes::CALM.lasting(Duration::from_secs(20)).renewing_for(Duration::from_secs(15));
    let rig = Rig::over(Znodes::on(&slow.ensemble, &leaders.to_string()), timing);
    let leader = rig.start_leader("a");

    let losses: [(&str, Loss); 3] = [
        ("closed", Proxy::cut),
        ("reset", Proxy::reset),
        ("silent", |proxy| proxy.set(Direction::Replies, Flow::Lose)),
    ];
    // One proxy per candidate, so that no other candidate loses a reply.
    let proxies = losses.map(|_| Proxy::to(slow.ensemble.address(slow.near)));
    let mut successors = Vec::new();
    let mut last = 0;
    for ((name, lose), proxy) in losses.into_iter().zip(&proxies) {
        proxy.hold_at(CREATE);
        let servers = rig.store.servers_at(proxy.address());
        let successor = rig.candidate(name).flag("--zookeeper-servers", servers).start();
        eventually(PATIENCE, "the create request reaches the proxy", || {
            proxy.held(Direction::Requests) > 0
        });
        slow.pause();
        slow.forward(proxy);
        lose(proxy);
        // The candidate abandons the call and reconnects before the outcome is known.
        let is_unknown = || {
            let labels = format!("election=\"{ELECTION}\",outcome=\"unknown\",verb=\"create\"");
            successor.metric(&format!("baton_store_requests_total{{{labels}}}")) >= Some(1.0)
        };
        eventually(PATIENCE, "the outcome of the create request is unknown", is_unknown);
        proxy.set(Direction::Replies, Flow::Pass);
        slow.resume();
        eventually(PATIENCE, "the candidate is in the queue", || {
            numbers(&rig, &successor).last() > Some(&(last + 1))
        });
        eventually(PATIENCE, "it has one znode", || numbers(&rig, &successor).len() == 1);
        last = numbers(&rig, &successor)[0];
        successors.push(successor);
    }
    assert!(leader.is_healthy());
    throughout(rig.timing.retry_period, "each candidate has one znode", || {
        rig.store.queue(ELECTION).len() == 1 + successors.len()
    });
    let mut old = leader;
    for successor in successors {
        let signaled = old.terminate();
        assert_eq!(old.exit_code(), 0);
        let handoff = rig.timing.answer_validity + Duration::from_millis(100) + Znodes::NOISE;
        assert_eq!(rig.successor(&old, signaled, handoff).0.identity, successor.identity);
        old = successor;
    }
}
