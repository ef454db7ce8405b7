//! The figures of a run: terms, faults by kind, and the longest time without a leader.
//!
//! Pure. Start with [`Figures`].

use super::fault::Fault;
use super::tally::Tally;
use crate::rig::{Answer, Moment};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Figures of one run or of several. Overlaps are missing: one ends the run.
#[derive(Debug, Default)]
pub(super) struct Figures {
    runs: usize,
    terms: usize,
    longest_gap: Duration,
    faults: BTreeMap<Fault, Count>,
    /// Why faults were void, and how often.
    void: BTreeMap<String, usize>,
    /// How often a missing leader or a change of leader was excused by the machine.
    excused: usize,
    /// The figures of each program, in a run beside the peers.
    pub(super) programs: Vec<(&'static str, Tally)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    acted: usize,
    void: usize,
}

impl Figures {
    /// Adds a fault that has ended.
    pub(super) fn add_fault(&mut self, fault: Fault, proof: Result<(), String>) {
        let count = self.faults.entry(fault).or_default();
        match proof {
            Ok(()) => count.acted += 1,
            Err(why) => {
                count.void += 1;
                *self.void.entry(format!("{fault}: {why}")).or_default() += 1;
            }
        }
    }

    pub(super) fn add_excused(&mut self) {
        self.excused += 1;
    }

    /// Adds the terms of a run.
    pub(super) fn add_run(&mut self, elections: &[&str], answers: &[Answer]) {
        self.runs += 1;
        for election in elections {
            let leading = || answers.iter().filter(|answer| answer.leads_in(election));
            let tokens: BTreeSet<_> = leading().filter_map(Answer::token).collect();
            self.terms += tokens.len();
            let promised =
                leading().filter_map(|answer| Some((answer.answered, answer.promised_until()?)));
            self.longest_gap = self.longest_gap.max(longest_gap(promised.collect()));
        }
    }

    /// Adds the figures of each program in a run beside the peers.
    pub(super) fn add_programs(
        &mut self,
        tallies: impl IntoIterator<Item = (&'static str, Tally)>,
    ) {
        for (name, tally) in tallies {
            match self.programs.iter_mut().find(|(other, _)| *other == name) {
                Some((_, total)) => total.add(tally),
                None => self.programs.push((name, tally)),
            }
        }
    }

    /// How many faults of each kind acted.
    pub(super) fn acted(&self) -> impl Iterator<Item = (Fault, usize)> {
        self.faults.iter().map(|(fault, count)| (*fault, count.acted))
    }

    /// Adds the figures of other runs.
    pub(super) fn add(&mut self, other: Self) {
        self.add_programs(other.programs);
        self.runs += other.runs;
        self.terms += other.terms;
        self.excused += other.excused;
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        for (fault, count) in other.faults {
            let own = self.faults.entry(fault).or_default();
            (own.acted, own.void) = (own.acted + count.acted, own.void + count.void);
        }
        for (why, count) in other.void {
            *self.void.entry(why).or_default() += count;
        }
    }

    /// Whether most faults acted, also on each peer: a run proves little otherwise.
    pub(super) fn prove_anything(&self) -> bool {
        let [acted, void] = self.counts();
        acted >= void && self.programs.iter().all(|(_, tally)| tally.acted >= tally.void)
    }

    /// How many faults acted, and how many were void.
    pub(super) fn counts(&self) -> [usize; 2] {
        [|count: &Count| count.acted, |count: &Count| count.void]
            .map(|of| self.faults.values().map(of).sum())
    }
}

/// The longest time between the spans.
fn longest_gap(mut spans: Vec<(Moment, Moment)>) -> Duration {
    spans.sort();
    let mut covered = spans.first().map_or(Moment::from_ms(0), |(_, until)| *until);
    let mut longest = Duration::ZERO;
    for (from, until) in spans {
        longest = longest.max(from.since(covered));
        covered = covered.max(until);
    }
    longest
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, terms, longest_gap, faults, void, excused, programs } = self;
        let acted: usize = faults.values().map(|count| count.acted).sum();
        writeln!(
            f,
            "{runs} runs, {terms} terms, no overlap, {acted} faults of {} kinds, longest time \
             without a leader {longest_gap:.1?}, {excused} late leaders excused by the machine",
            faults.values().filter(|count| count.acted > 0).count()
        )?;
        for (fault, Count { acted, void }) in faults {
            writeln!(f, "  {fault:16} acted {acted:4}, void {void:4}")?;
        }
        for (why, count) in void {
            writeln!(f, "  void {count:4} times: {why}")?;
        }
        for (name, tally) in programs {
            writeln!(f, "  {name}: {tally}")?;
        }
        Ok(())
    }
}

mod tests {
    use super::super::fault::Fault;
    use super::{Figures, Tally, longest_gap};
    use crate::rig::Moment;
    use std::time::Duration;

    #[test]
    fn gap_is_the_longest_time_that_no_span_covers() {
        let span = |from, until| (Moment::from_ms(from), Moment::from_ms(until));
        let spans = vec![span(900, 1000), span(100, 500), span(200, 300), span(1300, 1400)];
        assert_eq!(longest_gap(spans), Duration::from_millis(400));
        assert_eq!(longest_gap(Vec::new()), Duration::ZERO);
    }

    #[test]
    fn mostly_void_faults_prove_nothing() {
        let mut idle = Tally::default();
        idle.void = 1;
        let mut figures = Figures::default();
        figures.add_fault(Fault::Kill, Ok(()));
        figures.add_fault(Fault::Kill, Err("it had ended".to_owned()));
        assert!(figures.prove_anything());
        figures.add_fault(Fault::Cut, Err("it had ended".to_owned()));
        assert!(!figures.prove_anything());
        assert!(!Figures { programs: vec![("peer", idle)], ..Figures::default() }.prove_anything());
        assert!(figures.to_string().contains("void    1 times: cut: it had ended"), "{figures}");
    }
}
