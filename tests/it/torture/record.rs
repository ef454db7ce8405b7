//! The file of a run beside the peers: its versions, machine, seeds, schedules, and figures.
//!
//! Reads the files that pin the peers, and /proc. `docs::torture` makes the tables of the comparison
//! from these files. Start with [`Record`].

use super::figures::Figures;
use super::schedule::Schedule;
use super::stores::Tortured;
use crate::docs::read;
use crate::rig::Timing;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::thread;

/// One torture of a store, beside its peers.
#[derive(Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) store: String,
    /// The commit of Baton.
    pub(crate) revision: String,
    pub(crate) machine: String,
    /// The durations in milliseconds: lease or session, renew deadline, retry period, answer
    /// validity.
    pub(crate) timing_ms: [u128; 4],
    /// Each seed, and the schedule that was drawn from it.
    pub(crate) schedules: Vec<(u64, String)>,
    /// How many faults of each kind acted on Baton.
    pub(crate) faults: BTreeMap<String, usize>,
    pub(crate) minutes: f64,
    pub(crate) programs: Vec<Program>,
}

/// The figures of one program.
#[derive(Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) terms: usize,
    pub(crate) overlaps: usize,
    pub(crate) two_leaders_ms: u128,
    pub(crate) longest_gap_ms: u128,
    /// To and from the store, of three candidates together.
    pub(crate) bytes_per_minute: usize,
    /// Of one candidate, on average.
    pub(crate) resident_kib: usize,
    pub(crate) faults_acted: usize,
    pub(crate) faults_void: usize,
}

impl Record {
    /// The record of runs of these schedules.
    pub(super) fn of<S: Tortured>(
        store: &str,
        schedules: &[(u64, Schedule)],
        figures: &Figures,
    ) -> Self {
        let Timing { lease_duration, renew_deadline, retry_period, answer_validity, .. } =
            S::TIMING;
        let durations = [lease_duration, renew_deadline, retry_period, answer_validity];
        let program = |(name, tally): &(&str, super::tally::Tally)| Program {
            name: (*name).to_owned(),
            version: version::<S>(name),
            terms: tally.verdict.terms,
            overlaps: tally.verdict.overlaps,
            two_leaders_ms: tally.verdict.together.as_millis(),
            longest_gap_ms: tally.verdict.longest_gap.as_millis(),
            bytes_per_minute: tally.bytes_per_minute(),
            resident_kib: tally.resident_kibibytes(),
            faults_acted: tally.acted,
            faults_void: tally.void,
        };
        let faults = figures.acted().map(|(fault, acted)| (fault.to_string(), acted));
        let minutes = figures.programs.first().map(|(_, tally)| tally.minutes());
        Self {
            store: store.to_owned(),
            revision: baton::telemetry::build::REVISION.to_owned(),
            machine: machine(),
            timing_ms: durations.map(|duration| duration.as_millis()),
            schedules: schedules.iter().map(|(seed, one)| (*seed, one.to_string())).collect(),
            faults: faults.collect(),
            minutes: minutes.unwrap_or_default(),
            programs: figures.programs.iter().map(program).collect(),
        }
    }

    /// Writes it as JSON.
    pub(super) fn write(&self, path: &str) {
        let text = serde_json::to_string_pretty(self).expect("a record is JSON") + "\n";
        fs::write(path, text).unwrap_or_else(|error| panic!("{path} cannot be written: {error}"));
    }
}

/// The version of a peer in the file that pins it; our own for any other name.
fn version<S: Tortured>(name: &str) -> String {
    let Some(program) = S::PEERS.iter().find(|program| program.name == name) else {
        return env!("CARGO_PKG_VERSION").to_owned();
    };
    let (file, before) = program.pinned;
    let text: String = read(file).lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
    let text = text.replace(">\n<", "><");
    let (_, version) = text.split_once(before).unwrap_or_else(|| panic!("{file} has no {before}"));
    version.split([' ', '\n', '<', '\\']).next().unwrap_or_default().to_owned()
}

fn machine() -> String {
    let first = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|line| line.trim_matches([':', '\t', ' ']).to_owned()).unwrap_or_default()
    };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{} processors, {} of memory, Linux {}",
        thread::available_parallelism().map_or(0, usize::from),
        first("/proc/meminfo", "MemTotal"),
        kernel.trim()
    )
}
