//! The schedule of one run: which fault begins when, on what, and for how long.
//!
//! Pure: a seed determines it. Its text can be read back, so that a shorter schedule can be
//! replayed. Start with [`Schedule::draw`].

use super::fault::{Fault, Scope};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The elections of a run, at most.
pub(super) const ELECTIONS: usize = 2;

/// The candidates of an election.
pub(super) const CANDIDATES: usize = 3;

/// The most faults that begin in one burst.
const LARGEST_BURST: u64 = 3;

/// A victim is the leader this often, in percent.
const LEADERS: u64 = 60;

/// The aim of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    /// The candidate that leads this election when the fault begins; its record, if the fault
    /// affects a record.
    Leader(usize),
    /// A candidate of an election.
    Candidate(usize, usize),
    Store,
}

impl Victim {
    pub(super) const fn election(self) -> Option<usize> {
        match self {
            Self::Leader(election) | Self::Candidate(election, _) => Some(election),
            Self::Store => None,
        }
    }
}

/// One fault of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// When it begins, from the start of the run.
    pub(super) at: Duration,
    pub(super) fault: Fault,
    pub(super) victim: Victim,
    pub(super) length: Duration,
}

/// The faults of one run, by their beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule(pub(super) Vec<Step>);

/// The input of [`Schedule::draw`], apart from the seed.
pub(super) struct Plan<'a> {
    pub(super) faults: &'a [Fault],
    pub(super) elections: usize,
    /// How long the last fault may begin after the start.
    pub(super) span: Duration,
    /// The durations of the elections: a fault lasts about as long as one of them.
    pub(super) lengths: &'a [Duration],
    /// How long a rest must be for the elections to come to rest.
    pub(super) rest: Duration,
}

impl Schedule {
    /// Bursts of faults, and rests between them. Every kind occurs once before any occurs again.
    /// Half of the rests are long enough that a leader must be found and stay.
    pub(super) fn draw(seed: u64, plan: &Plan<'_>) -> Self {
        let mut random = Random(seed);
        let mut deck = Vec::new();
        let mut steps = Vec::new();
        let mut now = plan.rest;
        while now < plan.span {
            let mut end = now;
            for _ in 0..=random.below(LARGEST_BURST) {
                if deck.is_empty() {
                    deck = random.shuffled(plan.faults);
                }
                let Some(fault) = deck.pop() else { return Self(steps) };
                let about = plan.lengths[random.index(plan.lengths.len())];
                let length = milliseconds(about.mul_f64(random.fraction(0.8, 1.2)));
                let at = now + milliseconds(plan.rest.mul_f64(random.fraction(0.0, 0.3)));
                let victim = random.victim(fault.scope(), plan.elections);
                steps.push(Step { at, fault, victim, length });
                end = end.max(at + length);
            }
            let factor = if random.below(2) == 0 {
                random.fraction(0.0, 0.4)
            } else {
                random.fraction(1.2, 1.6)
            };
            now = end + milliseconds(plan.rest.mul_f64(factor));
        }
        steps.sort_by_key(|step| step.at);
        Self(steps)
    }

    /// Its first and its second half, each of which begins after the same rest. None for a single
    /// step.
    pub(super) fn halves(&self) -> Option<[Self; 2]> {
        let (first, second) = self.0.split_at_checked(self.0.len().div_ceil(2))?;
        if second.is_empty() {
            return None;
        }
        let earlier = second[0].at.saturating_sub(first[0].at);
        let second =
            second.iter().map(|step| Step { at: step.at.saturating_sub(earlier), ..*step });
        Some([Self(first.to_vec()), Self(second.collect())])
    }

    /// The end of its last fault.
    pub(super) fn end(&self) -> Duration {
        self.0.iter().map(|step| step.at + step.length).max().unwrap_or_default()
    }
}

fn milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).expect("no run lasts that long"))
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            write!(f, "{}{step}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// `12500:pause:leader-0:1250`, with times in milliseconds.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, fault, victim, length } = self;
        write!(f, "{}:{fault}:{victim}:{}", at.as_millis(), length.as_millis())
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader(election) => write!(f, "leader-{election}"),
            Self::Candidate(election, candidate) => write!(f, "candidate-{election}-{candidate}"),
            Self::Store => write!(f, "store"),
        }
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("not a step of a schedule: {text}");
        let parts: Vec<&str> = text.split(':').collect();
        let [at, fault, victim, length] = parts[..] else { return Err(invalid()) };
        let time = |text: &str| text.parse().map(Duration::from_millis).map_err(|_| invalid());
        let victim = victim.parse().map_err(|()| invalid())?;
        Ok(Self { at: time(at)?, fault: fault.parse()?, victim, length: time(length)? })
    }
}

impl FromStr for Victim {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let below = |limit, text: &str| {
            text.parse::<usize>().ok().filter(|number| *number < limit).ok_or(())
        };
        match text.split('-').collect::<Vec<_>>()[..] {
            ["store"] => Ok(Self::Store),
            ["leader", election] => Ok(Self::Leader(below(ELECTIONS, election)?)),
            ["candidate", election, candidate] => {
                Ok(Self::Candidate(below(ELECTIONS, election)?, below(CANDIDATES, candidate)?))
            }
            _ => Err(()),
        }
    }
}

/// Numbers from a seed: `SplitMix64` (Steele, Lea, and Flood, 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the limit.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn index(&mut self, length: usize) -> usize {
        let length = u64::try_from(length).expect("it is small");
        usize::try_from(self.below(length)).expect("it is small")
    }

    fn fraction(&mut self, least: f64, most: f64) -> f64 {
        let thousandths = u32::try_from(self.below(1001)).expect("it is small");
        least + (most - least) * f64::from(thousandths) / 1000.0
    }

    fn shuffled(&mut self, faults: &[Fault]) -> Vec<Fault> {
        let mut shuffled = faults.to_vec();
        for at in (1..shuffled.len()).rev() {
            shuffled.swap(at, self.index(at + 1));
        }
        shuffled
    }

    fn victim(&mut self, scope: Scope, elections: usize) -> Victim {
        let election = self.index(elections);
        match scope {
            Scope::Store => Victim::Store,
            Scope::Record | Scope::Leader => Victim::Leader(election),
            // The first candidate of each election has a state directory.
            Scope::Remembering => Victim::Candidate(election, 0),
            Scope::Candidate if self.below(100) < LEADERS => Victim::Leader(election),
            Scope::Candidate => Victim::Candidate(election, self.index(CANDIDATES)),
        }
    }
}

mod tests {
    use super::super::fault::{Backend, Fault, Scope};
    use super::{CANDIDATES, Plan, Schedule, Victim};
    use std::collections::BTreeMap;
    use std::time::Duration;

    const REST: Duration = Duration::from_secs(9);
    const SPAN: Duration = Duration::from_mins(10);

    fn drawn(seed: u64, backend: Backend) -> Schedule {
        let (faults, lengths) = (Fault::of(backend), [Duration::from_secs(6), REST]);
        let plan =
            Plan { faults: &faults, elections: 2, span: SPAN, lengths: &lengths, rest: REST };
        Schedule::draw(seed, &plan)
    }

    #[test]
    fn seed_determines_the_schedule() {
        assert_eq!(drawn(7, Backend::Lease), drawn(7, Backend::Lease));
        assert_ne!(drawn(7, Backend::Lease), drawn(8, Backend::Lease));
    }

    #[test]
    fn schedule_is_read_back_from_its_text() {
        for backend in [Backend::Lease, Backend::ZooKeeper, Backend::Etcd, Backend::File] {
            let schedule = drawn(1, backend);
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
    }

    #[test]
    fn malformed_steps_are_refused_by_name() {
        for text in ["", "1:kill:store", "x:kill:store:1", "1:rain:store:1", "1:kill:leader:1"] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
        for victim in ["leader-2", "candidate-2-0", "candidate-0-3"] {
            assert!(format!("1:kill:{victim}:1").parse::<Schedule>().is_err(), "{victim}");
        }
    }

    #[test]
    fn every_kind_occurs_and_no_kind_occurs_far_more_often() {
        let schedule = drawn(3, Backend::Etcd);
        let mut counts = BTreeMap::<Fault, usize>::new();
        for step in &schedule.0 {
            *counts.entry(step.fault).or_default() += 1;
        }
        assert_eq!(counts.len(), Fault::of(Backend::Etcd).len());
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        assert!(most - least <= 1, "{counts:?}");
    }

    #[test]
    fn victims_fit_the_scope_of_their_fault() {
        for step in drawn(5, Backend::Lease).0 {
            let fits = match (step.fault.scope(), step.victim) {
                (Scope::Store, Victim::Store) => true,
                (Scope::Record | Scope::Leader | Scope::Candidate, Victim::Leader(election)) => {
                    election < 2
                }
                (Scope::Remembering, Victim::Candidate(election, slot)) => {
                    election < 2 && slot == 0
                }
                (Scope::Candidate, Victim::Candidate(election, slot)) => {
                    election < 2 && slot < CANDIDATES
                }
                (
                    Scope::Store
                    | Scope::Record
                    | Scope::Leader
                    | Scope::Remembering
                    | Scope::Candidate,
                    _,
                ) => false,
            };
            assert!(fits, "{step}");
        }
    }

    #[test]
    fn faults_begin_in_order_after_a_rest_and_within_the_span() {
        let schedule = drawn(11, Backend::ZooKeeper);
        assert!(schedule.0.is_sorted_by_key(|step| step.at));
        assert!(schedule.0[0].at >= REST);
        assert!(schedule.0.last().unwrap().at < SPAN + REST);
        let rests = schedule.0.windows(2).filter(|pair| pair[1].at >= pair[0].at + REST);
        assert!(rests.count() >= 5, "{schedule}");
    }

    #[test]
    fn halves_keep_every_step_and_begin_after_the_same_rest() {
        let schedule = drawn(13, Backend::File);
        let [first, second] = schedule.halves().unwrap();
        assert_eq!(first.0.len() + second.0.len(), schedule.0.len());
        assert_eq!(first.0[0].at, second.0[0].at);
        let faults = |schedule: &Schedule| -> Vec<Fault> {
            schedule.0.iter().map(|step| step.fault).collect()
        };
        assert_eq!([faults(&first), faults(&second)].concat(), faults(&schedule));
        let single = Schedule(schedule.0[..1].to_vec());
        assert_eq!(single.halves(), None);
        assert_eq!(Schedule::default().halves(), None);
    }
}
