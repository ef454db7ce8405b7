//! Voting: a server in the state LOOKING (`FastLeaderElection.lookForLeader`).
//!
//! Pure. Start with [`FleNode::receive_vote`].

use super::{FINALIZE_WAIT, FleNode, LONGEST_INTERVAL, Message, Phase, State, Vote};
use crate::machine::{NodeId, majority};
use baton_election::instant::Instant;
use std::collections::BTreeMap;
use std::time::Duration;

/// One election, as one server sees it.
#[derive(Debug)]
pub(super) struct Looking {
    proposal: Vote,
    /// The votes of this round.
    received: BTreeMap<NodeId, (Vote, Phase)>,
    /// The votes of servers that have a leader (`outofelection`).
    decided: BTreeMap<NodeId, (Vote, Phase)>,
    interval: Duration,
    /// When the vote is sent again.
    pub(super) resend_at: Instant,
    /// When the election ends, if no better vote arrives.
    pub(super) finalize_at: Option<Instant>,
}

impl Looking {
    pub(super) fn new(proposal: Vote, now: Instant) -> Self {
        Self {
            proposal,
            received: BTreeMap::new(),
            decided: BTreeMap::new(),
            interval: FINALIZE_WAIT,
            resend_at: now + FINALIZE_WAIT,
            finalize_at: None,
        }
    }
}

impl FleNode {
    /// Begins an election with a vote for itself.
    pub(super) fn look_for_leader(&mut self, now: Instant) {
        self.round += 1;
        self.state = State::Looking(Looking::new(self.own_vote(), now));
        self.broadcast();
        self.propose(self.own_vote(), now);
    }

    const fn own_vote(&self) -> Vote {
        Vote { epoch: self.stored.current_epoch, zxid: self.stored.zxid, leader: self.boot.me }
    }

    fn broadcast(&mut self) {
        let State::Looking(looking) = &self.state else { return };
        let message = Message::Notification {
            vote: looking.proposal,
            round: self.round,
            phase: Phase::Looking,
        };
        for peer in self.boot.peers() {
            self.outbox.send(peer, message);
        }
    }

    /// Takes over a vote, which counts as the server's own.
    fn propose(&mut self, vote: Vote, now: Instant) {
        let me = self.boot.me;
        let State::Looking(looking) = &mut self.state else { return };
        looking.proposal = vote;
        looking.received.insert(me, (vote, Phase::Looking));
        self.count_votes(now);
    }

    pub(super) fn receive_vote(
        &mut self,
        from: NodeId,
        vote: Vote,
        round: u64,
        phase: Phase,
        now: Instant,
    ) {
        let (decided, own_round) = (self.vote, self.round);
        let looking = match &mut self.state {
            State::Looking(looking) => looking,
            State::Following(_) | State::Leading(_) if phase != Phase::Looking => return,
            State::Following(_) => {
                self.answer(from, decided, Phase::Following);
                return;
            }
            State::Leading(_) => {
                self.answer(from, decided, Phase::Leading);
                return;
            }
        };
        if looking.finalize_at.is_some() {
            if vote <= looking.proposal {
                looking.finalize_at = Some(now + FINALIZE_WAIT);
                if phase == Phase::Looking && round < own_round {
                    let proposal = looking.proposal;
                    self.answer(from, proposal, Phase::Looking);
                }
                return;
            }
            looking.finalize_at = None;
        }
        // Every notification restarts the wait before the vote is sent again.
        looking.resend_at = now + looking.interval;
        match phase {
            Phase::Looking => self.receive_proposal(from, vote, round, now),
            Phase::Following | Phase::Leading => {
                self.receive_decision(from, vote, round, phase, now);
            }
        }
    }

    fn answer(&mut self, to: NodeId, vote: Vote, phase: Phase) {
        self.outbox.send(to, Message::Notification { vote, round: self.round, phase });
    }

    /// Receives the vote of a server that looks for a leader too.
    fn receive_proposal(&mut self, from: NodeId, vote: Vote, round: u64, now: Instant) {
        let own = self.own_vote();
        let State::Looking(looking) = &mut self.state else { return };
        if round < self.round {
            let proposal = looking.proposal;
            self.answer(from, proposal, Phase::Looking);
            return;
        }
        if round > self.round {
            self.round = round;
            looking.received.clear();
            looking.received.insert(from, (vote, Phase::Looking));
            looking.proposal = vote.max(own);
            self.broadcast();
        } else {
            looking.received.insert(from, (vote, Phase::Looking));
            if vote > looking.proposal {
                looking.proposal = vote;
                self.broadcast();
            }
        }
        let State::Looking(looking) = &self.state else { return };
        self.propose(looking.proposal, now);
    }

    /// Waits for better votes once a quorum has the same vote.
    fn count_votes(&mut self, now: Instant) {
        let quorum = majority(self.boot.candidates);
        let State::Looking(looking) = &mut self.state else { return };
        let proposal = looking.proposal;
        let supporters = looking.received.values().filter(|(vote, _)| *vote == proposal).count();
        if supporters >= quorum && looking.finalize_at.is_none() {
            looking.finalize_at = Some(now + FINALIZE_WAIT);
        }
    }

    /// Receives the vote of a server that has a leader, and joins that leader if a quorum follows it
    /// and it says itself that it leads (`checkLeader`).
    fn receive_decision(
        &mut self,
        from: NodeId,
        vote: Vote,
        round: u64,
        phase: Phase,
        now: Instant,
    ) {
        let (me, quorum, own_round) = (self.boot.me, majority(self.boot.candidates), self.round);
        let State::Looking(looking) = &mut self.state else { return };
        let leads = |of_leader: Option<Phase>| match of_leader {
            _ if vote.leader == me => round == own_round,
            Some(phase) => phase == Phase::Leading,
            None => false,
        };
        // Decided votes are equal if leader and epoch are (`Vote.equals`).
        let same = |other: &Vote| (other.leader, other.epoch) == (vote.leader, vote.epoch);
        let mut is_joined = false;
        if round == own_round {
            looking.received.insert(from, (vote, phase));
            let supports = |(other, phase): &&(Vote, Phase)| {
                if *phase == Phase::Looking { *other == vote } else { same(other) }
            };
            let supporters = looking.received.values().filter(supports).count();
            let of_leader = looking.received.get(&vote.leader).map(|(_, phase)| *phase);
            is_joined = supporters >= quorum && leads(of_leader);
        }
        looking.decided.insert(from, (vote, phase));
        let followers = looking.decided.values().filter(|(other, _)| same(other)).count();
        let of_leader = looking.decided.get(&vote.leader).map(|(_, phase)| *phase);
        if is_joined || followers >= quorum && leads(of_leader) {
            self.round = round;
            self.follow(vote, now);
        }
    }

    /// Ends the election, or sends the vote again, each time after twice as long.
    pub(super) fn continue_looking(&mut self, now: Instant) {
        let State::Looking(looking) = &mut self.state else { return };
        if let Some(at) = looking.finalize_at {
            if now >= at {
                let vote = looking.proposal;
                self.follow(vote, now);
            }
        } else if now >= looking.resend_at {
            looking.interval = (looking.interval * 2).min(LONGEST_INTERVAL);
            looking.resend_at = now + looking.interval;
            self.broadcast();
        }
    }
}
