//! Faults of the server, the link, and the process, for Curator's `LeaderLatch` and for Baton at
//! the same time and on the same servers. docs/comparison.md quotes the figures.
//!
//! Each test prints for how long two candidates of a program could act as the leader. For Baton,
//! this has to be zero. With an isolated server it must not be zero for Curator: otherwise the
//! comparison is outdated.

use super::contender::Program;
use crate::rig::{
    Contender, Direction, Ensemble, Flow, Moment, Proxy, Rig, Settings, Timing, Znodes,
};
use std::net::SocketAddr;
use std::time::Duration;

/// The session timeout of both programs. Curator has no other duration.
const TIMING: Timing = Timing::of_ms(6000, 4000, 500, 500);

/// For how long two candidates of each program could act as the leader.
#[derive(Debug)]
struct Overlap {
    curator: Duration,
    baton: Duration,
}

/// The leader of an election, and the candidate behind it.
struct Pair<'a> {
    old: Contender<'a, Znodes>,
    new: Contender<'a, Znodes>,
}

impl Overlap {
    /// Prints both figures, and checks that Baton's is zero.
    #[expect(clippy::print_stdout, reason = "the figures of docs/comparison.md")]
    fn checked([curator, baton]: [Duration; 2]) -> Self {
        let overlap = Self { curator, baton };
        println!("{overlap:?} at a session timeout of {:?}", TIMING.lease_duration);
        assert_eq!(overlap.baton, Duration::ZERO);
        overlap
    }
}

fn two_elections(ensemble: &Ensemble) -> [Rig<Znodes>; 2] {
    [(); 2].map(|()| Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), TIMING))
}

impl<'a> Pair<'a> {
    /// A pair of each program: the leaders connect to `old_at`, and the others to `new_at`.
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

    /// Waits until the new candidate leads and the old one has stopped: how long both did.
    fn overlap(&mut self) -> Duration {
        let led = self.new.must_lead();
        self.stopped().since(led)
    }

    /// When the old candidate stopped. Baton's exits then, and Curator's tries to rejoin.
    fn stopped(&mut self) -> Moment {
        let stopped = self.old.must_stop();
        if self.old.is_ours() {
            assert_eq!(self.old.exit_code(), 75);
        }
        stopped
    }
}

/// The leader's server is partitioned from the others, with default settings, and stays connected
/// to its client. It answers pings and reads until it gives up the others. Curator trusts the
/// connection.
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
    let [isolated, other] = ensemble.followers()[..] else { panic!("two of three follow") };
    let rigs = two_elections(&ensemble);
    let mut pairs = Pair::of_each(&rigs, ensemble.address(isolated), ensemble.address(other));
    let cut = rigs.each_ref().map(Rig::now);
    ensemble.cut_off(isolated);
    let overlap = Overlap::checked(pairs.each_mut().map(Pair::overlap));
    for (pair, cut) in pairs.iter().zip(cut) {
        let program = if pair.old.is_ours() { "ours" } else { "Curator's" };
        println!(
            "{program} claimed to lead until {:?} after the cut",
            pair.old.must_stop().since(cut)
        );
    }
    assert!(overlap.curator >= Duration::from_millis(500), "{overlap:?}");
}

/// The network between the leader and its server drops everything. Curator's client notices within
/// two thirds of the session timeout, and stops.
#[test]
fn a_leader_that_is_cut_off_from_its_server() {
    let server = Ensemble::shared().address(0);
    let proxy = Proxy::to(server);
    let rigs = two_elections(Ensemble::shared());
    let mut pairs = Pair::of_each(&rigs, proxy.address(), server);
    proxy.set(Direction::Requests, Flow::Hold);
    proxy.set(Direction::Replies, Flow::Hold);
    Overlap::checked(pairs.each_mut().map(Pair::overlap));
}

/// The leader is paused until another has succeeded it, and resumes. Curator's acts as the leader
/// until its client finds out.
#[test]
fn a_leader_that_wakes_up_deposed() {
    let server = Ensemble::shared().address(0);
    let rigs = two_elections(Ensemble::shared());
    let mut pairs = Pair::of_each(&rigs, server, server);
    for pair in &mut pairs {
        pair.old.pause();
    }
    Overlap::checked(pairs.each_mut().map(|pair| {
        pair.new.must_lead();
        let resumed = pair.old.resume();
        pair.stopped().since(resumed)
    }));
}
