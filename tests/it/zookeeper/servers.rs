//! The servers' own troubles under our candidates: killed, frozen, without a quorum, restarted one by one or all at once, or
//! somewhere else.

use super::PATIENCE;
use crate::rig::{Candidate, ELECTION, Ensemble, Names, Rig, Settings, Store as _, Timing, Znodes};
use crate::rig::{eventually, throughout};
use std::net::IpAddr;
use std::sync::Arc;

/// Enough slack for whatever servers do on a busy machine until they serve again: their own election alone takes them
/// three seconds where somebody has to be missed first.
const PATIENT: Timing = Timing::of_ms(40_000, 30_000, 1000, 1000);

fn servers(size: usize) -> Ensemble {
    // By default they grant no session of more than twenty ticks.
    let lines = vec!["maxSessionTimeout=60000".to_owned()];
    Ensemble::start(Settings { size, lines, ..Settings::default() })
}

/// Candidates that know every server.
fn over_all(ensemble: &Ensemble, timing: Timing) -> Rig<Znodes> {
    Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), timing)
}

/// A leader and its followers, of whom none may notice what happens within the slack.
struct Calm<'a> {
    rig: &'a Rig<Znodes>,
    candidates: Vec<Arc<Candidate>>,
}

impl<'a> Calm<'a> {
    fn of(rig: &'a Rig<Znodes>) -> Self {
        let leader = rig.start_leader("a");
        let followers = rig.start_followers(["b", "c"]);
        Self { rig, candidates: [leader].into_iter().chain(followers).collect() }
    }

    fn leader(&self) -> &Candidate {
        &self.candidates[0]
    }

    /// Waits until each has heard the servers again, and has stayed what it was.
    #[track_caller]
    fn outlives(&self, what: &str) {
        let renewed = self.heard("renewals_total", "outcome=\"applied\"");
        eventually(PATIENCE, &format!("{what}, and the leader renews again"), || {
            self.heard("renewals_total", "outcome=\"applied\"")[0] >= renewed[0] + 2.0
        });
        let read = self.heard("store_requests_total", "outcome=\"applied\",verb=\"read\"");
        eventually(PATIENCE, &format!("{what}, and the followers read again"), || {
            let now = self.heard("store_requests_total", "outcome=\"applied\",verb=\"read\"");
            now.iter().zip(&read).skip(1).all(|(now, before)| now > before)
        });
        assert!(self.candidates.iter().all(|candidate| candidate.is_healthy()), "{what}");
        assert_eq!(self.rig.leader().identity, self.leader().identity, "{what}");
        assert_eq!(self.rig.tokens(ELECTION).len(), 1, "{what}: one term all along");
        assert!(
            self.rig.store.queue(ELECTION).len() == self.candidates.len(),
            "{what}: no znode is left or lost"
        );
    }

    fn heard(&self, metric: &str, labels: &str) -> Vec<f64> {
        let series = format!("baton_{metric}{{election=\"{ELECTION}\",{labels}}}");
        self.candidates
            .iter()
            .map(|candidate| candidate.metric(&series).expect("it is counted"))
            .collect()
    }
}

#[test]
fn whoever_of_the_servers_goes_and_comes_back_within_the_slack_changes_no_leader_of_ours() {
    let mut ensemble = servers(3);
    let rig = over_all(&ensemble, PATIENT);
    let calm = Calm::of(&rig);

    let dead = ensemble.leader();
    ensemble.member(dead).server.kill();
    calm.outlives("the servers' leader was killed");
    ensemble.member(dead).restart();

    let frozen = ensemble.leader();
    ensemble.member(frozen).server.pause();
    calm.outlives("the servers' leader stands still");
    ensemble.member(frozen).server.resume();
    ensemble.await_serving();
    calm.outlives("the servers' old leader goes on");

    let lost = ensemble.followers();
    for at in &lost {
        ensemble.member(*at).server.kill();
    }
    eventually(PATIENCE, "there is no quorum", || (0..3).all(|at| !ensemble.is_serving(at)));
    for at in lost {
        ensemble.member(at).server.restart();
    }
    ensemble.await_serving();
    calm.outlives("the quorum was lost, and came back");
    rig.wait_for_answers();
}

/// As with Pods, which have other addresses when they are started again.
#[test]
fn a_name_that_stands_for_several_addresses_and_then_for_others_changes_no_leader_of_ours() {
    const NAME: &str = "zookeeper.test";
    let mut ensemble = servers(3);
    let [before, after] = ensemble.followers()[..] else { panic!("two of three follow") };
    // A server's address stands among others where nobody listens.
    let [first, second] = [before, after].map(|at| {
        let nobody = [1, 2, 3].map(|last| IpAddr::from([127, 0, 0, last]));
        [nobody[0], ensemble.address(at).ip(), nobody[1], nobody[2]]
    });
    let names = Names::of(NAME, &first);
    let rig = Rig::over(
        Znodes::on(&ensemble, &format!("{NAME}:{}", ensemble.address(before).port())),
        PATIENT,
    );
    let candidates = ["a", "b", "c"].map(|name| {
        let candidate = rig.candidate(name).knowing(&names).start();
        eventually(PATIENCE, "it stands in line", || {
            rig.store.identities(ELECTION).contains(&candidate.identity)
        });
        candidate
    });
    let calm = Calm { rig: &rig, candidates: candidates.into() };
    calm.outlives("all is well");
    for candidate in &calm.candidates {
        assert_eq!(
            candidate.events("store_unreachable"),
            [""; 0],
            "one of the addresses is enough for an attempt"
        );
    }

    names.set(NAME, &second);
    ensemble.member(before).server.kill();
    calm.outlives("the name stands for another server");
}

#[test]
fn five_servers_lose_two_and_are_restarted_one_by_one_without_a_change_of_our_leader() {
    let mut ensemble = servers(5);
    let rig = over_all(&ensemble, PATIENT);
    let calm = Calm::of(&rig);
    let pair = [ensemble.leader(), ensemble.followers()[0]];
    for at in pair {
        ensemble.member(at).server.kill();
    }
    calm.outlives("two of five were killed, the leader one of them");
    for at in pair {
        ensemble.member(at).server.restart();
    }
    ensemble.await_serving();
    for at in 0..5 {
        ensemble.member(at).restart();
        calm.outlives("one server after another is restarted");
    }
}

#[test]
fn tokens_grow_over_a_restart_of_all_servers_and_in_each_term_after_it() {
    let mut ensemble = servers(3);
    let rig = over_all(&ensemble, PATIENT);
    let calm = Calm::of(&rig);
    ensemble.restart();
    calm.outlives("all servers were restarted");
    let epochs =
        || rig.tokens(ELECTION).iter().map(|token| token.parse::<u64>().unwrap() >> 32).max();
    let before = epochs();

    for (old, new) in calm.candidates.iter().zip(["d", "e", "f"]) {
        rig.start(new);
        let asked = old.terminate();
        assert_eq!(old.exit_code(), 0);
        rig.successor(old, asked, PATIENCE);
    }
    // The judge compares each term's token with the one before.
    assert_eq!(rig.tokens(ELECTION).len(), 4);
    assert!(epochs() > before, "those who joined after the restart have tokens of a later epoch");
}

#[test]
fn a_quorum_that_is_lost_costs_the_leader_its_term_in_time_and_the_followers_nothing() {
    let mut ensemble = servers(3);
    // So that nothing but the deadline can end the term so soon: the session lives on for long.
    let rig = over_all(&ensemble, Timing::of_ms(12_000, 6000, 1000, 1000));
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    for at in 0..2 {
        ensemble.member(at).server.kill();
    }
    let lost = rig.now();
    rig.must_not_lead(&leader, lost + rig.timing.renew_deadline, "no quorum could renew since");
    leader.loses(rig.timing.renew_deadline + Znodes::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    throughout(rig.timing.lease_duration, "the follower is well", || {
        follower.is_healthy() && follower.probe("/readyz") == 200
    });
    assert!(!follower.events("store_unreachable").is_empty(), "and says what it misses");
    for at in 0..2 {
        ensemble.member(at).restart();
    }
    eventually(PATIENCE, "the follower leads", || rig.has_standing(&follower, "leading"));
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}
