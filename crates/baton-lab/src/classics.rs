//! A run of a classical algorithm as JSON, in the form of the live runs of Baton.
//!
//! Pure. Start with [`ClassicRun`]. The whole run is simulated at once. A moment of it is computed
//! from the records before that moment.

use baton_classics::exhibits::{self, ExhibitRun};
use baton_classics::machine::{NodeId, Purpose, Role};
use baton_classics::recording::{Fact, Record};
use baton_sim::clock::Moment;
use baton_sim::json::Json;
use std::time::Duration;

/// A lost message is shown for this long.
const SHOWN_IF_LOST: Duration = Duration::from_millis(10);

/// A run of a classical algorithm.
#[derive(Debug)]
pub(crate) struct ClassicRun(ExhibitRun);

/// A candidate at a moment.
#[derive(Clone, Copy)]
struct Candidate {
    is_up: bool,
    role: Role,
    is_paused: bool,
    is_cut: bool,
}

impl ClassicRun {
    /// The run of this name and seed, if there is one.
    pub(crate) fn open(name: &str, seed: u64) -> Option<Self> {
        exhibits::open(name, seed).map(Self)
    }

    /// Writes what a page must know before it shows the run.
    pub(crate) fn write_info(&self, json: &mut Json) {
        let Self(run) = self;
        json.object(|json| {
            json.key("end").moment(run.end).key("store").string("network");
            json.key("servers").value(run.servers).key("candidates").array(|json| {
                for _ in 0..run.candidates {
                    json.object(|_| {});
                }
            });
            json.key("faults").array(|json| {
                if let Some(at) = run.fault_at {
                    json.moment(at);
                }
            });
        });
    }

    /// Writes the run at `now`.
    pub(crate) fn write_moment(&self, json: &mut Json, now: Moment) {
        let Self(run) = self;
        let now = now.min(run.end);
        let past = run.records.partition_point(|record| record.at <= now);
        let past = &run.records[..past];
        json.object(|json| {
            json.key("now").moment(now).key("records").value(run.records.len());
            json.key("nodes").array(|json| {
                for (number, candidate) in candidates(past, run.candidates).iter().enumerate() {
                    json.object(|json| write_candidate(json, number, candidate, run.end));
                }
            });
            json.key("messages").array(|json| write_messages(json, past, now));
            json.key("store").object(|json| {
                json.key("kind").string("network");
            });
            json.key("writes").array(|json| write_writes(json, past));
            write_overlap(json.key("violation"), &run.records);
        });
    }

    /// Writes the records from `from` on, in the form of the records of live runs.
    pub(crate) fn write_records(&self, json: &mut Json, from: usize) {
        let Self(run) = self;
        json.array(|json| {
            for record in run.records.get(from..).unwrap_or_default() {
                json.array(|json| {
                    json.moment(record.at);
                    write_fact(json, &record.fact, run.end);
                    json.string(&record.text);
                });
            }
        });
    }
}

/// The candidates after the records of `past`.
fn candidates(past: &[Record], count: usize) -> Vec<Candidate> {
    let down = Candidate { is_up: false, role: Role::Looking, is_paused: false, is_cut: false };
    let mut candidates = vec![down; count];
    for record in past {
        let (node, change): (NodeId, fn(&mut Candidate)) = match record.fact {
            Fact::Started(node) => (node, |it| (it.is_up, it.is_paused) = (true, false)),
            Fact::Ended(node) => (node, |it| it.is_up = false),
            Fact::Paused(node) => (node, |it| it.is_paused = true),
            Fact::Resumed(node) => (node, |it| it.is_paused = false),
            Fact::CutBegan(node) => (node, |it| it.is_cut = true),
            Fact::CutEnded(node) => (node, |it| it.is_cut = false),
            Fact::RoleChanged(node, role) => {
                if let Some(candidate) = candidates.get_mut(node.0) {
                    candidate.role = role;
                }
                continue;
            }
            Fact::Sent { .. } | Fact::Written { .. } => continue,
        };
        if let Some(candidate) = candidates.get_mut(node.0) {
            change(candidate);
        }
    }
    candidates
}

fn write_candidate(json: &mut Json, number: usize, candidate: &Candidate, end: Moment) {
    let leader = match candidate.role {
        Role::Following(leader) => Some(leader),
        Role::Leading { .. } => Some(NodeId(number)),
        Role::Looking => None,
    };
    json.key("identity");
    write_name(json, candidate.is_up.then_some(NodeId(number)));
    json.key("leader");
    write_name(json, leader);
    if candidate.role.is_leading() {
        // A leadership without a deadline lasts beyond the end.
        json.key("until").moment(end + Duration::from_secs(1));
    }
    json.key("paused").value(candidate.is_paused).key("cut").value(candidate.is_cut);
}

fn write_name(json: &mut Json, node: Option<NodeId>) {
    match node {
        Some(node) => json.string(&node.to_string()),
        None => json.option(None::<u8>),
    };
}

/// Writes the messages on their way at `now`, and those that were lost a moment ago.
fn write_messages(json: &mut Json, past: &[Record], now: Moment) {
    for record in past {
        let Fact::Sent { from, to, purpose, arrives } = record.fact else { continue };
        let until = arrives.unwrap_or(record.at + SHOWN_IF_LOST);
        if until <= now {
            continue;
        }
        json.object(|json| {
            json.key("from").value(from).key("to").value(to);
            json.key("sent").moment(record.at).key("arrives").moment(until);
            json.key("lost").value(arrives.is_none());
            json.key("beat").value(purpose == Purpose::Heartbeat);
            json.key("text").string(&record.text);
        });
    }
}

fn write_writes(json: &mut Json, past: &[Record]) {
    for record in past {
        let Fact::Written { write, is_late, is_refused } = record.fact else { continue };
        json.object(|json| {
            json.key("at").moment(record.at).key("candidate").value(write.node);
            json.key("token").option(write.token).key("stale").value(is_late);
            json.key("refused").value(is_refused);
        });
    }
}

/// Writes when two candidates first led at once, or `null`. Roles that change at one moment do not
/// overlap there.
fn write_overlap(json: &mut Json, records: &[Record]) {
    let mut leaders = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let Fact::RoleChanged(node, role) = record.fact else { continue };
        leaders.retain(|leader| *leader != node);
        if role.is_leading() {
            leaders.push(node);
        }
        let lasts = records.get(index + 1).is_none_or(|next| next.at > record.at);
        if let ([first, second, ..], true) = (&leaders[..], lasts) {
            json.object(|json| {
                json.key("property").string("at most one leader").key("at").moment(record.at);
                json.key("detail").string(&format!("{first} and {second} lead"));
            });
            return;
        }
    }
    json.option(None::<u8>);
}

fn write_fact(json: &mut Json, fact: &Fact, end: Moment) {
    let none = None::<u8>;
    match *fact {
        Fact::Started(id) => json.string("start").value(id).option(none).option(none),
        Fact::Ended(id) => json.string("exit").value(id).option(none).option(none),
        Fact::Paused(id) => json.string("fault").value(id).string("pause").moment(end),
        Fact::Resumed(id) => json.string("fault-end").value(id).string("pause").option(none),
        Fact::CutBegan(id) => json.string("fault").value(id).string("link").moment(end),
        Fact::CutEnded(id) => json.string("fault-end").value(id).string("link").option(none),
        Fact::RoleChanged(id, role) => {
            let (role, leader) = match role {
                Role::Looking => ("lost", None),
                Role::Following(leader) => ("follows", Some(leader)),
                Role::Leading { .. } => ("leads", Some(id)),
            };
            json.string("role").value(id).string(role).option(leader)
        }
        Fact::Sent { from, to, purpose, arrives } => {
            let kind = match purpose {
                Purpose::Election => "sent",
                Purpose::Heartbeat => "beat",
            };
            json.string(kind).value(from).value(to);
            match arrives {
                Some(at) => json.moment(at),
                None => json.option(none),
            }
        }
        Fact::Written { write, .. } => {
            json.string("write").value(write.node).option(none).option(none)
        }
    };
}
