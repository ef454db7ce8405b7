//! Candidates of client-go and of ours on one Lease, as [`Contender`]s.

use crate::rig::{Access, Contender, ELECTION, Leases, Peer, Rig, Side, Timing, eventually};
use std::time::Duration;

/// How long a test waits for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    ClientGo,
    Baton,
}

impl<'a> Contender<'a, Leases> {
    /// Starts a candidate with the rig's durations. It releases the Lease on SIGTERM.
    pub(super) fn start(
        rig: &'a Rig<Leases>,
        program: Program,
        name: &str,
        access: &Access,
    ) -> Self {
        let process = match program {
            Program::Baton => Side::Ours(rig.candidate(name).by(access).start()),
            Program::ClientGo => {
                let Timing { lease_duration, renew_deadline, retry_period, .. } = rig.timing;
                let flags = [
                    format!("--lease-duration={lease_duration:?}"),
                    format!("--renew-deadline={renew_deadline:?}"),
                    format!("--retry-period={retry_period:?}"),
                    "--release-on-cancel".to_owned(),
                    "-v=5".to_owned(),
                ];
                let flags = flags.each_ref().map(String::as_str);
                Side::Theirs(Peer::client_go(access, ELECTION, name, &flags).once("listening"))
            }
        };
        Self::new(rig, name, process)
    }

    pub(super) fn program(&self) -> Program {
        if self.is_ours() { Program::Baton } else { Program::ClientGo }
    }

    #[track_caller]
    pub(super) fn must_follow(&self) {
        eventually(PATIENCE, &format!("{} follows", self.name), || match &self.process {
            Side::Theirs(theirs) => theirs.first_logged("new_leader").is_some(),
            Side::Ours(ours) => self.rig.has_standing(ours, "following"),
        });
    }

    /// How many of its renewals were acknowledged.
    pub(super) fn renewals(&self) -> f64 {
        match &self.process {
            // It logs them at `-v=5`.
            Side::Theirs(theirs) => {
                let count = theirs.log().matches("Successfully renewed lease").count();
                u32::try_from(count).expect("the log is finite").into()
            }
            Side::Ours(ours) => {
                let applied =
                    format!("baton_renewals_total{{election=\"{ELECTION}\",outcome=\"applied\"}}");
                ours.metric(&applied).expect("every series exists from the start")
            }
        }
    }

    /// Whether it answers that it is not the leader while the work that it started continues.
    pub(super) fn works_although_deposed(&self) -> bool {
        match &self.process {
            Side::Theirs(theirs) => theirs
                .answer()
                .is_some_and(|answer| answer["is_leader"] == false && answer["working"] == true),
            // A sidecar gives one answer, which controls the work.
            Side::Ours(_) => false,
        }
    }

    /// Waits for its end after it lost the Lease.
    #[track_caller]
    pub(super) fn must_have_lost(&mut self) {
        let code = match self.program() {
            Program::ClientGo => 1, // the code that controllers choose
            Program::Baton => 75,
        };
        assert_eq!(self.exit_code(), code, "{}", self.name);
    }
}
