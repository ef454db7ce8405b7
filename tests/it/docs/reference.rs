//! Pages of `docs/reference` that the program generates: flags from clap, metrics from a running
//! sidecar, and chart values from the schemas.
//!
//! Rewrites the pages under `BATON_REWRITE=1`; otherwise only compares them.

use super::{read, root};
use crate::rig::{Rig, Timing};
use clap::{Arg, Command, CommandFactory as _};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;

/// The rest of a page below this mark is generated.
const MARK: &str = "<!-- generated: BATON_REWRITE=1 cargo test --test it -- docs:: -->";

/// Compares what follows the mark in `page` with `generated`, or replaces it.
pub(super) fn compare(page: &str, generated: &str) {
    let text = read(page);
    let (head, listed) = text.split_once(MARK).unwrap_or_else(|| panic!("{page} has no {MARK}"));
    if env::var_os("BATON_REWRITE").is_some() {
        fs::write(root().join(page), format!("{head}{MARK}\n\n{}\n", generated.trim_end()))
            .unwrap();
        return;
    }
    assert_eq!(listed.trim(), generated.trim(), "{page}: run `{MARK}`");
}

#[test]
fn command_line_page_matches_clap() {
    let mut baton = baton::cli::Cli::command();
    baton.build();
    let mut page = String::from("| subcommand | what it does |\n|---|---|\n");
    let commands = commands(&baton);
    for (name, command) in &commands {
        let anchor = name.replace(' ', "-");
        writeln!(page, "| [`{name}`](#baton-{anchor}) | {} |", about(command)).unwrap();
    }
    for (name, command) in commands {
        write!(page, "\n## baton {name}\n\n").unwrap();
        page += &wrapped(&long_about(command));
        let shown = |flag: &&Arg| flag.get_id() != "help" && !flag.is_hide_set();
        let flags = command.get_arguments().filter(shown);
        let mut by_heading: BTreeMap<&str, Vec<&Arg>> = BTreeMap::new();
        for flag in flags {
            by_heading.entry(flag.get_help_heading().unwrap_or_default()).or_default().push(flag);
        }
        for (heading, flags) in by_heading {
            if !heading.is_empty() {
                write!(page, "\n### {heading}\n").unwrap();
            }
            page += "\n| flag | variable | meaning |\n|---|---|---|\n";
            for flag in flags {
                page += &row(flag);
            }
        }
    }
    compare("docs/reference/command-line.md", &page);
}

/// The subcommands that people use, each with its whole name: of one with subcommands of its own,
/// only those.
fn commands(parent: &Command) -> Vec<(String, &Command)> {
    let named = |command: &&Command| command.get_name() != "help" && !command.is_hide_set();
    let whole = |command| {
        let name = |(name, inner)| (format!("{} {name}", Command::get_name(command)), inner);
        let inner: Vec<_> = commands(command).into_iter().map(name).collect();
        if inner.is_empty() { vec![(command.get_name().to_owned(), command)] } else { inner }
    };
    parent.get_subcommands().filter(named).flat_map(whole).collect()
}

fn row(flag: &Arg) -> String {
    let value = flag.get_value_names().map_or_else(String::new, |names| names[0].to_string());
    let takes_value = flag.get_num_args().is_some_and(|range| range.takes_values());
    let name = match flag.get_long() {
        Some(long) if takes_value => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None => value,
    };
    let variable = flag.get_env().map_or_else(String::new, |name| format!("`{}`", name.display()));
    let mut meaning = cell(&flag.get_help().map(ToString::to_string).unwrap_or_default());
    if let [default] = flag.get_default_values() {
        write!(meaning, " [default: {}]", default.display()).unwrap();
    }
    let values: Vec<_> =
        flag.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if takes_value && !values.is_empty() {
        write!(meaning, " ({})", values.join(", ")).unwrap();
    }
    format!("| `{name}` | {variable} | {meaning} |\n")
}

fn about(command: &Command) -> String {
    cell(&command.get_about().map(ToString::to_string).unwrap_or_default())
}

fn long_about(command: &Command) -> String {
    let text = command.get_long_about().or_else(|| command.get_about());
    text.map(ToString::to_string).unwrap_or_default()
}

/// Paragraphs in lines of at most 98 columns, each with a period at its end.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    for paragraph in text.split("\n\n") {
        let paragraph = format!("{}.", paragraph.trim().trim_end_matches('.'));
        let mut columns = 0;
        for word in paragraph.split_whitespace() {
            columns += word.chars().count() + 1;
            if columns > 98 {
                columns = word.chars().count() + 1;
                lines.push('\n');
            } else if columns > word.chars().count() + 1 {
                lines.push(' ');
            }
            lines += word;
        }
        lines += "\n\n";
    }
    lines.trim_end().to_owned() + "\n"
}

/// A text as one cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn metrics_page_matches_a_running_sidecar() {
    let rig = Rig::new(Timing::of_ms(6000, 4500, 1000, 2000));
    let candidate = rig.candidate("a").start();
    rig.leader();
    rig.wait_for_answers();
    let scraped = candidate.metrics();
    let help = Regex::new(r"(?m)^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$").unwrap();
    let label = Regex::new(r#"([a-z_]+)=""#).unwrap();
    let mut page = String::from("| metric | type | meaning |\n|---|---|---|\n");
    for found in help.captures_iter(&scraped) {
        let (name, meaning, kind) = (&found[1], &found[2], &found[3]);
        let of_metric = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ', '_']))
        };
        let series = scraped.lines().find(of_metric).unwrap_or_default();
        let labels: Vec<_> = label
            .captures_iter(series)
            .map(|found| found[1].to_owned())
            .filter(|label| label != "election" && label != "le")
            .collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        writeln!(page, "| `{name}{labels}` | {kind} | {} |", cell(meaning)).unwrap();
    }
    compare("docs/reference/metrics.md", &page);
}

#[test]
fn chart_values_page_matches_the_schemas() {
    let mut page = String::new();
    for chart in ["baton-sidecar", "baton"] {
        let read = |file: &str| read(format!("charts/{chart}/{file}"));
        let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
        let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
        write!(page, "## {chart}\n\n| value | accepts | default |\n|---|---|---|\n").unwrap();
        list(&mut page, &schema, &schema, "", Some(&values));
        page.push('\n');
    }
    compare("docs/reference/chart-values.md", &page);
}

/// Lists the properties of `schema` and of all below it.
fn list(page: &mut String, root: &Value, schema: &Value, prefix: &str, values: Option<&Value>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, property) in properties {
        let property = resolved(root, property);
        let path = format!("{prefix}{name}");
        let default = values.and_then(|values| values.get(name));
        if property["properties"].is_object() {
            list(page, root, property, &format!("{path}."), default);
            continue;
        }
        let default = default.map_or_else(String::new, |value| format!("`{value}`"));
        writeln!(page, "| `{path}` | {} | {default} |", accepts(property)).unwrap();
        let each = resolved(root, &property["additionalProperties"]);
        list(page, root, each, &format!("{path}.NAME."), None);
    }
}

fn resolved<'a>(root: &'a Value, property: &'a Value) -> &'a Value {
    match property["$ref"].as_str() {
        Some(reference) => {
            resolved(root, root.pointer(reference.trim_start_matches('#')).expect(reference))
        }
        None => property,
    }
}

fn accepts(property: &Value) -> String {
    let literal = |value: &Value| format!("`{value}`");
    let kind = match (&property["enum"], &property["type"]) {
        (Value::Array(values), _) => {
            return values.iter().map(literal).collect::<Vec<_>>().join(" ");
        }
        (_, Value::String(kind)) => kind.clone(),
        (_, Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => String::new(),
    };
    match property["description"].as_str() {
        Some(description) => format!("{kind}: {}", cell(description)),
        None => kind,
    }
}
