//! Figures in the documentation that the program or a formula gives.

use super::{read, rows};
use regex::Regex;
use std::process::Command;
use std::time::Duration;

const TUNING: &str = "docs/operating/tuning.md";

#[test]
fn time_left_for_silent_applications_is_computed() {
    let rows = rows(TUNING, "durations");
    assert!(rows.len() > 5);
    let duration = Regex::new(r"^([0-9.]+)(ms|s)$").unwrap();
    for row in rows {
        let drawing = check_config(&row[0]);
        let left = drawing.split("must be gone within ").nth(1).unwrap().split(' ').next().unwrap();
        let left = duration.captures(left).unwrap();
        let seconds = left[1].parse::<f64>().unwrap() / if &left[2] == "ms" { 1000.0 } else { 1.0 };
        assert_eq!(figure(&row[1]), rounded_as(figure(&row[1]), seconds), "{row:?}");
        assert_eq!(
            row[2].starts_with("no"),
            drawing.contains("which is too long: let it ask"),
            "{row:?}: {drawing}"
        );
    }
}

#[test]
fn tuning_table_is_computed_from_the_durations() {
    let rows = rows(TUNING, "lease duration, renew deadline, retry period");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let [lease, renew, retry] =
            durations(&row[0]).map(|text| humantime::parse_duration(&text).unwrap());
        let seconds = Duration::as_secs_f64;
        let expected = [
            seconds(&lease) * 1.1 + 2.0 * seconds(&retry),
            (seconds(&renew) - seconds(&retry)) * 2.0 / 3.0,
            60.0 / seconds(&retry),
        ];
        for (cell, expected) in row[1..].iter().zip(expected) {
            assert_eq!(figure(cell), rounded_as(figure(cell), expected), "{row:?}");
        }
    }
}

/// Without a watch, a follower's own clock counts everything, and it may be slow.
#[test]
fn bound_without_a_watch_is_stretched_by_drift() {
    let bound = format!("{:.1} s", (15.0 + 2.0 * 2.0) / (1.0 - 0.1));
    for page in ["docs/concepts/guarantees.md", TUNING] {
        let text = read(page);
        assert!(text.contains("(lease duration + 2 × retry period) / (1 − drift)`"), "{page}");
        assert!(text.contains(&bound), "{page} lacks {bound}");
    }
}

#[test]
fn readme_repeats_the_loop_of_the_guide() {
    let python = Regex::new(r"(?s)```python\n(.*?)```").unwrap();
    let in_page = |page: &str| python.captures(&read(page)).expect(page)[1].to_owned();
    assert_eq!(in_page("README.md"), in_page("docs/guides/applications.md"));
}

#[test]
fn readme_is_a_front_door_of_two_hundred_lines() {
    let readme = read("README.md");
    assert!(readme.lines().count() <= 200);
    let yaml = readme.lines().position(|line| line == "```yaml");
    assert!(yaml.is_some_and(|line| line < 60), "the first YAML is in line {yaml:?}");
}

/// The output of `check-config` for the durations of a cell and the store that it names.
fn check_config(cell: &str) -> String {
    let [lease, renew, retry] = durations(cell);
    let mut program = Command::new(env!("CARGO_BIN_EXE_baton"));
    program.env_clear().args(["check-config", "--election=orders"]);
    if cell.starts_with("ZooKeeper") {
        program.args(["--backend=zookeeper", "--zookeeper-servers=zk:2181"]);
        program.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("POD_NAMESPACE", "sales");
    } else {
        program.arg("--backend=lease");
    }
    program.args(["--lease-duration", &lease]);
    program.args(["--renew-deadline", &renew, "--retry-period", &retry]);
    String::from_utf8(program.output().unwrap().stdout).unwrap()
}

fn durations(cell: &str) -> [String; 3] {
    let found = Regex::new("`([0-9]+s)`").unwrap();
    let found: Vec<_> = found.captures_iter(cell).map(|found| found[1].to_owned()).collect();
    found.try_into().unwrap()
}

/// The number in a cell like `2.5 s`, as it is written.
fn figure(cell: &str) -> &str {
    cell.split(' ').next().unwrap()
}

/// `number` with as many decimals as `like` has.
fn rounded_as(like: &str, number: f64) -> String {
    let decimals = like.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{number:.decimals$}")
}
