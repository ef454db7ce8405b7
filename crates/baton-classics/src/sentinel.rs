//! Redis Sentinel: sentinels vote for the one that promotes a replica.
//!
//! Pure. Start with [`Sentinel`]. Written from "High availability with Redis Sentinel" (the pages on
//! configuration, SDOWN and ODOWN, leader election, configuration epochs, and TILT mode) and from
//! `sentinel.c` of Redis 7. Each node is a sentinel and a Redis instance, as in the page's example of
//! three boxes. The leader is the Redis master: the vote elects only the sentinel that carries out a
//! failover.
//!
//! A master obeys REPLICAOF from any sentinel and knows no epoch, so a resource has no token to
//! compare. PING and INFO are one message here, sent every second. The failover is in
//! `sentinel/failover.rs`.

mod failover;

use crate::machine::{Algorithm, Boot, Machine, NodeId, Outbox, Outgoing, Purpose, Role};
use baton_election::instant::Instant;
use baton_sim::rng::Rng;
use failover::Failover;
use std::collections::BTreeMap;
use std::time::Duration;

/// The algorithm with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Sentinel {
    /// `down-after-milliseconds`.
    pub down_after: Duration,
    /// `failover-timeout`. A sentinel tries again after twice as long.
    pub failover_timeout: Duration,
    /// `min-replicas-max-lag` with `min-replicas-to-write 1`: a master without a replica that has
    /// acknowledged for this long takes no writes. `None` is Redis's default.
    pub max_lag: Option<Duration>,
}

impl Sentinel {
    /// The values of the documentation's tutorial: 5 s and 60 s.
    pub const TUTORIAL: Self = Self {
        down_after: Duration::from_secs(5),
        failover_timeout: Duration::from_mins(1),
        max_lag: None,
    };
    /// With `min-replicas-max-lag 10`, as in the documentation's example. It is longer than the 5 s
    /// after which a replica is promoted.
    pub const MIN_REPLICAS: Self =
        Self { max_lag: Some(Duration::from_secs(10)), ..Self::TUTORIAL };
}

/// How often a sentinel pings and asks.
const PERIOD: Duration = Duration::from_secs(1);
/// How often a sentinel looks at a failover: `hz` is drawn between 10 and 20, so that the sentinels
/// lose step.
const TIMER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(100));
/// A sentinel whose timer is this late does nothing but watch for a while: it may have stood still
/// (TILT mode).
const TILT_TRIGGER: Duration = Duration::from_secs(2);
const TILT_PERIOD: Duration = Duration::from_secs(30);
/// A wrong role must be reported for this long before a sentinel corrects it: four periods of 2 s.
const SETTLE: Duration = Duration::from_secs(8);

/// The state that a node stores: `sentinel.conf` and `redis.conf`, rewritten at each change.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The master that the Redis instance replicates; none if it is a master.
    pub replica_of: Option<NodeId>,
    /// The master that the sentinel knows, and the epoch of the failover that made it one.
    pub master: NodeId,
    /// See `master`.
    pub config_epoch: u64,
    /// The largest epoch that the sentinel has seen.
    pub epoch: u64,
    /// The sentinel's last vote.
    pub vote: Option<(u64, NodeId)>,
}

/// The messages between sentinels and Redis instances.
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// PING and INFO.
    Ping,
    /// The reply of a Redis instance.
    Pong {
        /// The master that it replicates; none if it is a master.
        replica_of: Option<NodeId>,
    },
    /// A replica acknowledges the master's stream (REPLCONF ACK).
    ReplicaAck,
    /// The announcement of a sentinel on the hello channel.
    Hello {
        /// The sender's largest epoch.
        epoch: u64,
        /// The master that it knows.
        master: NodeId,
        /// The epoch of that master.
        config_epoch: u64,
    },
    /// Asks whether the master is down, and for a vote (`is-master-down-by-addr`).
    IsMasterDown {
        /// The sender's epoch.
        epoch: u64,
        /// The master.
        master: NodeId,
        /// Whether the sender wants a vote.
        wants_vote: bool,
    },
    /// The answer.
    MasterDown {
        /// Whether the sentinel has not heard from the master either.
        is_down: bool,
        /// Its last vote, if it was asked for one.
        vote: Option<(u64, NodeId)>,
    },
    /// Makes a Redis instance a replica, or a master.
    ReplicaOf {
        /// The master; none makes the instance a master.
        master: Option<NodeId>,
    },
}

/// The knowledge of a sentinel about a Redis instance.
#[derive(Clone, Copy, Debug)]
struct Instance {
    heard: Instant,
    replica_of: Option<NodeId>,
    /// Since when the instance has reported this.
    since: Instant,
}

/// The last answer of another sentinel.
#[derive(Clone, Copy, Debug)]
struct Opinion {
    is_down: bool,
    vote: Option<(u64, NodeId)>,
    at: Instant,
}

/// One node: a sentinel and a Redis instance.
#[derive(Debug)]
pub struct SentinelNode {
    settings: Sentinel,
    boot: Boot<Stored>,
    rng: Rng,
    stored: Stored,
    instances: BTreeMap<NodeId, Instance>,
    /// When each replica acknowledged the local master's stream.
    acknowledged: BTreeMap<NodeId, Instant>,
    answers: BTreeMap<NodeId, Opinion>,
    failover: Option<Failover>,
    /// When the sentinel last learned of another master.
    adopted_at: Instant,
    /// No failover starts before.
    not_before: Instant,
    /// When the sentinel last looked, and until when it only watches.
    ticked_at: Instant,
    tilts_until: Instant,
    /// When the sentinel next looks, pings, and asks.
    tick_at: Instant,
    ping_at: Instant,
    ask_at: Instant,
    pings: u64,
    outbox: Outbox<Message>,
}

impl Algorithm for Sentinel {
    type Machine = SentinelNode;
    type Durable = Stored;

    fn uses_tcp(&self) -> bool {
        true
    }

    /// Node 0 is configured as the master.
    fn first(&self, node: NodeId, _: u64) -> Stored {
        let master = NodeId(0);
        let replica_of = (node != master).then_some(master);
        Stored { replica_of, master, config_epoch: 0, epoch: 0, vote: None }
    }

    fn durable(machine: &SentinelNode) -> Stored {
        machine.stored
    }

    fn patience(&self) -> Duration {
        self.down_after
    }

    fn boot(&self, boot: Boot<Stored>) -> SentinelNode {
        let now = boot.now;
        let replica_of = |node| Some(boot.durable.master).filter(|master| *master != node);
        let instance =
            |node| (node, Instance { heard: now, replica_of: replica_of(node), since: now });
        let mut rng = Rng::new(boot.seed);
        let first = now + rng.duration_between(Duration::ZERO, PERIOD);
        SentinelNode {
            settings: *self,
            rng,
            stored: boot.durable,
            instances: boot.peers().map(instance).collect(),
            acknowledged: BTreeMap::new(),
            adopted_at: now,
            answers: BTreeMap::new(),
            failover: None,
            not_before: now,
            ticked_at: now,
            tilts_until: now,
            tick_at: first,
            ping_at: first,
            ask_at: first,
            pings: 0,
            outbox: Outbox::default(),
            boot,
        }
    }
}

impl Machine for SentinelNode {
    type Message = Message;

    fn handle_message(&mut self, from: NodeId, message: Message, now: Instant) {
        match message {
            Message::Ping => {
                let reply = Message::Pong { replica_of: self.stored.replica_of };
                self.outbox.push(from, reply, Purpose::Heartbeat);
            }
            Message::Pong { replica_of } => self.hear_instance(from, replica_of, now),
            Message::ReplicaAck => {
                self.acknowledged.insert(from, now);
            }
            Message::Hello { epoch, master, config_epoch } => {
                self.stored.epoch = self.stored.epoch.max(epoch);
                if config_epoch > self.stored.config_epoch {
                    self.stored.master = master;
                    self.stored.config_epoch = config_epoch;
                    self.adopted_at = now;
                    self.failover = None;
                }
            }
            Message::IsMasterDown { epoch, master, wants_vote } => {
                let is_known = master == self.stored.master;
                if wants_vote && is_known {
                    self.vote(from, epoch, now);
                }
                let is_down = is_known && now >= self.tilts_until && self.is_down(master, now);
                let vote = self.stored.vote.filter(|_| wants_vote && is_known);
                self.outbox.send(from, Message::MasterDown { is_down, vote });
            }
            Message::MasterDown { is_down, vote } => {
                let before = self.answers.get(&from).and_then(|before| before.vote);
                let vote = vote.or(before);
                self.answers.insert(from, Opinion { is_down, vote, at: now });
            }
            Message::ReplicaOf { master } => self.replicate(master),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now < self.tick_at {
            return;
        }
        if now.since(self.ticked_at) > TILT_TRIGGER {
            self.tilts_until = now + TILT_PERIOD;
        }
        self.ticked_at = now;
        let acts = now >= self.tilts_until;
        if now >= self.ping_at {
            self.ping_at = now + PERIOD;
            self.ping();
            if acts {
                self.correct_roles(now);
            }
        }
        if acts {
            self.fail_over(now);
        }
        let is_busy = self.failover.is_some() || self.is_down(self.stored.master, now);
        let timer = now + self.rng.duration_between(TIMER.0, TIMER.1);
        self.tick_at = if is_busy { timer.min(self.ping_at) } else { self.ping_at };
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.tick_at)
    }

    fn poll_message(&mut self) -> Option<Outgoing<Message>> {
        self.outbox.pop()
    }

    /// A master leads while it takes writes.
    fn role(&self, now: Instant) -> Role {
        if let Some(master) = self.stored.replica_of {
            return Role::Following(master);
        }
        let takes_writes = self
            .settings
            .max_lag
            .is_none_or(|lag| self.acknowledged.values().any(|at| now.since(*at) < lag));
        if takes_writes { Role::Leading { token: None } } else { Role::Looking }
    }
}

impl SentinelNode {
    fn ping(&mut self) {
        self.pings += 1;
        for peer in self.boot.peers() {
            self.outbox.push(peer, Message::Ping, Purpose::Heartbeat);
        }
        if let Some(master) = self.stored.replica_of {
            self.outbox.push(master, Message::ReplicaAck, Purpose::Heartbeat);
        }
        if self.pings.is_multiple_of(2) {
            self.announce(Purpose::Heartbeat);
        }
    }

    fn is_down(&self, node: NodeId, now: Instant) -> bool {
        let instance = self.instances.get(&node);
        instance.is_some_and(|instance| now.since(instance.heard) >= self.settings.down_after)
    }

    fn hear_instance(&mut self, from: NodeId, replica_of: Option<NodeId>, now: Instant) {
        let Some(instance) = self.instances.get_mut(&from) else { return };
        instance.heard = now;
        if instance.replica_of != replica_of {
            *instance = Instance { heard: now, replica_of, since: now };
        }
    }

    /// The local Redis instance changes its role.
    fn replicate(&mut self, master: Option<NodeId>) {
        let master = master.filter(|master| *master != self.boot.me);
        if master != self.stored.replica_of {
            self.stored.replica_of = master;
            self.acknowledged.clear();
        }
    }

    fn announce(&mut self, purpose: Purpose) {
        let Stored { epoch, master, config_epoch, .. } = self.stored;
        for peer in self.boot.peers() {
            self.outbox.push(peer, Message::Hello { epoch, master, config_epoch }, purpose);
        }
    }

    /// Makes replicas of the known master out of all others (`sentinelRefreshInstanceInfo`), once
    /// the master itself is seen to be one.
    fn correct_roles(&mut self, now: Instant) {
        let (me, master) = (self.boot.me, self.stored.master);
        let is_sane = if master == me {
            self.stored.replica_of.is_none()
        } else {
            let instance = self.instances.get(&master);
            instance.is_some_and(|instance| instance.replica_of.is_none())
                && !self.is_down(master, now)
        };
        let is_recent = now.since(self.adopted_at) <= SETTLE;
        if !is_sane || is_recent || self.failover.is_some() {
            return;
        }
        let wrong = |(node, instance): (&NodeId, &Instance)| {
            let is_wrong = *node != master && instance.replica_of != Some(master);
            let is_settled =
                now.since(instance.since) > SETTLE && now.since(instance.heard) < PERIOD * 3;
            (is_wrong && is_settled).then_some(*node)
        };
        let wrong: Vec<_> = self.instances.iter().filter_map(wrong).collect();
        for node in wrong {
            self.outbox.send(node, Message::ReplicaOf { master: Some(master) });
        }
        if me != master && self.stored.replica_of != Some(master) {
            self.replicate(Some(master));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::since_boot(Duration::ZERO);
    const OTHER: NodeId = NodeId(2);

    /// One of three sentinels, beside a replica of node 0.
    fn sentinel() -> SentinelNode {
        let me = NodeId(1);
        let durable = Sentinel::TUTORIAL.first(me, 0);
        Sentinel::TUTORIAL.boot(Boot { me, candidates: 3, durable, seed: 1, now: START })
    }

    /// Whether the sentinel has asked the others about its master.
    fn asks(node: &mut SentinelNode) -> bool {
        let mut sent = std::iter::from_fn(|| node.poll_message());
        sent.any(|sent| matches!(sent.message, Message::IsMasterDown { .. }))
    }

    #[test]
    fn sentinel_that_stood_still_only_watches_for_a_while() {
        let mut node = sentinel();
        // The master has been silent for longer than `down_after`.
        let resumed = START + Duration::from_secs(10);
        let mut now = resumed;
        while now < resumed + TILT_PERIOD {
            node.handle_timeout(now);
            assert!(!asks(&mut node), "{now:?}");
            now = now + PERIOD;
        }
        node.handle_timeout(now);
        assert!(asks(&mut node));
    }

    #[test]
    fn vote_is_given_only_about_the_known_master() {
        let mut node = sentinel();
        for (master, votes) in [(NodeId(1), false), (NodeId(0), true)] {
            let question = Message::IsMasterDown { epoch: 7, master, wants_vote: true };
            node.handle_message(OTHER, question, START);
            let answer = std::iter::from_fn(|| node.poll_message()).last();
            let Some(Message::MasterDown { vote, .. }) = answer.map(|sent| sent.message) else {
                panic!("it answers")
            };
            assert_eq!(vote, votes.then_some((7, OTHER)));
            assert_eq!(node.stored.vote, vote, "a vote that it keeps to itself is none");
        }
    }
}
