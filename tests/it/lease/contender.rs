//! A candidate of either program on one Lease, and when it led, on one clock: so that one story can be told of both.

use crate::rig::{Access, Candidate, ClientGo, ELECTION, Leases, Moment, Rig, Timing, eventually, wait_for};
use std::sync::Arc;
use std::time::Duration;

/// How long anything may take that is only waited for, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    ClientGo,
    Baton,
}

pub(super) struct Contender<'a> {
    rig: &'a Rig<Leases>,
    pub(super) name: String,
    process: Process,
    killed: Option<Moment>,
}

enum Process {
    ClientGo(ClientGo),
    Baton(Arc<Candidate>),
}

/// Waits for one of several to lead: its place among them, and since when.
#[track_caller]
pub(super) fn first_to_lead(contenders: &[Contender<'_>]) -> (usize, Moment) {
    let leading = || contenders.iter().enumerate().find_map(|(place, contender)| Some((place, contender.led()?)));
    wait_for(PATIENCE, "one of the others leads", leading)
}

impl<'a> Contender<'a> {
    /// Starts a candidate with the durations of the rig, which gives the Lease back when it is asked to stop.
    pub(super) fn start(rig: &'a Rig<Leases>, program: Program, name: &str, access: &Access) -> Self {
        let process = match program {
            Program::Baton => Process::Baton(rig.candidate(name).by(access).start()),
            Program::ClientGo => {
                let Timing { lease_duration, renew_deadline, retry_period, .. } = rig.timing;
                let flags = [
                    format!("--lease-duration={lease_duration:?}"),
                    format!("--renew-deadline={renew_deadline:?}"),
                    format!("--retry-period={retry_period:?}"),
                    "--release-on-cancel".to_owned(),
                    "-v=5".to_owned(),
                ];
                Process::ClientGo(ClientGo::start(access, ELECTION, name, &flags.each_ref().map(String::as_str)))
            }
        };
        Self { rig, name: name.to_owned(), process, killed: None }
    }

    pub(super) fn program(&self) -> Program {
        match self.process {
            Process::ClientGo(_) => Program::ClientGo,
            Process::Baton(_) => Program::Baton,
        }
    }

    #[track_caller]
    pub(super) fn must_follow(&self) {
        eventually(PATIENCE, &format!("{} follows", self.name), || match &self.process {
            Process::ClientGo(theirs) => theirs.told("new_leader").is_some(),
            Process::Baton(ours) => self.rig.stands(ours, "following"),
        });
    }

    /// Waits until it leads: since when.
    #[track_caller]
    pub(super) fn must_lead(&self) -> Moment {
        wait_for(PATIENCE, &format!("{} leads", self.name), || self.led())
    }

    /// Waits until nobody may act on its word any more: since when.
    #[track_caller]
    pub(super) fn must_stop(&self) -> Moment {
        wait_for(PATIENCE, &format!("{} stops", self.name), || self.stopped())
    }

    /// How many renewals it has made, and heard of.
    pub(super) fn renewals(&self) -> f64 {
        match &self.process {
            Process::ClientGo(theirs) => theirs.renewals().into(),
            Process::Baton(ours) => {
                let applied = format!("baton_renewals_total{{election=\"{ELECTION}\",outcome=\"applied\"}}");
                ours.metric(&applied).expect("every series is there from the start")
            }
        }
    }

    /// The first moment at which somebody could act on its word, if there was one: client-go starts the work itself, ours
    /// is asked, and logs it before.
    pub(super) fn led(&self) -> Option<Moment> {
        match &self.process {
            Process::ClientGo(theirs) => theirs.told("started_leading").map(|told| self.rig.moment(told)),
            Process::Baton(ours) => {
                let told = ours.told("leading")?;
                // The line may be read after the first answer.
                Some(self.rig.first_promise(ours).map_or(told, |promised| promised.min(told)))
            }
        }
    }

    /// The last such moment, once it is over: client-go cancels the work, and a kill ends both; a promise of ours is good
    /// until it has run out, whatever becomes of the sidecar.
    pub(super) fn stopped(&self) -> Option<Moment> {
        match &self.process {
            Process::ClientGo(theirs) => {
                theirs.told("work_cancelled").map(|told| self.rig.moment(told)).or(self.killed)
            }
            Process::Baton(ours) => ours.ended().map(|_| self.rig.last_promise(ours)),
        }
    }

    /// Whether it says of itself that it is not the leader, while the work that it started goes on.
    pub(super) fn works_deposed(&self) -> bool {
        match &self.process {
            Process::ClientGo(theirs) => {
                theirs.answer().is_some_and(|said| said["is_leader"] == false && said["working"] == true)
            }
            // There is one answer for both.
            Process::Baton(_) => false,
        }
    }

    /// SIGTERM.
    pub(super) fn terminate(&mut self) {
        match &mut self.process {
            Process::ClientGo(theirs) => theirs.process.terminate(),
            Process::Baton(ours) => drop(ours.terminate()),
        }
    }

    /// SIGKILL. Returns the moment before it.
    pub(super) fn kill(&mut self) -> Moment {
        let before = self.rig.now();
        match &mut self.process {
            Process::ClientGo(theirs) => theirs.process.kill(),
            Process::Baton(ours) => drop(ours.kill()),
        }
        self.killed = Some(self.rig.now());
        before
    }

    /// SIGSTOP.
    pub(super) fn pause(&mut self) {
        match &mut self.process {
            Process::ClientGo(theirs) => theirs.process.pause(),
            Process::Baton(ours) => drop(ours.pause()),
        }
    }

    /// SIGCONT. Returns the moment before it.
    pub(super) fn resume(&mut self) -> Moment {
        let before = self.rig.now();
        match &mut self.process {
            Process::ClientGo(theirs) => theirs.process.resume(),
            Process::Baton(ours) => drop(ours.resume()),
        }
        before
    }

    /// Waits for its end, after it was asked to stop.
    #[track_caller]
    pub(super) fn must_have_stopped_cleanly(&mut self) {
        assert_eq!(self.exit_code(), 0, "{}", self.name);
    }

    /// Waits for its end, after it lost the Lease.
    #[track_caller]
    pub(super) fn must_have_lost(&mut self) {
        let code = match self.program() {
            Program::ClientGo => 1, // controllers choose it themselves
            Program::Baton => 75,
        };
        assert_eq!(self.exit_code(), code, "{}", self.name);
    }

    #[track_caller]
    fn exit_code(&mut self) -> i32 {
        match &mut self.process {
            Process::ClientGo(theirs) => wait_for(PATIENCE, "it ends", || theirs.process.exit_code()),
            Process::Baton(ours) => ours.exit_code(),
        }
    }
}
