//! Raft's election: terms, one vote per term, randomized timeouts, and log freshness.
//!
//! Pure. Start with [`Raft`]. Written from Ongaro and Ousterhout, "In Search of an Understandable
//! Consensus Algorithm" (2014), Figure 2, §5.2, and §5.4.1. The switches are §9.6 (pre-vote), §6.2
//! (a leader without a quorum steps down), and §4.2.3 (voters that hear a leader ignore
//! candidates) of Ongaro's dissertation (2014).
//!
//! A log is represented by the position of its last entry, the only part that elections compare. A
//! leader appends one entry when its term begins (dissertation, §6.4), and followers take over the
//! leader's position with each heartbeat.

use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role, majority};
use baton_election::instant::Instant;
use baton_sim::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Raft with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Raft {
    /// The time between a leader's heartbeats.
    pub heartbeat: Duration,
    /// A follower campaigns after one to two times this long without a heartbeat.
    pub election_timeout: Duration,
    /// Whether a node asks if it could win before it raises its term.
    pub pre_vote: bool,
    /// Whether a leader steps down after `election_timeout` without a quorum, and voters ignore
    /// candidates while they hear a leader.
    pub check_quorum: bool,
}

impl Raft {
    /// The algorithm of the paper's Figure 2, with etcd's durations ("Tuning": 100 ms and 1 s, ten
    /// times the heartbeat).
    pub const PAPER: Self = Self {
        heartbeat: Duration::from_millis(100),
        election_timeout: Duration::from_secs(1),
        pre_vote: false,
        check_quorum: false,
    };
    /// With both switches, as etcd runs it since 3.5.
    pub const ETCD: Self = Self { pre_vote: true, check_quorum: true, ..Self::PAPER };
}

/// The position of the last entry of a log; the later term wins, then the longer log (§5.4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEnd {
    /// The term of the last entry.
    pub term: u64,
    /// The index of the last entry.
    pub index: u64,
}

impl fmt::Debug for LogEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.index)
    }
}

/// The state that a node stores before it answers (Figure 2, "Persistent state").
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The latest term that the node has seen.
    pub term: u64,
    /// The candidate that received the node's vote in that term.
    pub voted_for: Option<NodeId>,
    /// The end of its log.
    pub log: LogEnd,
}

/// The remote calls of Figure 2 and their results, as messages.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// Asks for a vote, or whether one would be given.
    RequestVote {
        /// The candidate's term; of a pre-vote, the term that it would campaign in.
        term: u64,
        /// The end of its log.
        log: LogEnd,
        /// Whether this is a pre-vote.
        is_pre: bool,
    },
    /// Answers a request for a vote.
    Vote {
        /// The voter's term; of a granted pre-vote, the term asked for.
        term: u64,
        /// Whether the vote is given.
        is_granted: bool,
        /// Whether this is a pre-vote.
        is_pre: bool,
    },
    /// A leader's heartbeat.
    Append {
        /// The leader's term.
        term: u64,
        /// The end of its log.
        log: LogEnd,
    },
    /// Answers a heartbeat.
    Appended {
        /// The follower's term.
        term: u64,
    },
}

/// The state of a node in its term.
#[derive(Clone, Debug)]
enum State {
    Follower { leader: Option<NodeId> },
    Candidate { is_pre: bool, votes: BTreeSet<NodeId> },
    Leader { heard: BTreeMap<NodeId, Instant>, beat_at: Instant, quorum_checked: Instant },
}

/// One node.
#[derive(Debug)]
pub struct RaftNode {
    settings: Raft,
    boot: Boot<Stored>,
    rng: Rng,
    stored: Stored,
    state: State,
    /// When a follower campaigns, or a candidate campaigns again.
    campaign_at: Instant,
    /// When the node last heard a leader of its term.
    heard_leader: Option<Instant>,
    outbox: Outbox<Message>,
}

impl Algorithm for Raft {
    type Machine = RaftNode;
    type Durable = Stored;

    /// All logs come from one earlier leader, whose last entries reached only some nodes.
    fn first(&self, _: NodeId, random: u64) -> Stored {
        Stored { term: 1, voted_for: None, log: LogEnd { term: 1, index: 1 + random % 3 } }
    }

    fn durable(machine: &RaftNode) -> Stored {
        machine.stored
    }

    fn patience(&self) -> Duration {
        self.election_timeout * 2
    }

    fn boot(&self, boot: Boot<Stored>) -> RaftNode {
        let mut node = RaftNode {
            settings: *self,
            rng: Rng::new(boot.seed),
            stored: boot.durable,
            state: State::Follower { leader: None },
            campaign_at: boot.now,
            heard_leader: None,
            outbox: Outbox::default(),
            boot,
        };
        node.wait(node.boot.now);
        node
    }
}

impl Machine for RaftNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match message {
            Message::RequestVote { term, log, is_pre } => {
                self.answer_request(from, term, log, is_pre, now);
            }
            Message::Vote { term, is_granted, is_pre } => {
                if !(is_pre && is_granted) {
                    self.observe_term(term, now);
                }
                self.count_vote(from, term, is_granted, is_pre, now);
            }
            Message::Append { term, log } => self.follow(from, term, log, now),
            Message::Appended { term } => {
                self.observe_term(term, now);
                // A late answer may belong to an earlier term.
                if let State::Leader { heard, .. } = &mut self.state
                    && term == self.stored.term
                {
                    heard.insert(from, now);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let State::Leader { heard, beat_at, quorum_checked } = &mut self.state {
            if self.settings.check_quorum && now >= *quorum_checked + self.settings.election_timeout
            {
                let since = *quorum_checked;
                let answered = heard.values().filter(|at| **at >= since).count();
                *quorum_checked = now;
                if answered + 1 < majority(self.boot.candidates) {
                    self.state = State::Follower { leader: None };
                    self.wait(now);
                    return;
                }
            }
            if now >= *beat_at {
                *beat_at = now + self.settings.heartbeat;
                self.beat(Purpose::Heartbeat);
            }
        } else if now >= self.campaign_at {
            self.campaign(self.settings.pre_vote, now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(match &self.state {
            State::Follower { .. } | State::Candidate { .. } => self.campaign_at,
            State::Leader { beat_at, quorum_checked, .. } if self.settings.check_quorum => {
                (*beat_at).min(*quorum_checked + self.settings.election_timeout)
            }
            State::Leader { beat_at, .. } => *beat_at,
        })
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.outbox.pop()
    }

    fn role(&self, _: Instant) -> Role {
        match self.state {
            State::Follower { leader: Some(leader) } => Role::Following(leader),
            State::Follower { leader: None } | State::Candidate { .. } => Role::Looking,
            State::Leader { .. } => Role::Leading { token: Some(self.stored.term) },
        }
    }
}

impl RaftNode {
    /// Waits for a leader: one to two election timeouts, anew each time (§5.2).
    fn wait(&mut self, now: Instant) {
        let least = self.settings.election_timeout;
        self.campaign_at = now + self.rng.duration_between(least, least * 2);
    }

    /// A later term makes every node a follower (Figure 2, "All Servers").
    fn observe_term(&mut self, term: u64, now: Instant) {
        if term > self.stored.term {
            self.stored.term = term;
            self.stored.voted_for = None;
            if matches!(self.state, State::Leader { .. }) {
                self.wait(now);
            }
            self.state = State::Follower { leader: None };
            self.heard_leader = None;
        }
    }

    fn answer_request(&mut self, from: NodeId, term: u64, log: LogEnd, is_pre: bool, now: Instant) {
        let hears_leader = match &self.state {
            State::Leader { .. } => true,
            State::Follower { .. } | State::Candidate { .. } => self
                .heard_leader
                .is_some_and(|heard| now.since(heard) < self.settings.election_timeout),
        };
        if hears_leader && (is_pre || self.settings.check_quorum) && term > self.stored.term {
            return;
        }
        if !is_pre {
            self.observe_term(term, now);
        }
        let is_current = if is_pre { term > self.stored.term } else { term == self.stored.term };
        let has_vote = is_pre || self.stored.voted_for.is_none_or(|candidate| candidate == from);
        let is_granted = is_current && has_vote && log >= self.stored.log;
        if is_granted && !is_pre {
            self.stored.voted_for = Some(from);
            self.wait(now);
        }
        let term = if is_pre && is_granted { term } else { self.stored.term };
        self.outbox.send(from, Message::Vote { term, is_granted, is_pre });
    }

    fn campaign(&mut self, is_pre: bool, now: Instant) {
        let mut term = self.stored.term + 1;
        if !is_pre {
            self.stored.term = term;
            self.stored.voted_for = Some(self.boot.me);
            term = self.stored.term;
        }
        self.state = State::Candidate { is_pre, votes: BTreeSet::from([self.boot.me]) };
        self.wait(now);
        for peer in self.boot.peers() {
            self.outbox.send(peer, Message::RequestVote { term, log: self.stored.log, is_pre });
        }
    }

    fn count_vote(
        &mut self,
        from: NodeId,
        term: u64,
        is_granted: bool,
        is_pre_vote: bool,
        now: Instant,
    ) {
        let State::Candidate { is_pre, votes } = &mut self.state else { return };
        let campaign_term = self.stored.term + u64::from(*is_pre);
        if !is_granted || is_pre_vote != *is_pre || term != campaign_term {
            return;
        }
        votes.insert(from);
        if votes.len() < majority(self.boot.candidates) {
            return;
        }
        if *is_pre {
            self.campaign(false, now);
        } else {
            self.stored.log = LogEnd { term: self.stored.term, index: self.stored.log.index + 1 };
            self.state = State::Leader {
                heard: BTreeMap::new(),
                beat_at: now + self.settings.heartbeat,
                quorum_checked: now,
            };
            self.beat(Purpose::Election);
        }
    }

    fn beat(&mut self, purpose: Purpose) {
        let message = Message::Append { term: self.stored.term, log: self.stored.log };
        for peer in self.boot.peers() {
            self.outbox.push(peer, message, purpose);
        }
    }

    fn follow(&mut self, from: NodeId, term: u64, log: LogEnd, now: Instant) {
        self.observe_term(term, now);
        if term == self.stored.term {
            self.state = State::Follower { leader: Some(from) };
            self.stored.log = log;
            self.heard_leader = Some(now);
            self.wait(now);
        }
        self.outbox.push(from, Message::Appended { term: self.stored.term }, Purpose::Heartbeat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_answer_to_an_earlier_term_shows_no_quorum() {
        let now = Instant::since_boot(Duration::ZERO);
        let durable = Stored { term: 5, voted_for: None, log: LogEnd { term: 5, index: 1 } };
        let boot = Boot { me: NodeId(0), candidates: 3, durable, seed: 1, now };
        for (term, leads) in [(4, false), (5, true)] {
            let mut node = Raft::ETCD.boot(boot.clone());
            node.state =
                State::Leader { heard: BTreeMap::new(), beat_at: now, quorum_checked: now };
            node.handle_message(NodeId(1), Message::Appended { term }, now);
            let at = now + Raft::ETCD.election_timeout;
            node.handle_timeout(at);
            assert_eq!(node.role(at).is_leading(), leads, "an answer to term {term}");
        }
    }
}
