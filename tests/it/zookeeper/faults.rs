//! What Curator's `LeaderLatch` makes of faults of its server, of its link and of its process: stories that its real candidate
//! goes through and ours too, at the same times and on the same servers: README, "Beside Curator".
//!
//! A story ends with how long two could act as the leader. Where that is the point of it, Curator's two have to have been
//! able to, or the comparison is no longer true and has to go; of ours it has to show that none could. Each test prints
//! both figures.

use super::contender::Program;
use crate::rig::{
    Contender, Direction, Ensemble, Flow, Moment, Proxy, Rig, Settings, Timing, Znodes,
};
use std::net::SocketAddr;
use std::time::Duration;

/// The session time-out that both ask for. Curator knows no other duration.
const TIMING: Timing = Timing::of_ms(6000, 4000, 500, 500);

/// For how long two could act as the leader, in the story of each program.
#[derive(Debug)]
struct Overlap {
    curator: Duration,
    baton: Duration,
}

/// The leader of an election, and who waits behind it.
struct Pair<'a> {
    old: Contender<'a, Znodes>,
    new: Contender<'a, Znodes>,
}

impl Overlap {
    /// Tells what came of each, which of ours has to be nothing.
    #[expect(clippy::print_stdout, reason = "the figures of README")]
    fn judged([curator, baton]: [Duration; 2]) -> Self {
        let overlap = Self { curator, baton };
        println!("{overlap:?} at a session time-out of {:?}", TIMING.lease_duration);
        assert_eq!(overlap.baton, Duration::ZERO);
        overlap
    }
}

fn two_elections(ensemble: &Ensemble) -> [Rig<Znodes>; 2] {
    [(); 2].map(|()| Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), TIMING))
}

impl<'a> Pair<'a> {
    /// One of Curator's and one of ours: leaders at one server, the others at another one.
    fn of_each(rigs: &'a [Rig<Znodes>; 2], old_at: SocketAddr, new_at: SocketAddr) -> [Self; 2] {
        let [curator, baton] = rigs;
        [(curator, Program::Curator), (baton, Program::Baton)].map(|(rig, program)| {
            let old = Contender::start_at(rig, program, "old", &rig.store.servers_at(old_at));
            old.must_lead();
            let new = Contender::start_at(rig, program, "new", &rig.store.servers_at(new_at));
            new.must_follow();
            Self { old, new }
        })
    }

    /// Waits until the new one leads and the old one no more.
    fn overlap(&mut self) -> Duration {
        let led = self.new.must_lead();
        self.stopped().since(led)
    }

    /// When the old one stopped. Ours ends then; Curator's tries to come back.
    fn stopped(&mut self) -> Moment {
        let stopped = self.old.must_stop();
        if self.old.is_ours() {
            assert_eq!(self.old.exit_code(), 75);
        }
        stopped
    }
}

/// The server of the leader is cut off from the others, with the settings that servers come with, while the connection of its
/// client lives: it answers pings and reads until it gives up the others. Curator counts on the connection.
#[test]
fn a_leader_whose_server_is_cut_off_from_the_others() {
    let tick = Duration::from_secs(2);
    let ensemble = Ensemble::start(Settings {
        size: 3,
        tick,
        sync_limit: 5,
        can_be_cut: true,
        ..Settings::default()
    });
    let [lonely, other] = ensemble.followers()[..] else { panic!("two of three follow") };
    let rigs = two_elections(&ensemble);
    let mut pairs = Pair::of_each(&rigs, ensemble.address(lonely), ensemble.address(other));
    let cut = rigs.each_ref().map(Rig::now);
    ensemble.cut_off(lonely);
    let overlap = Overlap::judged(pairs.each_mut().map(Pair::overlap));
    for (pair, cut) in pairs.iter().zip(cut) {
        let program = if pair.old.is_ours() { "ours" } else { "Curator's" };
        println!(
            "{program} claimed to lead until {:?} after the cut",
            pair.old.must_stop().since(cut)
        );
    }
    assert!(overlap.curator >= Duration::from_millis(500), "{overlap:?}");
}

/// The network between the leader and its server swallows everything. Curator's client notices in two thirds of the session
/// time-out, and stops.
#[test]
fn a_leader_that_is_cut_off_from_its_server() {
    let server = Ensemble::shared().address(0);
    let proxy = Proxy::to(server);
    let rigs = two_elections(Ensemble::shared());
    let mut pairs = Pair::of_each(&rigs, proxy.address(), server);
    proxy.set(Direction::Requests, Flow::Hold);
    proxy.set(Direction::Replies, Flow::Hold);
    Overlap::judged(pairs.each_mut().map(Pair::overlap));
}

/// The leader is paused until another has succeeded it, and wakes up: Curator's until its client finds out.
#[test]
fn a_leader_that_wakes_up_deposed() {
    let server = Ensemble::shared().address(0);
    let rigs = two_elections(Ensemble::shared());
    let mut pairs = Pair::of_each(&rigs, server, server);
    for pair in &mut pairs {
        pair.old.pause();
    }
    Overlap::judged(pairs.each_mut().map(|pair| {
        pair.new.must_lead();
        let woken = pair.old.resume();
        pair.stopped().since(woken)
    }));
}
