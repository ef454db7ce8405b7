//! `ZooKeeper`'s Fast Leader Election, and the handshake between the leader and its followers.
//!
//! Pure. Start with [`Fle`]. Written from `FastLeaderElection`, `Leader`, `Learner`, and
//! `LearnerHandler` of Apache `ZooKeeper` 3.9, and from Junqueira, Reed, and Serafini, "Zab:
//! High-Performance Broadcast for Primary-Backup Systems" (2011), phases 1 and 2 (discovery and
//! synchronization). Voting is in `fle/looking.rs`, the leader's half of the handshake in
//! `fle/leading.rs`, and the follower's half here.
//!
//! A log is represented by its last zxid. A TCP connection is represented by
//! [`Message::FollowerInfo`], which a follower repeats up to five times, 100 ms apart
//! (`zookeeper.leaderConnectDelayDuringRetryMs`). A process that ends resets no connection here, so
//! all deaths look like those of machines.

mod leading;
mod looking;

use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role};
use baton_election::instant::Instant;
use leading::Leading;
use looking::Looking;
use std::fmt;
use std::time::Duration;

/// The algorithm with `ZooKeeper`'s settings.
#[derive(Clone, Copy, Debug)]
pub struct Fle {
    /// `tickTime`. The leader pings twice a tick, and checks its quorum once a tick.
    pub tick: Duration,
    /// `initLimit`: how many ticks the handshake may take.
    pub init_limit: u32,
    /// `syncLimit`: after how many silent ticks leader and follower give each other up.
    pub sync_limit: u32,
}

impl Fle {
    /// The values of `conf/zoo_sample.cfg`: 2 s, 10, and 5.
    pub const SAMPLE: Self = Self { tick: Duration::from_secs(2), init_limit: 10, sync_limit: 5 };

    fn silence(&self) -> Duration {
        self.tick * self.sync_limit
    }

    fn handshake(&self) -> Duration {
        self.tick * self.init_limit
    }
}

/// A node waits this long for a better vote after it has a quorum (`finalizeWait`).
const FINALIZE_WAIT: Duration = Duration::from_millis(200);
/// The longest wait before votes are sent again (`maxNotificationInterval`).
const LONGEST_INTERVAL: Duration = Duration::from_mins(1);
/// How often a follower tries to reach its leader, and how long it waits after each try.
const CONNECT_TRIES: u32 = 5;
const CONNECT_WAIT: Duration = Duration::from_millis(100);

/// The state that a node stores: two small files, and its log.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The latest epoch that the node has promised to a leader (`acceptedEpoch`).
    pub accepted_epoch: u64,
    /// The epoch of the last leader that it has synchronized with (`currentEpoch`).
    pub current_epoch: u64,
    /// The last transaction in its log.
    pub zxid: u64,
}

/// A vote. The greatest wins: by epoch, then zxid, then server (`totalOrderPredicate`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vote {
    /// `currentEpoch` of the proposed leader.
    pub epoch: u64,
    /// Its last zxid.
    pub zxid: u64,
    /// The proposed leader's number (sid).
    pub leader: NodeId,
}

impl fmt::Debug for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (epoch {}, zxid {})", self.leader, self.epoch, self.zxid)
    }
}

/// The state of a server, as its votes tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// LOOKING.
    Looking,
    /// FOLLOWING.
    Following,
    /// LEADING.
    Leading,
}

/// The messages of election, discovery, and synchronization.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// A vote.
    Notification {
        /// The vote.
        vote: Vote,
        /// The sender's round (`electionEpoch`).
        round: u64,
        /// The sender's state.
        phase: Phase,
    },
    /// A follower reaches its leader (FOLLOWERINFO).
    FollowerInfo {
        /// The latest epoch that it has promised.
        accepted_epoch: u64,
    },
    /// The leader proposes a new epoch (LEADERINFO).
    LeaderInfo {
        /// The epoch.
        epoch: u64,
    },
    /// A follower promises to follow no earlier epoch (ACKEPOCH).
    AckEpoch {
        /// The new epoch.
        epoch: u64,
        /// The follower's `currentEpoch`; none if it had promised this epoch before, because it
        /// must not count for two leaders.
        current_epoch: Option<u64>,
        /// Its last zxid.
        zxid: u64,
    },
    /// The follower has the leader's log (the end of the synchronization, NEWLEADER).
    NewLeader {
        /// The new epoch.
        epoch: u64,
        /// The leader's last zxid.
        zxid: u64,
    },
    /// The follower has stored the log and the epoch (ACK).
    Ack {
        /// The new epoch.
        epoch: u64,
    },
    /// The leader has a quorum, and the follower may serve (UPTODATE).
    UpToDate {
        /// The new epoch.
        epoch: u64,
    },
    /// The leader closes the connection.
    Closed,
    /// The leader is alive.
    Ping,
    /// The follower is alive.
    Pong,
}

#[derive(Debug)]
enum State {
    Looking(Looking),
    Following(Following),
    Leading(Leading),
}

#[derive(Debug)]
struct Following {
    leader: NodeId,
    /// How often the follower has tried to reach the leader.
    tries: u32,
    is_up_to_date: bool,
    /// When the follower tries again, or gives the leader up.
    due: Instant,
}

/// One server.
#[derive(Debug)]
pub struct FleNode {
    settings: Fle,
    boot: Boot<Stored>,
    stored: Stored,
    /// `logicalclock`: counts elections since the process started.
    round: u64,
    /// The vote of the last election; new servers hear it.
    vote: Vote,
    state: State,
    outbox: Outbox<Message>,
}

impl Algorithm for Fle {
    type Machine = FleNode;
    type Durable = Stored;

    /// The last transactions of an earlier leader reached only some servers.
    fn first(&self, _: NodeId, random: u64) -> Stored {
        Stored { accepted_epoch: 0, current_epoch: 0, zxid: 1 + random % 3 }
    }

    fn durable(machine: &FleNode) -> Stored {
        machine.stored
    }

    fn uses_tcp(&self) -> bool {
        true
    }

    fn patience(&self) -> Duration {
        self.silence()
    }

    fn boot(&self, boot: Boot<Stored>) -> FleNode {
        let (now, me, stored) = (boot.now, boot.me, boot.durable);
        let vote = Vote { epoch: stored.current_epoch, zxid: stored.zxid, leader: me };
        let mut node = FleNode {
            settings: *self,
            stored,
            round: 0,
            vote,
            state: State::Looking(Looking::new(vote, now)),
            outbox: Outbox::default(),
            boot,
        };
        node.look_for_leader(now);
        node
    }
}

impl Machine for FleNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match message {
            Message::Notification { vote, round, phase } => {
                self.receive_vote(from, vote, round, phase, now);
            }
            Message::FollowerInfo { accepted_epoch } => {
                self.accept_follower(from, accepted_epoch);
            }
            Message::AckEpoch { epoch, current_epoch, zxid } => {
                self.count_epoch_ack(from, epoch, current_epoch.map(|epoch| (epoch, zxid)));
            }
            Message::Ack { epoch } => self.count_ack(from, epoch, now),
            Message::Pong => {
                if let State::Leading(leading) = &mut self.state {
                    leading.hear(from, now);
                }
            }
            Message::LeaderInfo { .. }
            | Message::NewLeader { .. }
            | Message::UpToDate { .. }
            | Message::Closed
            | Message::Ping => self.hear_leader(from, message, now),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &mut self.state {
            State::Looking(_) => self.continue_looking(now),
            State::Leading(_) => self.continue_leading(now),
            State::Following(following) if now >= following.due => {
                if following.tries < CONNECT_TRIES {
                    self.connect(now);
                } else {
                    self.look_for_leader(now);
                }
            }
            State::Following(_) => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Looking(looking) => Some(looking.finalize_at.unwrap_or(looking.resend_at)),
            State::Following(following) => Some(following.due),
            State::Leading(leading) => Some(leading.due),
        }
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.outbox.pop()
    }

    /// A leader acts only after a quorum has stored its epoch, and a follower only after the leader
    /// has said so.
    fn role(&self, _: Instant) -> Role {
        match &self.state {
            State::Following(following) if following.is_up_to_date => {
                Role::Following(following.leader)
            }
            State::Leading(leading) if leading.is_established => {
                Role::Leading { token: Some(self.stored.accepted_epoch) }
            }
            State::Looking(_) | State::Following(_) | State::Leading(_) => Role::Looking,
        }
    }
}

impl FleNode {
    /// Ends the election with this vote.
    fn follow(&mut self, vote: Vote, now: Instant) {
        self.vote = vote;
        if vote.leader == self.boot.me {
            self.lead(now);
        } else {
            let leader = vote.leader;
            self.state =
                State::Following(Following { leader, tries: 0, is_up_to_date: false, due: now });
            self.connect(now);
        }
    }

    fn connect(&mut self, now: Instant) {
        let accepted_epoch = self.stored.accepted_epoch;
        if let State::Following(following) = &mut self.state {
            following.tries += 1;
            following.due = now + CONNECT_WAIT;
            self.outbox.send(following.leader, Message::FollowerInfo { accepted_epoch });
        }
    }

    /// Handles a message that only a leader sends.
    fn hear_leader(&mut self, from: NodeId, message: Message, now: Instant) {
        let (silence, handshake) = (self.settings.silence(), self.settings.handshake());
        let State::Following(following) = &mut self.state else { return };
        if following.leader != from {
            return;
        }
        following.tries = CONNECT_TRIES;
        if following.is_up_to_date {
            following.due = now + silence;
        } else if !matches!(message, Message::Ping) {
            following.due = now + handshake;
        }
        match message {
            Message::LeaderInfo { epoch } => {
                let Stored { accepted_epoch, current_epoch, zxid } = self.stored;
                if epoch < accepted_epoch {
                    self.look_for_leader(now);
                    return;
                }
                self.stored.accepted_epoch = epoch;
                let current_epoch = (epoch > accepted_epoch).then_some(current_epoch);
                self.outbox.send(from, Message::AckEpoch { epoch, current_epoch, zxid });
            }
            Message::NewLeader { epoch, zxid } if epoch == self.stored.accepted_epoch => {
                self.stored.current_epoch = epoch;
                self.stored.zxid = zxid;
                self.outbox.send(from, Message::Ack { epoch });
            }
            Message::UpToDate { epoch } if epoch == self.stored.current_epoch => {
                following.is_up_to_date = true;
                following.due = now + silence;
                self.vote.epoch = epoch;
            }
            Message::Closed => self.look_for_leader(now),
            Message::Ping => self.outbox.push(from, Message::Pong, Purpose::Heartbeat),
            Message::NewLeader { .. }
            | Message::UpToDate { .. }
            | Message::Notification { .. }
            | Message::FollowerInfo { .. }
            | Message::AckEpoch { .. }
            | Message::Ack { .. }
            | Message::Pong => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::since_boot(Duration::ZERO);
    const OTHER: NodeId = NodeId(1);

    /// One of three servers.
    fn server() -> FleNode {
        let durable = Stored { accepted_epoch: 0, current_epoch: 0, zxid: 1 };
        let boot = Boot { me: NodeId(0), candidates: 3, durable, seed: 1, now: START };
        Fle::SAMPLE.boot(boot)
    }

    /// A leader that has proposed epoch 1 to the other server.
    fn leader() -> FleNode {
        let mut leader = server();
        leader.lead(START);
        leader.handle_message(OTHER, Message::FollowerInfo { accepted_epoch: 0 }, START);
        leader
    }

    /// The last message to the other server.
    fn last_message(node: &mut FleNode) -> Option<Message> {
        let sent: Vec<_> = std::iter::from_fn(|| node.poll_message()).collect();
        sent.iter().rfind(|sent| sent.to == OTHER).map(|sent| sent.message)
    }

    #[test]
    fn second_promise_of_an_epoch_does_not_count() {
        let mut leader = leader();
        for (current_epoch, counts) in [(None, false), (Some(0), true)] {
            last_message(&mut leader);
            let promise = Message::AckEpoch { epoch: 1, current_epoch, zxid: 1 };
            leader.handle_message(OTHER, promise, START);
            let last = last_message(&mut leader);
            assert_eq!(matches!(last, Some(Message::NewLeader { .. })), counts, "{last:?}");
        }
    }

    #[test]
    fn follower_says_that_it_promised_before() {
        let mut follower = server();
        follower.follow(Vote { epoch: 0, zxid: 1, leader: OTHER }, START);
        for expected in [Some(0), None] {
            follower.handle_message(OTHER, Message::LeaderInfo { epoch: 1 }, START);
            let Some(Message::AckEpoch { current_epoch, .. }) = last_message(&mut follower) else {
                panic!("it promises")
            };
            assert_eq!(current_epoch, expected);
        }
    }

    #[test]
    fn follower_that_is_ahead_is_refused() {
        let mut leader = leader();
        let ahead = Message::AckEpoch { epoch: 1, current_epoch: Some(0), zxid: 9 };
        leader.handle_message(OTHER, ahead, START);
        assert!(matches!(last_message(&mut leader), Some(Message::Closed)));
        assert!(
            matches!(leader.state, State::Leading(_)),
            "another follower may complete a quorum"
        );
    }
}
