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
use std::fmt::Write as _;

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
        theory: "O(1): one watch fires",
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
    let mut text = String::new();
    let sizes: Vec<_> = SIZES.iter().map(|size| format!("n = {size}")).collect();
    let sizes_and_theory = [sizes.iter().map(String::as_str).collect(), vec!["theory"]].concat();
    let conditions: Vec<_> = Condition::ALL.iter().map(|condition| condition.name()).collect();

    table(&mut text, "Messages after the leader's crash, mean / worst", &sizes_and_theory, |row| {
        let cells = SIZES.iter().map(|size| spread(&results[row][size].crash.messages, 1, ""));
        cells.chain([CONTENDERS[row].theory.to_owned()]).collect()
    });
    let sizes: Vec<_> = sizes.iter().map(String::as_str).collect();
    let mut costs = |title: &str, cell: &dyn Fn(&Tally) -> String| {
        table(&mut text, title, &sizes, |row| {
            SIZES.iter().map(|size| cell(&results[row][size])).collect()
        });
    };
    costs("Messages when all start together, mean / worst", &|tally| {
        spread(&tally.start.messages, 1, "")
    });
    costs("Wake-ups of candidates after the leader's crash, mean / worst", &|tally| {
        spread(&tally.crash.wakeups, 1, "")
    });
    costs("Time to one leader after the leader's crash, mean / worst", &|tally| {
        spread(&tally.crash.millis, 1_000, " s")
    });
    costs("Time to one leader when all start together, mean / worst", &|tally| {
        spread(&tally.start.millis, 1_000, " s")
    });
    costs("Messages per second at rest", &|tally| {
        tally.rest.mean(1).map_or_else(String::new, |mean| mean.to_string())
    });

    let runs = seeds * SIZES.len() as u64;
    let mut outcomes = |title: &str, cell: &dyn Fn(&Outcomes) -> String| {
        table(&mut text, title, &conditions, |row| {
            let sum = |condition: &Condition| {
                let mut sum = Outcomes::default();
                for tally in results[row].values() {
                    sum.add(&tally.outcomes[condition]);
                }
                cell(&sum)
            };
            Condition::ALL.iter().map(sum).collect()
        });
    };
    outcomes(&format!("Runs with two leaders at once, of {}", thousands(runs)), &|sum| {
        thousands(sum.overlaps)
    });
    outcomes(
        &format!("Runs with a late write, unchecked / by token, of {}", thousands(runs)),
        &|sum| {
            let by_token = if sum.without_tokens > 0 {
                "no token".to_owned()
            } else {
                thousands(sum.late_writes_by_token)
            };
            format!("{} / {by_token}", thousands(sum.late_writes))
        },
    );
    outcomes(&format!("Runs without one leader at the end, of {}", thousands(runs)), &|sum| {
        thousands(sum.runs - sum.settled)
    });
    text.trim_end().to_owned() + "\n"
}

fn table(text: &mut String, title: &str, columns: &[&str], cells: impl Fn(usize) -> Vec<String>) {
    let mut line = |first: &str, rest: &[String]| {
        writeln!(text, "| {first} | {} |", rest.join(" | ")).expect("a string takes everything");
    };
    line(title, &columns.iter().map(|&column| column.to_owned()).collect::<Vec<_>>());
    line("---", &vec!["---".to_owned(); columns.len()]);
    for (row, contender) in CONTENDERS.iter().enumerate() {
        line(contender.name, &cells(row));
    }
    text.push('\n');
}

/// The mean with two digits after the point if `unit` divides, and the worst.
fn spread(spread: &Spread, unit: u64, suffix: &str) -> String {
    let (Some(mean), Some(worst)) = (spread.mean(10), spread.worst()) else {
        return "never".to_owned();
    };
    let (mean, worst) = if unit == 1 {
        (format!("{}.{}", mean / 10, mean % 10), worst.to_string())
    } else {
        let tenths = |tenths: u64| {
            let hundredths = (tenths + unit / 20) / (unit / 10);
            format!("{}.{:02}", hundredths / 100, hundredths % 100)
        };
        (tenths(mean), tenths(worst * 10))
    };
    format!("{mean} / {worst}{suffix}")
}

/// A number with commas.
fn thousands(number: u64) -> String {
    if number < 1_000 {
        return number.to_string();
    }
    format!("{},{:03}", thousands(number / 1_000), number % 1_000)
}
