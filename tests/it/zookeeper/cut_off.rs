//! A server that is cut off from the others while its clients stay connected: for seconds it answers their pings and reads,
//! and nothing that it says proves that their sessions live.

use super::PATIENCE;
use crate::rig::{
    Candidate, Direction, ELECTION, Ensemble, Flow, Moment, Proxy, Rig, Settings, Store as _,
    Timing, Znodes,
};
use crate::rig::{eventually, wait_for};
use std::sync::Arc;
use std::time::Duration;

/// Three servers of which one can be made lonely, and a leader of ours there, by a way that can be stalled; a follower of
/// ours stands elsewhere.
struct Scene {
    rig: Rig<Znodes>,
    ensemble: Ensemble,
    lonely: usize,
    way: Proxy,
    leader: Arc<Candidate>,
    follower: Arc<Candidate>,
}

impl Scene {
    fn set(settings: Settings, timing: Timing, flags: &[(&'static str, &str)]) -> Self {
        let ensemble = Ensemble::start(Settings { size: 3, can_be_cut: true, ..settings });
        let [lonely, other] = ensemble.followers()[..] else { panic!("two of three follow") };
        let way = Proxy::to(ensemble.address(lonely));
        let rig = Rig::over(Znodes::on(&ensemble, &way.address().to_string()), timing);
        let candidate = |name| {
            flags.iter().fold(rig.candidate(name), |start, (flag, value)| start.flag(flag, *value))
        };
        let leader = candidate("a").start();
        assert_eq!(rig.leader().identity, leader.identity);
        let elsewhere = rig.store.servers_at(ensemble.address(other));
        let follower = candidate("b").flag("--zookeeper-servers", elsewhere).start();
        eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
        Self { rig, ensemble, lonely, way, leader, follower }
    }

    /// Waits for the leader's end, and for its successor: whose session it was that ended is known to the other servers
    /// only, and the leader has to be silent by then.
    fn is_succeeded_after(&self, cut: Moment) {
        let rig = &self.rig;
        assert_eq!(
            rig.successor(&self.leader, cut, rig.store.takeover(rig.timing)).0.identity,
            self.follower.identity
        );
        assert_eq!(self.leader.exit_code(), 75);
        assert_eq!(rig.tokens(ELECTION).len(), 2);
    }

    fn renewals(&self) -> f64 {
        let series = format!("baton_renewals_total{{election=\"{ELECTION}\",outcome=\"applied\"}}");
        self.leader.metric(&series).expect("it is counted")
    }

    fn connects(&self) -> f64 {
        let outcomes = ["applied", "conflict", "unknown"].map(|outcome| {
            let labels = format!("election=\"{ELECTION}\",outcome=\"{outcome}\",verb=\"connect\"");
            self.leader
                .metric(&format!("baton_store_requests_total{{{labels}}}"))
                .expect("it is counted")
        });
        outcomes.iter().sum()
    }

    /// Waits until the leader has had so many more renewals acknowledged.
    fn await_renewals(&self, more: f64) {
        let before = self.renewals();
        eventually(PATIENCE, "renewals are acknowledged", || self.renewals() >= before + more);
    }
}

#[test]
fn a_leader_at_a_server_that_is_cut_off_stops_before_another_leads() {
    let scene = Scene::set(Settings { sync_limit: 40, ..Settings::default() }, Znodes::FAST, &[]);
    let cut = scene.rig.now();
    scene.ensemble.cut_off(scene.lonely);
    scene.rig.must_not_lead(
        &scene.leader,
        cut + Znodes::FAST.renew_deadline,
        "nothing was acknowledged since",
    );
    scene.is_succeeded_after(cut);
    assert!(scene.ensemble.is_serving(scene.lonely), "its server has served it all along");
}

/// Of the usual tick and limit: a server that hears nothing serves for 10 s, which is longer than this session.
#[test]
fn a_leader_at_a_server_of_usual_settings_stops_before_another_leads() {
    let usual = Settings { tick: Duration::from_secs(2), sync_limit: 5, ..Settings::default() };
    let scene = Scene::set(usual, Znodes::FAST, &[]);
    let cut = scene.rig.now();
    scene.ensemble.cut_off(scene.lonely);
    scene.rig.must_not_lead(
        &scene.leader,
        cut + Znodes::FAST.renew_deadline,
        "nothing was acknowledged since",
    );
    scene.is_succeeded_after(cut);
}

/// What the server heard last of us it told the others long ago, and what it answers now it will not tell them any more.
#[test]
fn a_leader_whose_link_had_stalled_counts_from_before_the_stall_when_its_server_is_cut_off() {
    let timing = Timing::of_ms(15_000, 12_400, 3200, 500);
    let settings = Settings { tick: Duration::from_secs(1), sync_limit: 40, ..Settings::default() };
    // All clocks here are one, and what a claim leaves out for their drift would hide a fault.
    let scene = Scene::set(settings, timing, &[("--max-clock-drift", "1%")]);
    let Scene { rig, ensemble, lonely, way, leader, .. } = &scene;
    let stall = timing.lease_duration.mul_f64(0.39);
    assert!(timing.retry_period + timing.call_timeout() > stall, "no call of this stall times out");

    scene.await_renewals(2.0);
    let connects = scene.connects();
    let stalled = rig.now();
    way.set(Direction::Requests, Flow::Hold);
    let until = stalled + stall;
    wait_for(PATIENCE, "the link has stalled long enough", || (rig.now() >= until).then_some(()));
    let before = scene.renewals();
    way.set(Direction::Requests, Flow::Pass);
    // The one that was held, and one that was sent after its answer.
    eventually(PATIENCE, "two renewals are acknowledged", || scene.renewals() >= before + 2.0);
    let cut = rig.now();
    ensemble.cut_off(*lonely);
    assert!(scene.connects() <= connects, "it had to connect again: this run shows nothing");

    let why = "a session lives that long after the last sign that its server had surely passed on";
    rig.must_not_lead(leader, stalled + timing.lease_duration, why);
    scene.is_succeeded_after(cut);
}
