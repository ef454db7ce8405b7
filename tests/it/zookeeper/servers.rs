//! Candidates while servers crash, pause, lose their quorum, restart, or change their addresses.

use super::PATIENCE;
use crate::rig::{Candidate, ELECTION, Ensemble, Names, Rig, Settings, Store as _, Timing, Znodes};
use crate::rig::{eventually, throughout};
use std::net::IpAddr;
use std::sync::Arc;

/// Sessions that outlast a recovery of the servers on a busy machine. Their own election takes
/// three seconds if they first have to notice that a member is gone.
const LONG_SESSION: Timing = Timing::of_ms(40_000, 30_000, 1000, 1000);

fn servers(size: usize) -> Ensemble {
    // By default, servers grant at most twenty ticks.
    let lines = vec!["maxSessionTimeout=60000".to_owned()];
    Ensemble::start(Settings { size, lines, ..Settings::default() })
}

/// A rig whose candidates know every server.
fn over_all(ensemble: &Ensemble, timing: Timing) -> Rig<Znodes> {
    Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), timing)
}

/// A leader and its followers, which must keep their roles through every fault.
struct Steady<'a> {
    rig: &'a Rig<Znodes>,
    candidates: Vec<Arc<Candidate>>,
}

impl<'a> Steady<'a> {
    fn start(rig: &'a Rig<Znodes>) -> Self {
        let leader = rig.start_leader("a");
        let followers = rig.start_followers(["b", "c"]);
        Self { rig, candidates: [leader].into_iter().chain(followers).collect() }
    }

    fn leader(&self) -> &Candidate {
        &self.candidates[0]
    }

    /// Waits until each candidate has reached the servers again, and checks that it kept its role.
    #[track_caller]
    fn survives(&self, what: &str) {
        let renewed = self.counters("renewals_total", "outcome=\"applied\"");
        eventually(PATIENCE, &format!("{what}, and the leader renews again"), || {
            self.counters("renewals_total", "outcome=\"applied\"")[0] >= renewed[0] + 2.0
        });
        let read = self.counters("store_requests_total", "outcome=\"applied\",verb=\"read\"");
        eventually(PATIENCE, &format!("{what}, and the followers read again"), || {
            let now = self.counters("store_requests_total", "outcome=\"applied\",verb=\"read\"");
            now.iter().zip(&read).skip(1).all(|(now, before)| now > before)
        });
        assert!(self.candidates.iter().all(|candidate| candidate.is_healthy()), "{what}");
        assert_eq!(self.rig.leader().identity, self.leader().identity, "{what}");
        assert_eq!(self.rig.tokens(ELECTION).len(), 1, "{what}: there is only one term");
        assert!(
            self.rig.store.queue(ELECTION).len() == self.candidates.len(),
            "{what}: each candidate has one znode"
        );
    }

    /// The value of a counter of each candidate, the leader's first.
    fn counters(&self, metric: &str, labels: &str) -> Vec<f64> {
        let series = format!("baton_{metric}{{election=\"{ELECTION}\",{labels}}}");
        self.candidates
            .iter()
            .map(|candidate| candidate.metric(&series).expect("it is counted"))
            .collect()
    }
}

#[test]
fn leader_survives_server_faults_within_its_session() {
    let mut ensemble = servers(3);
    let rig = over_all(&ensemble, LONG_SESSION);
    let steady = Steady::start(&rig);

    let killed = ensemble.leader();
    ensemble.member(killed).server.kill();
    steady.survives("the servers' leader was killed");
    ensemble.member(killed).restart();

    let paused = ensemble.leader();
    ensemble.member(paused).server.pause();
    steady.survives("the servers' leader is paused");
    ensemble.member(paused).server.resume();
    ensemble.await_serving();
    steady.survives("the servers' old leader has resumed");

    let lost = ensemble.followers();
    for at in &lost {
        ensemble.member(*at).server.kill();
    }
    eventually(PATIENCE, "there is no quorum", || (0..3).all(|at| !ensemble.is_serving(at)));
    for at in lost {
        ensemble.member(at).server.restart();
    }
    ensemble.await_serving();
    steady.survives("the quorum was lost and restored");
    rig.wait_for_answers();
}

/// As with Pods, which get new addresses when they restart.
#[test]
fn leader_survives_a_change_of_server_addresses() {
    const NAME: &str = "zookeeper.test";
    let mut ensemble = servers(3);
    let [before, after] = ensemble.followers()[..] else { panic!("two of three follow") };
    // The name resolves to one server and three addresses without a listener.
    let [first, second] = [before, after].map(|at| {
        let unused = [1, 2, 3].map(|last| IpAddr::from([127, 0, 0, last]));
        [unused[0], ensemble.address(at).ip(), unused[1], unused[2]]
    });
    let names = Names::of(NAME, &first);
    let rig = Rig::over(
        Znodes::on(&ensemble, &format!("{NAME}:{}", ensemble.address(before).port())),
        LONG_SESSION,
    );
    let candidates = ["a", "b", "c"].map(|name| {
        let candidate = rig.candidate(name).knowing(&names).start();
        eventually(PATIENCE, "the candidate is in the queue", || {
            rig.store.identities(ELECTION).contains(&candidate.identity)
        });
        candidate
    });
    let steady = Steady { rig: &rig, candidates: candidates.into() };
    steady.survives("no fault yet");
    for candidate in &steady.candidates {
        assert_eq!(
            candidate.events("store_unreachable"),
            [""; 0],
            "one attempt tries every address"
        );
    }

    names.set(NAME, &second);
    ensemble.member(before).server.kill();
    steady.survives("the name resolves to another server");
}

#[test]
fn leader_survives_a_rolling_restart_of_five_servers() {
    let mut ensemble = servers(5);
    let rig = over_all(&ensemble, LONG_SESSION);
    let steady = Steady::start(&rig);
    let pair = [ensemble.leader(), ensemble.followers()[0]];
    for at in pair {
        ensemble.member(at).server.kill();
    }
    steady.survives("two of five servers were killed, one of them their leader");
    for at in pair {
        ensemble.member(at).server.restart();
    }
    ensemble.await_serving();
    for at in 0..5 {
        ensemble.member(at).restart();
        steady.survives("the servers restart one by one");
    }
}

#[test]
fn tokens_grow_across_a_restart_of_all_servers() {
    let mut ensemble = servers(3);
    let rig = over_all(&ensemble, LONG_SESSION);
    let steady = Steady::start(&rig);
    ensemble.restart();
    steady.survives("all servers were restarted");
    let last_epoch =
        || rig.tokens(ELECTION).iter().map(|token| token.parse::<u64>().unwrap() >> 32).max();
    let before = last_epoch();

    for (old, new) in steady.candidates.iter().zip(["d", "e", "f"]) {
        rig.start(new);
        let signaled = old.terminate();
        assert_eq!(old.exit_code(), 0);
        rig.successor(old, signaled, PATIENCE);
    }
    // The checker compares each term's token with the previous one.
    assert_eq!(rig.tokens(ELECTION).len(), 4);
    assert!(last_epoch() > before, "tokens after the restart are of a later epoch");
}

#[test]
fn lost_quorum_ends_the_term_but_spares_followers() {
    let mut ensemble = servers(3);
    // The session outlives the deadline by far, so only the deadline can end the term this soon.
    let rig = over_all(&ensemble, Timing::of_ms(12_000, 6000, 1000, 1000));
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    for at in 0..2 {
        ensemble.member(at).server.kill();
    }
    let lost = rig.now();
    rig.must_not_lead(
        &leader,
        lost + rig.timing.renew_deadline,
        "no quorum acknowledged a renewal",
    );
    leader.loses(rig.timing.renew_deadline + Znodes::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    throughout(rig.timing.lease_duration, "the follower is healthy and ready", || {
        follower.is_healthy() && follower.probe("/readyz") == 200
    });
    assert!(!follower.events("store_unreachable").is_empty(), "the outage is logged");
    for at in 0..2 {
        ensemble.member(at).restart();
    }
    eventually(PATIENCE, "the follower leads", || rig.has_standing(&follower, "leading"));
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}
