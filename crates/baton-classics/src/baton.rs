//! Baton's own machines, as they ship, on the network of the classical algorithms.
//!
//! Pure. Start with [`record::BatonRecord`] and [`queue::BatonQueue`]. [`Driver`] polls a machine as
//! the sidecar does. A candidate follows again when it has lost leadership, as with
//! `--on-lost=stay`.

pub mod queue;
pub mod record;

use crate::machine::{NodeId, Role, earlier};
use baton_election::claim::Standing;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event as _};
use baton_election::timing::Durations;
use std::time::Duration;

/// Baton's default durations: 15 s, 10 s, and 2 s.
pub const DEFAULTS: Durations = Durations {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
    answer_validity: Duration::from_secs(2),
};

/// Drives one machine: sends its requests, and tells it if there is no reply in time.
#[derive(Debug)]
pub struct Driver<E: Election> {
    machine: E,
    requests: u64,
    /// The request in flight, and when its outcome is unknown.
    in_flight: Option<(u64, Instant)>,
    role: Role,
    /// When the claim of `role` ends.
    deadline: Instant,
}

impl<E: Election> Driver<E> {
    /// Drives `machine` from `now` on.
    fn new(mut machine: E, now: Instant) -> Self {
        machine.handle_timeout(now);
        Self { machine, requests: 0, in_flight: None, role: Role::Looking, deadline: now }
    }

    /// Passes a reply on, unless the machine was told that its outcome is unknown.
    fn receive_reply(&mut self, number: u64, event: E::Event, now: Instant) {
        if self.in_flight.is_some_and(|(sent, _)| sent == number) {
            self.in_flight = None;
            self.machine.handle_event(event, now);
        }
    }

    /// Passes a watch event on.
    fn receive(&mut self, event: E::Event, now: Instant) {
        self.machine.handle_event(event, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.in_flight.is_some_and(|(_, until)| now >= until) {
            self.in_flight = None;
            self.machine.handle_event(E::Event::UNKNOWN, now);
        }
        self.machine.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let machine = self.machine.poll_timeout().map(|(due, _)| due);
        earlier(machine, self.in_flight.map(|(_, until)| until))
    }

    /// Polls the machine in the order of the sidecar. Returns a request to send, and its number.
    fn poll(&mut self, now: Instant) -> Option<(u64, E::Request)> {
        let request = self.machine.poll_request(now);
        while self.machine.poll_transition().is_some() {}
        self.role = match self.machine.standing() {
            Standing::Unknown | Standing::Following { leader: None } => Role::Looking,
            Standing::Following { leader: Some(leader) } => {
                leader.as_str().parse().map_or(Role::Looking, |node| Role::Following(NodeId(node)))
            }
            Standing::Leading(claim) | Standing::Resigning(claim) => {
                self.deadline = claim.deadline();
                Role::Leading { token: claim.token().to_string().parse().ok() }
            }
        };
        request.map(|request| {
            self.requests += 1;
            self.in_flight = Some((self.requests, now + self.machine.call_timeout()));
            (self.requests, request)
        })
    }

    /// A claim ends by itself.
    fn role(&self, now: Instant) -> Role {
        let has_lapsed = self.role.is_leading() && now >= self.deadline;
        if has_lapsed { Role::Looking } else { self.role }
    }
}
