//! The search for a shorter schedule that still fails.
//!
//! Pure, apart from the runs that the caller makes. Start with [`shrink`].

use super::schedule::Schedule;

/// The most runs of one search: a race may need several, and each takes as long as its schedule.
const MOST_RUNS: usize = 6;

/// Runs halves of a schedule that has failed, and goes on with a half that fails. Returns the
/// shortest schedule that has failed.
pub(super) fn shrink(failed: Schedule, mut fails: impl FnMut(&Schedule) -> bool) -> Schedule {
    let mut shortest = failed;
    let mut runs = 0;
    while let Some([first, second]) = shortest.halves() {
        let found = [first, second].into_iter().find(|half| {
            runs += 1;
            runs <= MOST_RUNS && fails(half)
        });
        let Some(half) = found else { break };
        shortest = half;
    }
    shortest
}

mod tests {
    use super::super::fault::Fault;
    use super::super::schedule::{Schedule, Step, Victim};
    use super::{MOST_RUNS, shrink};
    use std::time::Duration;

    /// A schedule of so many pauses, with a kill at one place.
    fn schedule(steps: usize, kill: usize) -> Schedule {
        let step = |at: usize| Step {
            at: Duration::from_secs(u64::try_from(at).unwrap()),
            fault: if at == kill { Fault::Kill } else { Fault::Pause },
            victim: Victim::Leader(0),
            length: Duration::from_secs(1),
        };
        Schedule((0..steps).map(step).collect())
    }

    fn kills(schedule: &Schedule) -> bool {
        schedule.0.iter().any(|step| step.fault == Fault::Kill)
    }

    #[test]
    fn single_step_remains_wherever_it_was() {
        for kill in 0..8 {
            let shortest = shrink(schedule(8, kill), kills);
            assert_eq!(shortest.0.len(), 1);
            assert!(kills(&shortest));
        }
    }

    #[test]
    fn schedule_that_fails_only_as_a_whole_remains() {
        let whole = schedule(8, 0);
        assert_eq!(shrink(whole.clone(), |_| false), whole);
    }

    #[test]
    fn number_of_runs_is_bounded() {
        let mut runs = 0;
        let shortest = shrink(schedule(1000, 0), |half| {
            runs += 1;
            kills(half)
        });
        assert_eq!(runs, MOST_RUNS);
        assert!(kills(&shortest));
    }
}
