//! Replays the transcripts beside this file: conversations of whole clusters.
//!
//! Touches the transcripts. Each block is a list of commands, a line `----`, and what the cluster
//! did; comments start with `#`. Heartbeats are left out, and every message takes 10 ms. The format
//! follows etcd-io/raft's testdata. Start with [`replay`].
//!
//! `BATON_REWRITE=1 cargo test --package baton-classics --test classics` rewrites the output. Commit
//! the result only if you understand each difference.
#![expect(clippy::disallowed_methods, reason = "the tests read transcripts; the crate does not")]

use baton_classics::baton::queue::BatonQueue;
use baton_classics::baton::record::BatonRecord;
use baton_classics::bully::Bully;
use baton_classics::draw;
use baton_classics::fle::Fle;
use baton_classics::kafka::Kafka;
use baton_classics::lease::Lease;
use baton_classics::machine::{Algorithm, Purpose, Role};
use baton_classics::raft::Raft;
use baton_classics::ring::Ring;
use baton_classics::scenario::{Fault, Target};
use baton_classics::sentinel::Sentinel;
use baton_classics::stonith::Stonith;
use baton_classics::world::{Event, Observer, World};
use baton_sim::clock::Moment;
use std::fmt::{Debug, Write as _};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Every message takes this long.
const DELAY: Duration = Duration::from_millis(10);

/// The cluster of an algorithm by its name in transcripts.
fn cluster(name: &str, candidates: usize, seed: u64) -> Result<Box<dyn Cluster>, String> {
    Ok(match name {
        "raft" => start(Raft::PAPER, candidates, seed),
        "raft-etcd" => start(Raft::ETCD, candidates, seed),
        "fle" => start(Fle::SAMPLE, candidates, seed),
        "baton-queue" => start(BatonQueue, candidates, seed),
        "baton-record" => start(BatonRecord, candidates, seed),
        "bully" => start(Bully::PAPER, candidates, seed),
        "lease" => start(Lease::DRIFTING_CLOCKS, candidates, seed),
        "kafka" => start(Kafka::DEFAULT, candidates, seed),
        "ring" => start(Ring::PAPER, candidates, seed),
        "sentinel" => start(Sentinel::TUTORIAL, candidates, seed),
        "stonith" => start(Stonith::COROSYNC, candidates, seed),
        _ => return Err(format!("no algorithm is called {name:?}")),
    })
}

#[test]
fn clusters_match_their_transcripts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/classics/transcripts");
    let rewrite = std::env::var_os("BATON_REWRITE").is_some();
    let mut paths = Vec::new();
    for folder in fs::read_dir(root).unwrap() {
        let files = fs::read_dir(folder.unwrap().path()).unwrap();
        paths.extend(files.map(|file| file.unwrap().path()));
    }
    assert!(paths.len() >= 3, "only {} transcripts", paths.len());
    paths.sort();
    let mut differences = Vec::new();
    for path in paths {
        let expected = fs::read_to_string(&path).unwrap();
        let actual =
            replay(&expected).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if actual != expected && rewrite {
            fs::write(&path, actual).unwrap();
        } else if actual != expected {
            let mut lines = expected.lines().zip(actual.lines());
            let first = lines.find(|(expected, actual)| expected != actual);
            differences.push(format!("{}: {first:?}", path.display()));
        }
    }
    assert!(differences.is_empty(), "transcripts differ:\n{}", differences.join("\n"));
}

/// Runs the commands of a transcript and returns it with the actual output.
fn replay(text: &str) -> Result<String, String> {
    let mut running: Option<Box<dyn Cluster>> = None;
    let mut actual = String::new();
    let mut is_output = false;
    for line in text.lines() {
        is_output &= !line.is_empty();
        if is_output {
            continue;
        }
        writeln!(actual, "{line}").unwrap();
        if line == "----" {
            let cluster = running.as_mut().ok_or("the first command is `cluster`")?;
            actual.push_str(&cluster.take_output());
            is_output = true;
        } else if let Some(arguments) = line.strip_prefix("cluster ") {
            let words: Vec<_> = arguments.split(' ').collect();
            let [name, candidates, seed] = words[..] else {
                return Err("`cluster NAME CANDIDATES SEED`".to_owned());
            };
            running = Some(cluster(name, number(candidates)?, number(seed)? as u64)?);
        } else if !line.is_empty() && !line.starts_with('#') {
            let cluster = running.as_mut().ok_or("the first command is `cluster`")?;
            run(cluster.as_mut(), line).map_err(|error| format!("{line:?}: {error}"))?;
        }
    }
    Ok(actual)
}

/// Runs `run TIME`, `restart NODE`, or `FAULT NODE… [for TIME]`.
fn run(cluster: &mut dyn Cluster, command: &str) -> Result<(), String> {
    let (command, lasts) = match command.split_once(" for ") {
        Some((command, lasts)) => (command, Some(duration(lasts)?)),
        None => (command, None),
    };
    let (verb, arguments) = command.split_once(' ').ok_or("a command has an argument")?;
    if verb == "run" {
        cluster.run(duration(arguments)?);
        return Ok(());
    }
    if verb == "partition" {
        let nodes = arguments.split(' ').map(number).collect::<Result<Vec<_>, _>>()?;
        let side = nodes.iter().fold(0, |side, node| side | 1 << node);
        cluster.inject(Fault::Partition { side, lasts: lasts.ok_or("`for TIME` is missing")? });
        return Ok(());
    }
    let target = match arguments {
        "leader" => Target::LeaderOr(0),
        node => Target::Node(number(node)?),
    };
    if let ("crash", _) = (verb, lasts) {
        cluster.inject(Fault::Crash { target, lasts });
        return Ok(());
    }
    let lasts = lasts.ok_or("`for TIME` is missing")?;
    cluster.inject(match verb {
        "pause" => Fault::Pause { target, lasts },
        "isolate" => Fault::Isolate { target, lasts },
        "mute" => Fault::Mute { target, peers: u16::MAX, lasts },
        "deafen" => Fault::Deafen { target, peers: u16::MAX, lasts },
        _ => return Err("unknown command".to_owned()),
    });
    Ok(())
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

/// A running cluster of any algorithm.
trait Cluster {
    fn run(&mut self, lasts: Duration);
    fn inject(&mut self, fault: Fault);
    fn take_output(&mut self) -> String;
}

fn start<A: Algorithm + 'static>(algorithm: A, candidates: usize, seed: u64) -> Box<dyn Cluster> {
    let mut scenario = draw::calm(candidates, seed, algorithm.patience());
    scenario.delay = (DELAY, DELAY);
    Box::new(World::new(algorithm, scenario, Printer::default()))
}

impl<A: Algorithm> Cluster for World<A, Printer> {
    fn run(&mut self, lasts: Duration) {
        self.run_until(self.now() + lasts);
    }

    fn inject(&mut self, fault: Fault) {
        Self::inject(self, fault);
    }

    fn take_output(&mut self) -> String {
        std::mem::take(&mut self.observer_mut().text)
    }
}

/// Writes down what happens.
#[derive(Default)]
struct Printer {
    text: String,
}

impl<M: Debug> Observer<M> for Printer {
    fn observe(&mut self, now: Moment, event: &Event<'_, M>) {
        let story = match event {
            Event::Sent { from, to, message, purpose: Purpose::Election, arrives } => {
                let lost = if arrives.is_none() { " (lost)" } else { "" };
                format!("{from} -> {to} {message:?}{lost}")
            }
            Event::RoleChanged(node, Role::Looking) => format!("{node} looks for a leader"),
            Event::RoleChanged(node, Role::Following(leader)) => format!("{node} follows {leader}"),
            Event::RoleChanged(node, Role::Leading { token: Some(token) }) => {
                format!("{node} leads, token {token}")
            }
            Event::RoleChanged(node, Role::Leading { token: None }) => format!("{node} leads"),
            Event::Started(node) => format!("{node} starts"),
            Event::Crashed(node) => format!("{node} crashes"),
            Event::Paused(node) => format!("{node} is paused"),
            Event::Resumed(node) => format!("{node} runs on"),
            Event::CutBegan(_) => "the network is cut".to_owned(),
            Event::CutEnded => "the cut ends".to_owned(),
            Event::Sent { purpose: Purpose::Heartbeat, .. }
            | Event::Woken { .. }
            | Event::WriteArrived(_) => return,
        };
        let at = now.since(Moment::START).as_millis();
        writeln!(self.text, "{}.{:03}s {story}", at / 1_000, at % 1_000).unwrap();
    }
}
