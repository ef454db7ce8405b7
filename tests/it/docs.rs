//! The guides in `docs`, against the program: figures, flags, exit codes, links.

use baton::kubernetes::container::FLAGS;
use baton::process::exit::Exit;
use regex::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[test]
fn what_is_left_for_an_application_that_never_asks_is_what_the_program_draws() {
    let rows = rows("durations");
    assert!(rows.len() > 5);
    let duration = Regex::new(r"^([0-9.]+)(ms|s)$").unwrap();
    for row in rows {
        let [lease, renew, retry] = durations(&row[0]);
        let mut program = Command::new(env!("CARGO_BIN_EXE_baton"));
        program.env_clear().args(["check-config", "--election=orders"]);
        if row[0].starts_with("ZooKeeper") {
            program.args(["--backend=zookeeper", "--zookeeper-servers=zk:2181"]);
            program.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("POD_NAMESPACE", "sales");
        } else {
            program.arg("--backend=lease");
        }
        program.args([
            "--lease-duration",
            &lease,
            "--renew-deadline",
            &renew,
            "--retry-period",
            &retry,
        ]);
        let drawing = String::from_utf8(program.output().unwrap().stdout).unwrap();
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
fn tuning_is_computed_from_the_durations() {
    let rows = rows("lease duration, renew deadline, retry period");
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
        for (told, expected) in row[1..].iter().zip(expected) {
            assert_eq!(figure(told), rounded_as(figure(told), expected), "{row:?}");
        }
    }
}

#[test]
fn exit_codes_are_those_of_a_sidecar() {
    let told: BTreeSet<_> = rows("code").iter().map(|row| row[0].clone()).collect();
    // It answers no questions; and who is killed leaves what kubelet makes of it.
    let asked = [Exit::No, Exit::NoAnswer];
    let codes =
        Exit::ALL.iter().filter(|exit| !asked.contains(exit)).map(|exit| exit.code().to_string());
    assert_eq!(told, codes.chain(["137".to_owned()]).collect());
}

#[test]
fn the_flags_that_annotations_can_set_are_all_listed() {
    let text = read("docs/platform.md");
    let list = text
        .split("Flags that an annotation can set: ")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let flag = Regex::new("`([a-z-]+)`").unwrap();
    let told: Vec<_> = flag.captures_iter(list).map(|found| found[1].to_owned()).collect();
    assert_eq!(told, FLAGS);
}

#[test]
fn links_lead_to_files() {
    let link = Regex::new(r"\]\(([^)#:]+)\)").unwrap();
    let mut pages = vec![
        PathBuf::from("README.md"),
        "charts/baton/README.md".into(),
        "manifests/README.md".into(),
    ];
    for folder in ["docs", "docs/runbooks"] {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(
            files.filter(|path| path.extension().is_some_and(|extension| extension == "md")),
        );
    }
    for page in pages {
        for found in link.captures_iter(&read(&page)) {
            let target = root().join(&page).parent().unwrap().join(&found[1]);
            assert!(
                target.exists(),
                "{} links to {}, which is not there",
                page.display(),
                &found[1]
            );
        }
    }
}

/// The rows of the table in `docs/operations.md` whose first column is headed so.
fn rows(first_column: &str) -> Vec<Vec<String>> {
    let text = read("docs/operations.md");
    let table = text
        .split(&format!("\n| {first_column} |"))
        .nth(1)
        .unwrap_or_else(|| panic!("no table {first_column}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
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

/// A number with as many decimals as `like` has.
fn rounded_as(like: &str, number: f64) -> String {
    let decimals = like.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{number:.decimals$}")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Without a watch a follower's own clock counts everything, and it may be slow.
#[test]
fn the_bound_without_a_watch_is_stretched_by_drift() {
    let bound = format!("{:.1} s", (15.0 + 2.0 * 2.0) / (1.0 - 0.1));
    for page in ["README.md", "docs/operations.md"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
        assert!(text.contains("(lease duration + 2 × retry period) / (1 − drift)`"), "{page}");
        assert!(text.contains(&bound), "{page} does not say {bound}");
    }
}
