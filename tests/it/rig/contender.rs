//! A candidate of any program in one election, ours or a peer's, and when it led, on one clock. One
//! scenario can run with each program. The tests of each store start the candidates.

use super::{Candidate, Moment, Peer, Rig, Store, wait_for};
use crate::noise::{this_case, work_for};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a test waits for anything on a busy machine.
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
pub(crate) enum Departure {
    Released,
    Killed,
}

/// One change of leader, and how long there was none.
#[derive(Clone)]
pub(crate) struct Handoff {
    pub(crate) to_ours: bool,
    pub(crate) end: Departure,
    pub(crate) gap: Duration,
}

/// Runs a scenario with each parameter at the same time, since most of a scenario is waiting.
pub(crate) fn side_by_side<P: Send, T: Send, const N: usize>(
    parameters: [P; N],
    scenario: impl Fn(P) -> T + Sync,
) -> [T; N] {
    thread::scope(|scope| {
        let (scenario, case) = (&scenario, this_case());
        let running = parameters.map(|parameter| {
            scope.spawn(move || {
                work_for(case);
                scenario(parameter)
            })
        });
        running.map(|run| run.join().unwrap_or_else(|failure| resume_unwind(failure)))
    })
}

/// Prints how long handoffs of each kind took and returns the medians of releases, to theirs and to
/// ours. Panics unless there are `each_way` handoffs in each direction.
#[expect(clippy::print_stdout, reason = "the figures are part of the result")]
pub(crate) fn medians_of_releases(handoffs: &[Handoff], each_way: usize) -> [Duration; 2] {
    let medians = [false, true].map(|to_ours| {
        assert_eq!(handoffs.iter().filter(|handoff| handoff.to_ours == to_ours).count(), each_way);
        [Departure::Killed, Departure::Released].map(|end| {
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

/// Waits until one of several leads. Returns its index and the moment.
#[track_caller]
pub(crate) fn first_to_lead<S: Store>(contenders: &[Contender<'_, S>]) -> (usize, Moment) {
    let leading = || {
        contenders.iter().enumerate().find_map(|(index, contender)| Some((index, contender.led()?)))
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

    /// Waits until it leads. Returns the moment.
    #[track_caller]
    pub(crate) fn must_lead(&self) -> Moment {
        wait_for(PATIENCE, &format!("{} leads", self.name), || self.led())
    }

    /// Waits until no application may act for it any more. Returns the moment.
    #[track_caller]
    pub(crate) fn must_stop(&self) -> Moment {
        wait_for(PATIENCE, &format!("{} stops", self.name), || self.stopped())
    }

    /// The first moment at which an application could act for it, if there was one. A peer starts
    /// the work itself; a sidecar of ours answers requests, and logs "leading" before it does.
    pub(crate) fn led(&self) -> Option<Moment> {
        match &self.process {
            Side::Theirs(theirs) => {
                theirs.first_logged("started_leading").map(|since_boot| self.rig.moment(since_boot))
            }
            Side::Ours(ours) => {
                let logged = ours.first_logged("leading")?;
                // The log line may be read after the first answer.
                Some(self.rig.first_promise(ours).map_or(logged, |promised| promised.min(logged)))
            }
        }
    }

    /// The last such moment, once it has passed. A peer cancels its work, and a kill ends both. A
    /// promise of ours is valid until it expires, even if the sidecar ends. A kill may end it before
    /// its first promise.
    pub(crate) fn stopped(&self) -> Option<Moment> {
        match &self.process {
            Side::Theirs(theirs) => theirs
                .first_logged("work_cancelled")
                .map(|since_boot| self.rig.moment(since_boot))
                .or(self.killed),
            Side::Ours(ours) => {
                let end = ours.ended()?;
                let has_promised = self.rig.first_promise(ours).is_some();
                Some(if has_promised { self.rig.last_promise(ours) } else { end.seen })
            }
        }
    }

    /// Stops a leader. Returns when the election needs a new one, and when its last promise ends.
    #[track_caller]
    pub(crate) fn end(&mut self, how: Departure) -> (Moment, Moment) {
        match how {
            Departure::Released => {
                self.terminate();
                self.must_have_stopped_cleanly();
                let stopped = self.must_stop();
                (stopped, stopped)
            }
            Departure::Killed => {
                let killed = self.kill();
                (killed, self.must_stop())
            }
        }
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&mut self) {
        match &mut self.process {
            Side::Theirs(theirs) => theirs.process.terminate(),
            Side::Ours(ours) => drop(ours.terminate()),
        }
    }

    /// Sends SIGKILL. Returns the moment before it.
    pub(crate) fn kill(&mut self) -> Moment {
        let before = self.rig.now();
        match &mut self.process {
            Side::Theirs(theirs) => theirs.process.kill(),
            Side::Ours(ours) => drop(ours.kill()),
        }
        self.killed = Some(self.rig.now());
        before
    }

    /// Sends SIGSTOP.
    pub(crate) fn pause(&mut self) {
        match &mut self.process {
            Side::Theirs(theirs) => theirs.process.pause(),
            Side::Ours(ours) => drop(ours.pause()),
        }
    }

    /// Sends SIGCONT. Returns the moment before it.
    pub(crate) fn resume(&mut self) -> Moment {
        let before = self.rig.now();
        match &mut self.process {
            Side::Theirs(theirs) => theirs.process.resume(),
            Side::Ours(ours) => drop(ours.resume()),
        }
        before
    }

    /// Waits for a clean end after SIGTERM.
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
