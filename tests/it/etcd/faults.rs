//! Faults of `concurrency.Election` of etcd's Go client: the same scenario runs with its candidates
//! and with ours at the same time. docs/comparison.md quotes the figures.
//!
//! Each scenario measures how long two candidates could act as the leader. Those of etcd's client
//! must show the fault, or the comparison is outdated and must go; ours must not.

use super::PATIENCE;
use super::contender::{Program, prefix};
use crate::rig::{
    Contender, Delay, Direction, ELECTION, Etcd, EtcdKeys, EtcdSettings, Flow, Peer, Proxy, Rig,
    Store as _, Timing, eventually, side_by_side,
};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

/// client-go's defaults (15 s, 10 s, and 2 s), each times 2/5. The session of etcd's client is as
/// long as the lease.
const DEFAULTS: Timing = Timing::of_ms(6000, 4000, 800, 800);

/// The lease outlasts a stop of the members' leader for eight seconds.
const LONG: Timing = Timing::of_ms(10_000, 7000, 500, 500);

/// The member answers from memory if a keepalive comes after its first tick. In half of the runs,
/// none does.
const ROUNDS: usize = 6;

/// How long two candidates of one program could act as the leader.
#[derive(Debug)]
struct Overlap {
    go: Duration,
    baton: Duration,
}

/// Runs the same scenario with both programs at the same time, and prints the figures.
#[expect(clippy::print_stdout, reason = "the documentation quotes the figures")]
fn compare(what: &str, timing: Timing, scenario: impl Fn(Program) -> Duration + Sync) -> Overlap {
    let [go, baton] = side_by_side([Program::Go, Program::Baton], scenario);
    let overlap = Overlap { go, baton };
    println!("{what}: {overlap:?} at {timing:?}");
    assert_eq!(overlap.baton, Duration::ZERO);
    overlap
}

/// The members' leader is cut off and stopped for eight seconds, together with the candidate that
/// leads. When it resumes, it renews the lease from memory, although the others have ended it.
#[test]
fn renewal_by_a_stopped_and_isolated_member_is_none() {
    let long = Duration::from_secs(2);
    let overlap = compare("stopped and isolated", LONG, |program| match program {
        Program::Go => {
            let mut rounds = (0..ROUNDS).map(|_| stopped_and_isolated(program));
            rounds.find(|overlap| *overlap >= long).unwrap_or_default()
        }
        Program::Baton => stopped_and_isolated(program),
    });
    assert!(overlap.go >= long, "{overlap:?}");
}

fn stopped_and_isolated(program: Program) -> Duration {
    let mut etcd = Etcd::start(EtcdSettings::cluster());
    let isolated = etcd.leader();
    let others: Vec<_> = etcd.followers().into_iter().map(|at| etcd.url(at)).collect();
    let rig = Rig::over(EtcdKeys::on(&etcd), LONG);
    let mut old = Contender::start(&rig, program, "old", &etcd.url(isolated));
    old.must_lead();
    let new = Contender::start(&rig, program, "new", &others.join(","));
    new.must_follow();
    etcd.cut_off(isolated);
    etcd.member(isolated).server.pause();
    thread::sleep(Duration::from_secs(8));
    etcd.member(isolated).server.resume();
    let led = new.must_lead();
    let stopped = old.must_stop();
    old.must_have_lost();
    stopped.since(led)
}

/// An operator deletes the leader's key, or another program does. A candidate of etcd's client
/// watches its session and not its key, so it goes on.
#[test]
fn leader_stops_when_its_key_is_deleted() {
    let overlap = compare("deleted key", DEFAULTS, |program| {
        let rig = Rig::over(EtcdKeys::fresh(), DEFAULTS);
        let url = Etcd::shared().url(0);
        let mut old = Contender::start(&rig, program, "old", &url);
        old.must_lead();
        let new = Contender::start(&rig, program, "new", &url);
        new.must_follow();
        match program {
            Program::Go => rig.store.admin.delete_first(&prefix(&rig)),
            Program::Baton => rig.store.remove(ELECTION),
        }
        let led = new.must_lead();
        let end = led + rig.timing.lease_duration;
        eventually(PATIENCE, "a lease duration passes", || rig.now() >= end);
        let overlap = old.stopped().unwrap_or(end).since(led);
        if program == Program::Baton {
            old.must_have_lost();
        }
        overlap
    });
    assert_eq!(overlap.go, DEFAULTS.lease_duration);
}

/// `etcdctl elect` is the same code, with a session of 60 s.
#[test]
fn etcdctl_elect_goes_on_without_its_key() {
    let rig = Rig::over(EtcdKeys::fresh(), DEFAULTS);
    let start = |name: &str| {
        let log = rig.folder().join(format!("{name}.log"));
        Peer::etcdctl_elect(Etcd::shared().address(0), &prefix(&rig), name, log)
    };
    let leads = |peer: &Peer| eventually(PATIENCE, "it leads", || !peer.log().is_empty());
    let mut old = start("old");
    leads(&old);
    let new = start("new");
    eventually(PATIENCE, "the other waits", || rig.store.admin.count(&prefix(&rig)) == 2);
    rig.store.admin.delete_first(&prefix(&rig));
    leads(&new);
    let end = rig.now() + DEFAULTS.lease_duration;
    eventually(PATIENCE, "a lease duration passes", || rig.now() >= end);
    assert_eq!(old.process.exit_code(), None, "both go on");
}

/// The leader is paused until another has succeeded it, and resumes.
#[test]
fn deposed_leader_stops_when_it_resumes() {
    compare("paused", DEFAULTS, |program| {
        let rig = Rig::over(EtcdKeys::fresh(), DEFAULTS);
        let url = Etcd::shared().url(0);
        let mut old = Contender::start(&rig, program, "old", &url);
        old.must_lead();
        let new = Contender::start(&rig, program, "new", &url);
        new.must_follow();
        old.pause();
        new.must_lead();
        let resumed = old.resume();
        let stopped = old.must_stop();
        old.must_have_lost();
        stopped.since(resumed)
    });
}

/// The network between the leader and its member drops everything.
#[test]
fn partitioned_leader_stops_in_time() {
    compare("partitioned", DEFAULTS, |program| {
        let rig = Rig::over(EtcdKeys::fresh(), DEFAULTS);
        let proxy = Proxy::to(Etcd::shared().address(0));
        let mut old =
            Contender::start(&rig, program, "old", &format!("http://{}", proxy.address()));
        old.must_lead();
        let new = Contender::start(&rig, program, "new", &Etcd::shared().url(0));
        new.must_follow();
        for direction in [Direction::Requests, Direction::Replies] {
            proxy.set(direction, Flow::Hold);
        }
        let led = new.must_lead();
        let stopped = old.must_stop();
        old.must_have_lost();
        stopped.since(led)
    });
}

/// The effect of the fault on Baton's term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// The leader keeps it.
    None,
    /// It ends, and the other candidate leads.
    EndsTheTerm,
}

/// Injects a fault into the members that both candidates use.
#[expect(clippy::print_stdout, reason = "the documentation quotes whether the term ended")]
fn meet(
    program: Program,
    timing: Timing,
    settings: EtcdSettings,
    effect: Effect,
    fault: impl FnOnce(&mut Etcd),
) -> Duration {
    let mut etcd = Etcd::start(settings);
    let rig = Rig::over(EtcdKeys::on(&etcd), timing);
    let endpoints = etcd.endpoints();
    let mut old = Contender::start(&rig, program, "old", &endpoints);
    old.must_lead();
    let new = Contender::start(&rig, program, "new", &endpoints);
    new.must_follow();
    fault(&mut etcd);
    etcd.await_serving();
    let end = rig.now() + rig.timing.takeover() + EtcdKeys::NOISE;
    eventually(PATIENCE, "a successor had time to take over", || rig.now() >= end);
    let overlap = new.led().map(|led| old.stopped().unwrap_or(end).since(led));
    let term = if old.stopped().is_none() { "lasted" } else { "ended" };
    println!("{program:?}: the term {term}, and another began: {}", overlap.is_some());
    if program == Program::Baton {
        let has_ended = effect == Effect::EndsTheTerm;
        assert_eq!((old.stopped().is_some(), overlap.is_some()), (has_ended, has_ended));
        if has_ended {
            old.must_have_lost();
        }
    }
    overlap.unwrap_or_default()
}

/// Waits longer than the lease and than calls may wait in a member.
fn outlast(timing: Timing) {
    thread::sleep(timing.lease_duration + timing.renew_deadline);
}

#[test]
fn one_leads_while_the_database_is_full() {
    compare("full database", DEFAULTS, |program| {
        let settings = EtcdSettings::with_flags(&["--quota-backend-bytes=4194304"]);
        meet(program, DEFAULTS, settings, Effect::EndsTheTerm, |etcd| {
            let (admin, large) = (etcd.admin(), "x".repeat(512 << 10));
            eventually(PATIENCE, "the database is full", || admin.try_put("/x", &large).is_err());
            outlast(DEFAULTS);
            assert!(admin.try_put("/x", "").is_err(), "it is still full");
            admin.compact();
            etcd.etcdctl(&["defrag"]);
            etcd.etcdctl(&["alarm", "disarm"]);
        })
    });
}

#[test]
fn one_leads_while_the_disk_hangs() {
    compare("fdatasync takes 9 s", DEFAULTS, |program| {
        let settings = EtcdSettings { waits_for_disk: true, ..EtcdSettings::default() };
        meet(program, DEFAULTS, settings, Effect::EndsTheTerm, |etcd| {
            let pid = etcd.member(0).server.pid();
            let disk = Delay::of_all_threads(pid, "fdatasync", Duration::from_secs(9));
            outlast(DEFAULTS);
            let begun = Instant::now();
            let written = etcd.admin().try_put("/probe", "");
            assert!(written.is_err() || begun.elapsed() > Duration::from_secs(1), "it is slow");
            drop(disk);
        })
    });
}

#[test]
fn one_leads_while_the_members_leader_moves() {
    compare("move-leader every 2 s", LONG, |program| {
        meet(program, LONG, EtcdSettings::cluster(), Effect::None, |etcd| {
            let moves = (0..8).filter(|_| {
                let before = etcd.leader();
                etcd.move_leader();
                thread::sleep(Duration::from_secs(2));
                etcd.leader() != before
            });
            let moves = moves.count();
            assert!(moves > 3, "the members' leader moved {moves} times");
        })
    });
}

/// The first endpoint is the one that Baton's candidates use.
#[test]
fn one_leads_while_a_member_is_down() {
    compare("members killed, one after another", LONG, |program| {
        meet(program, LONG, EtcdSettings::cluster(), Effect::None, |etcd| {
            for at in [etcd.leader(), 0] {
                etcd.member(at).server.kill();
                outlast(LONG);
                etcd.member(at).server.restart();
                etcd.await_serving();
            }
        })
    });
}

#[test]
fn one_leads_although_the_quorum_is_lost() {
    compare("quorum killed", DEFAULTS, |program| {
        meet(program, DEFAULTS, EtcdSettings::cluster(), Effect::EndsTheTerm, |etcd| {
            for at in [1, 2] {
                etcd.member(at).server.kill();
            }
            outlast(DEFAULTS);
            let read = etcd.admin().try_call("/v3/kv/range", &json!({ "key": "eA==" }));
            assert!(read.is_err(), "there is no quorum");
            for at in [1, 2] {
                etcd.member(at).server.restart();
            }
        })
    });
}
