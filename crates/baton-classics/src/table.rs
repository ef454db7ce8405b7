//! The algorithms that are compared, and the tables of the comparison.
//!
//! Pure. Start with [`CONTENDERS`] and [`render`].

use crate::baton::queue::BatonQueue;
use crate::baton::record::BatonRecord;
use crate::bully::Bully;
use crate::draw::Condition;
use crate::fle::Fle;
use crate::kafka::Kafka;
use crate::lease::Lease;
use crate::measure::{self, Job, Outcomes, Spread, Tally};
use crate::raft::Raft;
use crate::ring::Ring;
use crate::sentinel::Sentinel;
use crate::stonith::Stonith;
use std::collections::BTreeMap;

/// One row of every table.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// The algorithm and its switches.
    pub name: &'static str,
    /// The messages of an election among `n` candidates, by theory.
    pub theory: &'static str,
    /// Does a job.
    pub count: fn(&Job) -> Tally,
}

/// Every row.
pub const CONTENDERS: &[Contender] = &[
    Contender {
        name: "Baton over a record",
        theory: "O(n): every watch hears of the write",
        count: |job| measure::count(BatonRecord, job),
    },
    Contender {
        name: "Baton over ZooKeeper's queue",
        theory: "O(1) after a death, O(n) at the start",
        count: |job| measure::count(BatonQueue, job),
    },
    Contender {
        name: "Raft",
        theory: "3(n − 1) without split votes",
        count: |job| measure::count(Raft::PAPER, job),
    },
    Contender {
        name: "Raft with pre-vote and quorum check",
        theory: "5(n − 1) without split votes",
        count: |job| measure::count(Raft::ETCD, job),
    },
    Contender {
        name: "ZooKeeper's Fast Leader Election",
        theory: "O(n²) votes; none is published for its quorum",
        count: |job| measure::count(Fle::SAMPLE, job),
    },
    Contender {
        name: "Bully",
        theory: "O(n²) in the worst case",
        count: |job| measure::count(Bully::PAPER, job),
    },
    Contender {
        name: "Lease that assumes equal clocks",
        theory: "4n − 3 with a herd",
        count: |job| measure::count(Lease::EQUAL_CLOCKS, job),
    },
    Contender {
        name: "Lease that allows for drift",
        theory: "4n − 3 with a herd",
        count: |job| measure::count(Lease::DRIFTING_CLOCKS, job),
    },
    Contender {
        name: "Kafka's race for one znode",
        theory: "O(n) with a herd",
        count: |job| measure::count(Kafka::DEFAULT, job),
    },
    Contender {
        name: "Ring",
        theory: "n·Hₙ + n on average, O(n log n)",
        count: |job| measure::count(Ring::PAPER, job),
    },
    Contender {
        name: "Redis Sentinel",
        theory: "O(n²), as every sentinel asks all",
        count: |job| measure::count(Sentinel::TUTORIAL, job),
    },
    Contender {
        name: "Redis Sentinel with min-replicas",
        theory: "O(n²), as every sentinel asks all",
        count: |job| measure::count(Sentinel::MIN_REPLICAS, job),
    },
    Contender {
        name: "STONITH",
        theory: "3n with one claimant",
        count: |job| measure::count(Stonith::COROSYNC, job),
    },
];

/// The numbers of candidates.
pub const SIZES: [usize; 4] = [3, 5, 7, 9];

/// The results of one contender for each number of candidates.
pub type Results = BTreeMap<usize, Tally>;

/// All tables, as Markdown, from `seeds` runs of each kind.
pub fn render(results: &[Results], seeds: u64) -> String {
    let tables = Tables { results, seeds };
    let text = [tables.costs(), tables.outcomes()].concat();
    text.trim_end().to_owned() + "\n"
}

/// Formats a cell.
type Cell<T> = fn(&T) -> String;

struct Tables<'a> {
    results: &'a [Results],
    seeds: u64,
}

impl Tables<'_> {
    /// The costs of elections, by the number of candidates.
    fn costs(&self) -> String {
        let messages: [(&str, Cell<Tally>); 2] = [
            ("Messages when all start together, mean / worst", |tally| {
                count(&tally.start.messages)
            }),
            ("Messages after the leader's crash, mean / worst", |tally| {
                count(&tally.crash.messages)
            }),
        ];
        let mut text = String::new();
        for (title, cell) in messages {
            let columns: Vec<_> = sizes().chain(["theory".to_owned()]).collect();
            text += &table(title, &columns, |row| {
                let counted = self.results[row].values().map(cell);
                counted.chain([CONTENDERS[row].theory.to_owned()]).collect()
            });
        }
        let others: [(&str, Cell<Tally>); 4] = [
            ("Wake-ups of candidates after the leader's crash, mean / worst", |tally| {
                count(&tally.crash.wakeups)
            }),
            ("Time to one leader when all start together, mean / worst", |tally| {
                seconds(&tally.start.millis)
            }),
            ("Time to one leader after the leader's crash, mean / worst", |tally| {
                seconds(&tally.crash.millis)
            }),
            ("Messages per second at rest", |tally| {
                tally.rest.per_second(10).map_or_else(String::new, tenths)
            }),
        ];
        for (title, cell) in others {
            let columns: Vec<_> = sizes().collect();
            text += &table(title, &columns, |row| self.results[row].values().map(cell).collect());
        }
        text + &self.endless()
    }

    /// The elections that the means leave out.
    fn endless(&self) -> String {
        let mut rows = Vec::new();
        for (contender, results) in CONTENDERS.iter().zip(self.results) {
            let of = |tally: &Tally| tally.start.unsettled + tally.crash.unsettled;
            let endless: u64 = results.values().map(of).sum();
            if endless > 0 {
                rows.push(format!("* {}: {}\n", contender.name, thousands(endless)));
            }
        }
        if rows.is_empty() {
            return "Every election came to an end.\n\n".to_owned();
        }
        let (all, rows) = (thousands(2 * self.seeds * SIZES.len() as u64), rows.concat());
        format!(
            "Of {all} elections each, these had no end, and the tables leave them out:\n\n{rows}\n"
        )
    }

    /// The outcomes of runs with faults.
    fn outcomes(&self) -> String {
        let columns: Vec<_> = Condition::ALL.iter().map(|one| one.name().to_owned()).collect();
        let each = thousands(self.seeds);
        let all = thousands(self.seeds * SIZES.len() as u64);
        let mut text = table(
            &format!("Runs with two leaders at once, for n = 3, 5, 7, and 9, of {each} each"),
            &columns,
            |row| Condition::ALL.iter().map(|condition| self.overlaps(row, *condition)).collect(),
        );
        let sums: [(String, Cell<Outcomes>); 2] = [
            (format!("Runs with a late write, unchecked / by token, of {all}"), |sum| {
                let by_token = if sum.without_tokens > 0 {
                    "no token".to_owned()
                } else {
                    thousands(sum.late_writes_by_token)
                };
                format!("{} / {by_token}", thousands(sum.late_writes))
            }),
            (format!("Runs without one leader at the end, of {all}"), |sum| {
                thousands(sum.runs - sum.settled)
            }),
        ];
        for (title, cell) in sums {
            text += &table(&title, &columns, |row| {
                Condition::ALL.iter().map(|condition| cell(&self.sum(row, *condition))).collect()
            });
        }
        let of_all = |row| Condition::ALL.iter().map(move |condition| self.sum(row, *condition));
        let shared: u64 = (0..CONTENDERS.len()).flat_map(of_all).map(|sum| sum.shared_tokens).sum();
        text + &format!("Runs in which two nodes led with the same token, at any time: {shared}.\n")
    }

    fn overlaps(&self, row: usize, condition: Condition) -> String {
        let of = |tally: &Tally| tally.outcomes[&condition].overlaps;
        let counted: Vec<_> = self.results[row].values().map(of).collect();
        if counted.iter().all(|overlaps| *overlaps == 0) {
            return "0".to_owned();
        }
        let counted: Vec<_> = counted.into_iter().map(thousands).collect();
        counted.join(", ")
    }

    fn sum(&self, row: usize, condition: Condition) -> Outcomes {
        let mut sum = Outcomes::default();
        for tally in self.results[row].values() {
            sum.add(&tally.outcomes[&condition]);
        }
        sum
    }
}

fn sizes() -> impl Iterator<Item = String> {
    SIZES.iter().map(|size| format!("n = {size}"))
}

fn table(title: &str, columns: &[String], cells: impl Fn(usize) -> Vec<String>) -> String {
    let line = |first: &str, rest: &[String]| format!("| {first} | {} |\n", rest.join(" | "));
    let mut text = format!("### {title}\n\n");
    text += &line("algorithm", columns);
    text += &line("---", &vec!["---".to_owned(); columns.len()]);
    for (row, contender) in CONTENDERS.iter().enumerate() {
        text += &line(contender.name, &cells(row));
    }
    text + "\n"
}

/// A number of tenths, with one digit after the point.
fn tenths(number: u64) -> String {
    format!("{}.{}", thousands(number / 10), number % 10)
}

/// The mean with one digit after the point, and the worst.
fn count(spread: &Spread) -> String {
    let (Some(mean), Some(worst)) = (spread.mean(10), spread.worst()) else {
        return "never".to_owned();
    };
    format!("{} / {}", tenths(mean), thousands(worst))
}

/// The mean and the worst of milliseconds, in seconds with two digits after the point.
fn seconds(spread: &Spread) -> String {
    let (Some(mean), Some(worst)) = (spread.mean(10), spread.worst()) else {
        return "never".to_owned();
    };
    let format = |tenths: u64| {
        let hundredths = (tenths + 50) / 100;
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    };
    format!("{} / {} s", format(mean), format(worst * 10))
}

/// A number with commas.
fn thousands(number: u64) -> String {
    if number < 1_000 {
        return number.to_string();
    }
    format!("{},{:03}", thousands(number / 1_000), number % 1_000)
}
