//! The result table and its percentiles. Pure.

use std::fmt;
use std::time::Duration;

/// A figure with its target and the baseline's figure.
#[derive(Debug)]
pub(crate) struct Row {
    measurement: String,
    figure: f64,
    unit: Unit,
    baseline: Option<(&'static str, f64)>,
    target: Option<f64>,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    Milliseconds,
    /// Sequential calls of the API server.
    Calls,
    RequestsPerSecond,
    PerMinute,
    PercentOfOneCore,
    Bytes,
    Megabytes,
}

impl Row {
    pub(crate) fn new(measurement: impl Into<String>, unit: Unit, figure: f64) -> Self {
        Self { measurement: measurement.into(), figure, unit, baseline: None, target: None }
    }

    /// Adds the baseline's figure from the same run.
    pub(crate) fn against(self, program: &'static str, baseline: f64) -> Self {
        Self { baseline: Some((program, baseline)), ..self }
    }

    /// Adds the bound that the figure has to stay below.
    pub(crate) fn target(self, target: f64) -> Self {
        Self { target: Some(target), ..self }
    }
}

/// All rows, each with the command that measures it again.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<[String; 6]>);

const HEAD: [&str; 6] = ["measurement", "figure", "baseline", "ratio", "target", "command"];

impl Table {
    pub(crate) fn add(&mut self, part: &str, rows: Vec<Row>) {
        let command = format!("`cargo bench --bench figures -- {part}`");
        self.0.extend(rows.into_iter().map(|row| {
            let unit = row.unit;
            [
                row.measurement,
                unit.show(row.figure),
                row.baseline.map_or_else(String::new, |(program, baseline)| {
                    format!("{program} {}", unit.show(baseline))
                }),
                row.baseline.map_or_else(String::new, |(_, baseline)| ratio(row.figure / baseline)),
                row.target.map_or_else(String::new, |target| {
                    let missed = if row.figure < target { "" } else { ": missed" };
                    format!("under {}{missed}", unit.show_target(target))
                }),
                command.clone(),
            ]
        }));
    }
}

/// Prints the table as Markdown.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = HEAD.map(str::to_owned);
        let widths: [usize; 6] = std::array::from_fn(|column| {
            self.0.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0)
        });
        let rule = widths.map(|width| "-".repeat(width));
        [&head, &rule].into_iter().chain(&self.0).try_for_each(|row| {
            row.iter().zip(widths).try_for_each(|(cell, width)| write!(f, "| {cell:width$} "))?;
            writeln!(f, "|")
        })
    }
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
            Self::Milliseconds => format!("{figure:.2} ms"),
            Self::Calls => format!("{figure:.1} calls"),
            Self::RequestsPerSecond => format!("{figure:.0} /s"),
            Self::PerMinute => format!("{figure:.0} /min"),
            Self::PercentOfOneCore => format!("{figure:.1} % of a core"),
            Self::Bytes => format!("{figure:.0} B"),
            Self::Megabytes => format!("{figure:.2} MB"),
        }
    }

    fn show_target(self, target: f64) -> String {
        match self {
            Self::Milliseconds => format!("{target:.0} ms"),
            Self::Calls => format!("{target} calls"),
            Self::RequestsPerSecond => format!("{target} /s"),
            Self::PerMinute => format!("{target} /min"),
            Self::PercentOfOneCore => format!("{target} % of a core"),
            Self::Bytes => format!("{target} B"),
            Self::Megabytes => format!("{target} MB"),
        }
    }
}

/// A ratio with two decimals, or as a fraction if it is small.
fn ratio(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.1 {
        format!("1/{:.0}", ratio.recip())
    } else {
        format!("{ratio:.2}")
    }
}

/// Durations of one kind, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    /// The smallest duration that this percentage of all durations does not exceed. Of 50
    /// durations, the 99th percentile is the largest.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[(sorted.len() * percent).div_ceil(100).saturating_sub(1)]
    }

    pub(crate) fn count(&self) -> f64 {
        u32::try_from(self.0.len()).map_or(f64::INFINITY, f64::from)
    }

    pub(crate) fn push(&mut self, duration: Duration) {
        self.0.push(milliseconds(duration));
    }
}

impl FromIterator<Self> for Sample {
    fn from_iter<T: IntoIterator<Item = Self>>(samples: T) -> Self {
        Self(samples.into_iter().flat_map(|sample| sample.0).collect())
    }
}

impl Extend<Duration> for Sample {
    fn extend<T: IntoIterator<Item = Duration>>(&mut self, durations: T) {
        self.0.extend(durations.into_iter().map(milliseconds));
    }
}

impl FromIterator<Duration> for Sample {
    fn from_iter<T: IntoIterator<Item = Duration>>(durations: T) -> Self {
        Self(durations.into_iter().map(milliseconds).collect())
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
