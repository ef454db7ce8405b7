//! A candidate of any program in one election, ours or a peer's, and when it led, on one clock: so that one story can be
//! told of each. How they are started is up to the tests of each store.

use super::{Candidate, Moment, Peer, Rig, Store, wait_for};
use crate::noise::{this_case, work_for};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long anything may take that is only waited for, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Contender<'a, S: Store> {
    pub(crate) rig: &'a Rig<S>,
    pub(crate) name: String,
    pub(crate) process: Side,
    killed: Option<Moment>,
}

pub(crate) enum Side {
    Ours(Arc<Candidate>),
    Theirs(Peer),
}

/// How a leader ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parting {
    Released,
    Killed,
}

/// One change of leader, and how long there was none.
#[derive(Clone)]
pub(crate) struct Handoff {
    pub(crate) to_ours: bool,
    pub(crate) end: Parting,
    pub(crate) gap: Duration,
}

/// Tells a story of each, all at the same time, since most of a story is waiting: what came of each.
pub(crate) fn side_by_side<P: Send, T: Send, const N: usize>(
    of: [P; N],
    story: impl Fn(P) -> T + Sync,
) -> [T; N] {
    thread::scope(|scope| {
        let (story, case) = (&story, this_case());
        let told = of.map(|each| {
            scope.spawn(move || {
                work_for(case);
                story(each)
            })
        });
        told.map(|story| story.join().unwrap_or_else(|failure| resume_unwind(failure)))
    })
}

/// Says how long handoffs of each kind took, of which there have to be so many each way: the medians of releases, to theirs
/// and to ours.
#[expect(clippy::print_stdout, reason = "what a test of handoffs is asked for next")]
pub(crate) fn medians_of_releases(handoffs: &[Handoff], each_way: usize) -> [Duration; 2] {
    let medians = [false, true].map(|to_ours| {
        assert_eq!(handoffs.iter().filter(|handoff| handoff.to_ours == to_ours).count(), each_way);
        [Parting::Killed, Parting::Released].map(|end| {
            let of_kind =
                handoffs.iter().filter(|handoff| handoff.to_ours == to_ours && handoff.end == end);
            let mut gaps: Vec<Duration> = of_kind.map(|handoff| handoff.gap).collect();
            gaps.sort();
            let (median, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
            let to = if to_ours { "ours" } else { "theirs" };
            println!(
                "{end:?}, to {to}: no leader for {median:?} in the median, {longest:?} at the most"
            );
            median
        })
    });
    medians.map(|[_killed, released]| released)
}

/// Waits for one of several to lead: its place among them, and since when.
#[track_caller]
pub(crate) fn first_to_lead<S: Store>(contenders: &[Contender<'_, S>]) -> (usize, Moment) {
    let leading = || {
        contenders.iter().enumerate().find_map(|(place, contender)| Some((place, contender.led()?)))
    };
    wait_for(PATIENCE, "one of the others leads", leading)
}

impl<'a, S: Store> Contender<'a, S> {
    pub(crate) fn new(rig: &'a Rig<S>, name: &str, process: Side) -> Self {
        Self { rig, name: name.to_owned(), process, killed: None }
    }

    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.process, Side::Ours(_))
    }

    /// Waits until it leads: since when.
    #[track_caller]
    pub(crate) fn must_lead(&self) -> Moment {
        wait_for(PATIENCE, &format!("{} leads", self.name), || self.led())
    }

    /// Waits until nobody may act on its word any more: since when.
    #[track_caller]
    pub(crate) fn must_stop(&self) -> Moment {
        wait_for(PATIENCE, &format!("{} stops", self.name), || self.stopped())
    }

    /// The first moment at which somebody could act on its word, if there was one: a peer starts the work itself, ours is
    /// asked, and logs it before.
    pub(crate) fn led(&self) -> Option<Moment> {
        match &self.process {
            Side::Theirs(theirs) => {
                theirs.told("started_leading").map(|told| self.rig.moment(told))
            }
            Side::Ours(ours) => {
                let told = ours.told("leading")?;
                // The line may be read after the first answer.
                Some(self.rig.first_promise(ours).map_or(told, |promised| promised.min(told)))
            }
        }
    }

    /// The last such moment, once it is over: a peer cancels the work, and a kill ends both; a promise of ours is good
    /// until it has run out, whatever becomes of the sidecar.
    pub(crate) fn stopped(&self) -> Option<Moment> {
        match &self.process {
            Side::Theirs(theirs) => {
                theirs.told("work_cancelled").map(|told| self.rig.moment(told)).or(self.killed)
            }
            Side::Ours(ours) => ours.ended().map(|_| self.rig.last_promise(ours)),
        }
    }

    /// Ends a leader: since when the election waits for another, and from when on nobody may act on the word of this one.
    #[track_caller]
    pub(crate) fn end(&mut self, how: Parting) -> (Moment, Moment) {
        match how {
            Parting::Released => {
                self.terminate();
                self.must_have_stopped_cleanly();
                let stopped = self.must_stop();
                (stopped, stopped)
            }
            Parting::Killed => {
                let killed = self.kill();
                (killed, self.must_stop())
            }
        }
    }

    /// SIGTERM.
    pub(crate) fn terminate(&mut self) {
        match &mut self.process {
            Side::Theirs(theirs) => theirs.process.terminate(),
            Side::Ours(ours) => drop(ours.terminate()),
        }
    }

    /// SIGKILL. Returns the moment before it.
    pub(crate) fn kill(&mut self) -> Moment {
        let before = self.rig.now();
        match &mut self.process {
            Side::Theirs(theirs) => theirs.process.kill(),
            Side::Ours(ours) => drop(ours.kill()),
        }
        self.killed = Some(self.rig.now());
        before
    }

    /// SIGSTOP.
    pub(crate) fn pause(&mut self) {
        match &mut self.process {
            Side::Theirs(theirs) => theirs.process.pause(),
            Side::Ours(ours) => drop(ours.pause()),
        }
    }

    /// SIGCONT. Returns the moment before it.
    pub(crate) fn resume(&mut self) -> Moment {
        let before = self.rig.now();
        match &mut self.process {
            Side::Theirs(theirs) => theirs.process.resume(),
            Side::Ours(ours) => drop(ours.resume()),
        }
        before
    }

    /// Waits for its end, after it was asked to stop.
    #[track_caller]
    pub(crate) fn must_have_stopped_cleanly(&mut self) {
        assert_eq!(self.exit_code(), 0, "{}", self.name);
    }

    #[track_caller]
    pub(crate) fn exit_code(&mut self) -> i32 {
        match &mut self.process {
            Side::Theirs(theirs) => wait_for(PATIENCE, "it ends", || theirs.process.exit_code()),
            Side::Ours(ours) => ours.exit_code(),
        }
    }
}
