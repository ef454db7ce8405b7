//! How each fault acts on the rig, how it ends, and how it proves that it has acted.
//!
//! Start with [`begin`].

mod link;
mod process;

use super::arena::{Arena, Target};
use super::fault::Fault;
use super::stores::Tortured;
use crate::rig::{Candidate, Delay, ELECTIONS, FewDescriptors};
pub(super) use link::on_link;
pub(super) use process::{Undo as ProcessUndo, Victim, on_process};
use rustix::process::Signal;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// When a second signal counts: docs/reference/exit-codes.md.
const SECOND_SIGNAL: Duration = Duration::from_millis(1200);

/// How long a clean stop takes, at least if the store answers.
const STOP: Duration = Duration::from_secs(3);

/// How long a single cut of the link may take to be seen.
const CUT: Duration = Duration::from_millis(400);

/// An error says why a fault is void: it did not act.
pub(super) type Proof = Result<(), String>;

/// Ends a fault.
pub(super) type Undo<'a, S> = Box<dyn FnOnce(&mut Arena<'a, S>) -> Proof + 'a>;

type Begun<'a, S> = Result<Undo<'a, S>, String>;

/// How long a fault lasts that was drawn with this length.
pub(super) fn length(fault: Fault, drawn: Duration) -> Duration {
    match fault {
        Fault::TerminateTwice => SECOND_SIGNAL,
        Fault::Kill
        | Fault::Restart
        | Fault::Terminate
        | Fault::Interrupt
        | Fault::HangUp
        | Fault::Resign
        | Fault::Stopping => STOP,
        Fault::Cut | Fault::Reset | Fault::Label | Fault::Usurp | Fault::Delete => CUT,
        Fault::Pause
        | Fault::Freeze
        | Fault::Starve
        | Fault::Descriptors
        | Fault::Partition
        | Fault::HoldRequests
        | Fault::HoldReplies
        | Fault::LoseReplies
        | Fault::Delay
        | Fault::Truncate
        | Fault::Refuse
        | Fault::Blackhole
        | Fault::StorePaused
        | Fault::StoreKilled
        | Fault::SlowDisk
        | Fault::FullDisk
        | Fault::DiskErrors
        | Fault::Rights => drawn,
    }
}

/// Makes a fault act.
pub(super) fn begin<'a, S: Tortured>(
    arena: &mut Arena<'a, S>,
    fault: Fault,
    target: Target,
) -> Begun<'a, S> {
    match target {
        Target::Slot(at) => on_candidate(arena, fault, at),
        Target::Record(election) => on_record(arena, fault, election),
        Target::Store => on_store(arena, fault),
    }
}

fn on_candidate<'a, S: Tortured>(
    arena: &mut Arena<'a, S>,
    fault: Fault,
    at: usize,
) -> Begun<'a, S> {
    let candidate = Arc::clone(&arena.slots[at].candidate);
    if fault == Fault::Kill {
        arena.forget(at);
    }
    if let Some(begun) = on_process(&candidate, fault) {
        return begun.map(anywhere);
    }
    let link = arena.slots[at].proxy.as_ref();
    if let Some(undo) = link.and_then(|proxy| on_link(proxy, fault)) {
        return Ok(anywhere(undo));
    }
    match fault {
        Fault::Resign => Ok(resign(candidate)),
        Fault::Stopping => Ok(stopping(candidate)),
        Fault::Descriptors => descriptors(arena, candidate, at),
        Fault::DiskErrors => Ok(disk_errors(candidate)),
        Fault::Kill
        | Fault::Restart
        | Fault::Terminate
        | Fault::Interrupt
        | Fault::HangUp
        | Fault::TerminateTwice
        | Fault::Pause
        | Fault::Freeze
        | Fault::Starve => Err("it affects no process alone".to_owned()),
        Fault::Partition
        | Fault::HoldRequests
        | Fault::HoldReplies
        | Fault::LoseReplies
        | Fault::Delay
        | Fault::Truncate
        | Fault::Refuse
        | Fault::Cut
        | Fault::Reset
        | Fault::Blackhole => Err("the store has no link".to_owned()),
        Fault::StorePaused
        | Fault::StoreKilled
        | Fault::SlowDisk
        | Fault::FullDisk
        | Fault::Rights
        | Fault::Label
        | Fault::Usurp
        | Fault::Delete => Err("it does not affect a candidate".to_owned()),
    }
}

/// Adapts the end of a fault that does not need the arena.
fn anywhere<'a, S: Tortured>(undo: ProcessUndo) -> Undo<'a, S> {
    Box::new(move |_| undo())
}

fn resign<'a, S: Tortured>(candidate: Arc<Candidate>) -> Undo<'a, S> {
    let answer = thread::spawn(move || candidate.baton("resign --hold-off 500ms").status.success());
    Box::new(move |_| {
        let has_resigned = answer.is_finished() && answer.join().is_ok_and(|success| success);
        proven(has_resigned, "it did not lead, or had not answered when the fault ended")
    })
}

/// From the answer on, it promises nothing. Only the signal makes it release.
fn stopping<'a, S: Tortured>(candidate: Arc<Candidate>) -> Undo<'a, S> {
    let asked = Arc::clone(&candidate);
    let answer = thread::spawn(move || asked.baton("stopping").status.success());
    Box::new(move |arena| {
        let has_withdrawn = answer.is_finished() && answer.join().is_ok_and(|success| success);
        if has_withdrawn {
            arena.rig.must_not_lead(&candidate, arena.rig.now(), "`baton stopping` had returned");
        }
        candidate.try_signal(Signal::TERM);
        proven(has_withdrawn, "it had not answered when the fault ended")
    })
}

/// Connections are cut, so that it needs a descriptor.
fn descriptors<'a, S: Tortured>(
    arena: &Arena<'a, S>,
    candidate: Arc<Candidate>,
    at: usize,
) -> Begun<'a, S> {
    let few = FewDescriptors::impose(candidate.pid()).ok_or("the process had ended")?;
    if let Some(proxy) = &arena.slots[at].proxy {
        proxy.cut();
    }
    Ok(Box::new(move |_| {
        let has_acted = few.is_exhausted() || !candidate.is_alive();
        drop(few);
        proven(has_acted, "the process had descriptors left")
    }))
}

/// strace lets each sync fail. It has acted if the process has logged a failure: a follower writes
/// nothing.
fn disk_errors<'a, S: Tortured>(candidate: Arc<Candidate>) -> Undo<'a, S> {
    let errors = Delay::failure_of_all_threads(candidate.pid(), "fsync,fdatasync", "EIO");
    let troubles = |candidate: &Candidate| {
        ["store_unreachable", "lost"].map(|event| candidate.events(event).len())
    };
    let before = troubles(&candidate);
    Box::new(move |_| {
        drop(errors);
        proven(troubles(&candidate) != before, "the process wrote nothing")
    })
}

fn on_record<'a, S: Tortured>(
    arena: &mut Arena<'a, S>,
    fault: Fault,
    election: usize,
) -> Begun<'a, S> {
    let (store, name) = (&arena.rig.store, ELECTIONS[election]);
    let acted = if fault == Fault::Label {
        store.label(name)
    } else if fault == Fault::Usurp {
        store.usurp(name)
    } else {
        let everyone_saw_it = arena.of(election).all(|slot| {
            let is = |standing| arena.rig.has_standing(&slot.candidate, standing);
            slot.candidate.is_alive() && (is("leading") || is("following"))
        });
        // A candidate that never saw the record may lead too early: docs/concepts/guarantees.md.
        if !everyone_saw_it || store.holder(name).is_empty() {
            return Err("a candidate has not seen the record".to_owned());
        }
        store.remove(name);
        arena.deleted.insert(election);
        true
    };
    if acted { Ok(Box::new(|_| Ok(()))) } else { Err("the store refused the edit".to_owned()) }
}

fn on_store<'a, S: Tortured>(arena: &mut Arena<'a, S>, fault: Fault) -> Begun<'a, S> {
    match fault {
        Fault::StorePaused => {
            if !S::pause(arena.server) {
                return Err("a candidate holds each lock".to_owned());
            }
            Ok(Box::new(|arena| {
                S::resume(arena.server);
                Ok(())
            }))
        }
        Fault::StoreKilled => {
            S::kill(arena.server);
            Ok(Box::new(|arena| {
                S::restart(arena.server);
                Ok(())
            }))
        }
        Fault::SlowDisk => {
            // strace cannot attach to a frozen process.
            let candidates = arena.undisturbed();
            let slow = S::slow_disk(arena.server, &candidates);
            Ok(Box::new(move |_| proven(!slow.is_empty(), "nothing writes to a disk")))
        }
        Fault::FullDisk => {
            if !S::fill_disk(arena.server) {
                return Err("the store has no disk of its own".to_owned());
            }
            Ok(Box::new(|arena| {
                proven(S::free_disk(arena.server), "the disk was not full when the fault ended")
            }))
        }
        Fault::Rights => {
            if !arena.rig.store.revoke_rights() {
                return Err("the candidates need no rights".to_owned());
            }
            Ok(Box::new(|arena| {
                arena.rig.store.grant_rights();
                Ok(())
            }))
        }
        Fault::Kill
        | Fault::Restart
        | Fault::Pause
        | Fault::Freeze
        | Fault::Starve
        | Fault::Terminate
        | Fault::Interrupt
        | Fault::HangUp
        | Fault::TerminateTwice
        | Fault::Resign
        | Fault::Stopping
        | Fault::Descriptors
        | Fault::Partition
        | Fault::HoldRequests
        | Fault::HoldReplies
        | Fault::LoseReplies
        | Fault::Delay
        | Fault::Truncate
        | Fault::Refuse
        | Fault::Cut
        | Fault::Reset
        | Fault::Blackhole
        | Fault::DiskErrors
        | Fault::Label
        | Fault::Usurp
        | Fault::Delete => Err("it does not affect the store".to_owned()),
    }
}

fn proven(has_acted: bool, otherwise: &str) -> Proof {
    if has_acted { Ok(()) } else { Err(otherwise.to_owned()) }
}
