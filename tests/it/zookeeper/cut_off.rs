//! A server that is partitioned from its ensemble while its clients stay connected. For seconds it
//! answers pings and reads, and none of its answers proves that a session is alive.

use super::PATIENCE;
use crate::rig::{
    Candidate, Direction, ELECTION, Ensemble, Flow, Moment, Proxy, Rig, Settings, Store as _,
    Timing, Znodes,
};
use crate::rig::{eventually, wait_for};
use std::sync::Arc;
use std::time::Duration;

/// Three servers, one of which can be partitioned from the others. The leader is connected to it
/// through a proxy, and the follower to another one.
struct Scene {
    rig: Rig<Znodes>,
    ensemble: Ensemble,
    isolated: usize,
    proxy: Proxy,
    leader: Arc<Candidate>,
    follower: Arc<Candidate>,
}

impl Scene {
    fn start(settings: Settings, timing: Timing, flags: &[(&'static str, &str)]) -> Self {
        let ensemble = Ensemble::start(Settings { size: 3, can_be_cut: true, ..settings });
        let [isolated, other] = ensemble.followers()[..] else { panic!("two of three follow") };
        let proxy = Proxy::to(ensemble.address(isolated));
        let rig = Rig::over(Znodes::on(&ensemble, &proxy.address().to_string()), timing);
        let candidate = |name| {
            flags.iter().fold(rig.candidate(name), |start, (flag, value)| start.flag(flag, *value))
        };
        let leader = candidate("a").start();
        assert_eq!(rig.leader().identity, leader.identity);
        let elsewhere = rig.store.servers_at(ensemble.address(other));
        let follower = candidate("b").flag("--zookeeper-servers", elsewhere).start();
        eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
        Self { rig, ensemble, isolated, proxy, leader, follower }
    }

    /// Waits for the successor and for the leader's exit. Only the other servers learn that the
    /// leader's session has ended, and the leader has to be silent by then.
    fn assert_succession(&self, cut: Moment) {
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

    /// Waits until this many more renewals of the leader are acknowledged.
    fn await_renewals(&self, more: f64) {
        let before = self.renewals();
        eventually(PATIENCE, "renewals are acknowledged", || self.renewals() >= before + more);
    }
}

#[test]
fn leader_at_an_isolated_server_stops_before_another_leads() {
    let scene = Scene::start(Settings { sync_limit: 40, ..Settings::default() }, Znodes::FAST, &[]);
    let cut = scene.rig.now();
    scene.ensemble.cut_off(scene.isolated);
    scene.rig.must_not_lead(
        &scene.leader,
        cut + Znodes::FAST.renew_deadline,
        "no renewal was acknowledged",
    );
    scene.assert_succession(cut);
    assert!(scene.ensemble.is_serving(scene.isolated), "its server kept serving it");
}

/// With the default tick and limit, an isolated server keeps serving for 10 s, which is longer than
/// this session.
#[test]
fn leader_stops_in_time_under_default_server_settings() {
    let defaults = Settings { tick: Duration::from_secs(2), sync_limit: 5, ..Settings::default() };
    let scene = Scene::start(defaults, Znodes::FAST, &[]);
    let cut = scene.rig.now();
    scene.ensemble.cut_off(scene.isolated);
    scene.rig.must_not_lead(
        &scene.leader,
        cut + Znodes::FAST.renew_deadline,
        "no renewal was acknowledged",
    );
    scene.assert_succession(cut);
}

/// The server reported this session to the others for the last time before the stall. It answers
/// renewals after the stall, but can no longer pass them on.
#[test]
fn claim_counts_from_before_a_stall_of_the_link() {
    let timing = Timing::of_ms(15_000, 12_400, 3200, 500);
    let settings = Settings { tick: Duration::from_secs(1), sync_limit: 40, ..Settings::default() };
    // All processes share one clock, and a larger allowance for drift would hide a bug.
    let scene = Scene::start(settings, timing, &[("--max-clock-drift", "1%")]);
    let Scene { rig, ensemble, isolated, proxy, leader, .. } = &scene;
    let stall = timing.lease_duration.mul_f64(0.39);
    assert!(timing.retry_period + timing.call_timeout() > stall, "no call of this stall times out");

    scene.await_renewals(2.0);
    let connects = scene.connects();
    let stalled = rig.now();
    proxy.set(Direction::Requests, Flow::Hold);
    let until = stalled + stall;
    wait_for(PATIENCE, "the link has stalled long enough", || (rig.now() >= until).then_some(()));
    let before = scene.renewals();
    proxy.set(Direction::Requests, Flow::Pass);
    // The renewal that was held, and one that was sent after its reply.
    eventually(PATIENCE, "two renewals are acknowledged", || scene.renewals() >= before + 2.0);
    let cut = rig.now();
    ensemble.cut_off(*isolated);
    assert!(scene.connects() <= connects, "the leader reconnected, so this run shows nothing");

    let why = "its session may have expired: its server passed no later heartbeat on";
    rig.must_not_lead(leader, stalled + timing.lease_duration, why);
    scene.assert_succession(cut);
}
