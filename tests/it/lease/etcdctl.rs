//! Faults of `etcdctl lock` and of `baton exec` at the same time: for how long two commands ran at
//! once. docs/comparison.md quotes the figures.
//!
//! Touches the shared API server, an etcd, and processes. Start with [`compare`]. Both programs run
//! the same command, which ignores SIGTERM, with a session or a lease of the same length. etcdctl
//! must show an overlap, or the comparison is outdated and must go. Baton must show none.

use crate::rig::{
    ApiServer, Contender, Direction, Etcd, Flow, Leases, Ledger, Peer, Proxy, Rig, Side,
    Store as _, Timing, eventually, side_by_side, uptime,
};
use std::net::SocketAddr;
use std::time::Duration;

/// client-go's defaults (15 s, 10 s, and 2 s), each times 2/5. The session of etcdctl is as long
/// as the lease.
const TIMING: Timing = Timing::of_ms(6000, 4000, 800, 800);

/// Goes on until it is killed.
const COMMAND: &str = "trap '' TERM; note";

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    Etcdctl,
    Baton,
}

/// A fault of the process that holds the election, and what ends it.
struct Fault {
    begin: fn(&mut Contender<'_, Leases>, &Proxy),
    end: fn(&mut Contender<'_, Leases>),
    /// The exit code of Baton's.
    code: i32,
}

/// The result of one fault for one program.
#[derive(Debug)]
#[expect(dead_code, reason = "the figures are printed")]
struct Outcome {
    /// For how long two commands ran at once, until the test ended.
    overlap: Duration,
    /// When the next command began, after the fault.
    next_began_after: Duration,
}

/// Runs the same scenario with both programs at the same time, and prints the outcomes.
#[expect(clippy::print_stdout, reason = "the documentation quotes the figures")]
fn compare(what: &str, fault: &Fault) {
    let programs = [Program::Etcdctl, Program::Baton];
    let [etcdctl, baton] = side_by_side(programs, |program| outcome(program, fault));
    println!("{what}: etcdctl: {etcdctl:?}, baton: {baton:?} at {TIMING:?}");
    assert!(etcdctl.overlap >= TIMING.lease_duration.mul_f64(0.75), "{etcdctl:?}");
    assert_eq!(baton.overlap, Duration::ZERO);
}

/// Two candidates, and a fault of the one that leads. The other runs its command for a lease
/// duration, and the fault ends after half of it.
fn outcome(program: Program, fault: &Fault) -> Outcome {
    let rig = Rig::over(Leases::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let proxy = Proxy::to(program.store());
    let mut old = start(&rig, &ledger, program, "old", proxy.address());
    let first = ledger.next_token(&[]);
    let mut new = start(&rig, &ledger, program, "new", program.store());
    eventually(PATIENCE, "the other waits", || match &new.process {
        Side::Theirs(_) => Etcd::shared().sessions(lock_of(&rig)) == 2,
        Side::Ours(ours) => rig.has_standing(ours, "following"),
    });
    let struck = uptime();
    (fault.begin)(&mut old, &proxy);
    let second = ledger.next_token(&[first]);
    let began = ledger.first(second);
    let runs_for = |duration| {
        eventually(PATIENCE, &format!("the other's command runs for {duration:?}"), || {
            ledger.last(second) >= began + duration
        });
    };
    runs_for(TIMING.lease_duration / 2);
    (fault.end)(&mut old);
    runs_for(TIMING.lease_duration);
    let overlap = ledger.last(first).min(ledger.last(second)).saturating_sub(began);
    if program == Program::Baton {
        assert_eq!(old.exit_code(), fault.code);
        new.terminate();
        assert_eq!(new.exit_code(), 128 + 9, "its command had to be killed");
        ledger.check();
    }
    Outcome { overlap, next_began_after: began.saturating_sub(struck) }
}

fn start<'a>(
    rig: &'a Rig<Leases>,
    ledger: &Ledger<'a, Leases>,
    program: Program,
    name: &str,
    store: SocketAddr,
) -> Contender<'a, Leases> {
    let process = match program {
        Program::Etcdctl => {
            let script = ledger.script_under_lock(COMMAND);
            let log = rig.folder().join(format!("{name}.log"));
            Side::Theirs(Peer::etcdctl(store, lock_of(rig), TIMING.lease_duration, &script, log))
        }
        Program::Baton => {
            let access = rig.store.account.access.through(store);
            Side::Ours(ledger.candidate(name, COMMAND).by(&access).start())
        }
    };
    Contender::new(rig, name, process)
}

/// The lock of a rig, in the etcd that all tests share: named after its namespace.
fn lock_of(rig: &Rig<Leases>) -> &str {
    &rig.store.namespace.name
}

impl Program {
    fn store(self) -> SocketAddr {
        match self {
            Self::Etcdctl => Etcd::shared().address(0),
            Self::Baton => ApiServer::shared().address(),
        }
    }
}

/// The leader is paused until another has succeeded it, and resumes.
#[test]
fn command_of_a_paused_leader_ends_in_time() {
    let resume = |old: &mut Contender<'_, Leases>| {
        old.resume();
    };
    compare("paused", &Fault { begin: |old, _| old.pause(), end: resume, code: 75 });
}

/// The leader is killed. Nothing supervises the command of etcdctl after that.
#[test]
fn command_of_a_killed_leader_ends_in_time() {
    let kill = |old: &mut Contender<'_, Leases>, _: &Proxy| {
        old.kill();
    };
    compare("killed", &Fault { begin: kill, end: |_| (), code: 128 + 9 });
}

/// The network between the leader and its store drops everything.
#[test]
fn command_of_a_partitioned_leader_ends_in_time() {
    let partition = |_: &mut Contender<'_, Leases>, proxy: &Proxy| {
        proxy.set(Direction::Requests, Flow::Hold);
        proxy.set(Direction::Replies, Flow::Hold);
    };
    compare("partitioned", &Fault { begin: partition, end: |_| (), code: 75 });
}
