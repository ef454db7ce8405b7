//! The reasons why a candidate stays away from its election.
//!
//! Pure. Start with [`Withdrawals`]. The reasons form a set: an order adds or removes only its own.
//! The candidate campaigns only while the set is empty, and releases only after the last promise.
//!
//! ```text
//!  stopping ─────────► Holding ──────────────────────── limit ─────────────────────► removed
//!  unfit, kept ──────► Keeping ───────────────────────── end ──────────────────────► removed
//!                      last promise expires          released
//!  shutdown, ────────► Awaiting ─────────► Releasing ────────► Released ── end ────► removed
//!  resign, unasked, unfit                      │     (resign: removed, and the hold-off begins)
//!                                 claim ends   ▼
//!                          (resign alone)  Unconfirmed ── hold-off after that end ─► removed
//! ```

mod orders;

pub use orders::{Cause, Order, OrderOutcome, Ticket, WithdrawalEvent};

use crate::instant::Instant;
use crate::machine::{Election, Reason, Withdrawal};
use std::collections::{BTreeMap, VecDeque};

/// The causes that keep a candidate away, and the progress of each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Withdrawals {
    active: BTreeMap<Cause, Active>,
    /// The last order that the machine received.
    given: Given,
    /// A command runs under the claim, so the claim is renewed until the command has ended.
    command_runs: bool,
    /// No campaign begins before this: the damping at the start, or the end of a hold-off.
    not_before: Instant,
    /// The latest deadline of a claim.
    claim_ends: Option<Instant>,
    tickets: u64,
    events: VecDeque<WithdrawalEvent>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Active {
    /// The order, until it ends.
    ticket: Option<Ticket>,
    order: Order,
    ordered_at: Instant,
    stage: Stage,
}

/// The progress of one cause.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    /// Holds the record until this instant at the latest.
    Holding { until: Instant },
    /// Holds the record until the cause ends.
    Keeping,
    /// Releases when the last promise expires.
    Awaiting,
    /// Releases now.
    Releasing,
    /// The claim ended without a confirmed release. Stays away until this instant.
    Unconfirmed { until: Instant },
    /// Released, and stays away.
    Released,
}

/// An order to the machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Given {
    Campaign { from: Instant },
    Withdraw(Withdrawal),
    Release(Reason),
}

impl Withdrawals {
    /// The withdrawals of a machine that was created to campaign from `campaign_from` on.
    pub const fn new(campaign_from: Instant) -> Self {
        Self {
            active: BTreeMap::new(),
            given: Given::Campaign { from: campaign_from },
            command_runs: false,
            not_before: campaign_from,
            claim_ends: None,
            tickets: 0,
            events: VecDeque::new(),
        }
    }

    /// Adds the cause of `order`, and withdraws `machine`. The caller then publishes its standing.
    ///
    /// A second order of one cause supersedes the first, and continues from its progress.
    pub fn add(&mut self, order: Order, machine: &mut impl Election, now: Instant) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let earlier = self.active.get(&order.cause()).copied();
        let waits = |earlier: Active| matches!(earlier.stage, Stage::Awaiting | Stage::Keeping);
        let stage = match order {
            Order::Stopping { limit } => Stage::Holding { until: now + limit },
            Order::Unfit { releases: false } => Stage::Keeping,
            Order::Shutdown | Order::Resign { .. } | Order::Unasked | Order::Unfit { .. } => {
                if earlier.is_none_or(waits) {
                    Stage::Awaiting
                } else {
                    Stage::Releasing
                }
            }
        };
        if let Some(superseded) = earlier.and_then(|earlier| earlier.ticket) {
            self.settle(superseded, OrderOutcome::Superseded);
        }
        let active = Active { ticket: Some(ticket), order, ordered_at: now, stage };
        self.active.insert(order.cause(), active);
        self.instruct(machine, now);
        ticket
    }

    /// Removes `cause`, unless it is [`Cause::Shutdown`].
    pub fn end(&mut self, cause: Cause, machine: &mut impl Election, now: Instant) {
        if cause == Cause::Shutdown {
            return;
        }
        if let Some(Active { ticket: Some(ticket), .. }) = self.active.remove(&cause) {
            self.settle(ticket, OrderOutcome::Superseded);
        }
        self.instruct(machine, now);
    }

    /// Says whether a command runs under the claim. While it does, a withdrawn candidate keeps
    /// renewing, so that the command has time to stop. Call it before [`Self::turn`].
    pub const fn set_command_runs(&mut self, runs: bool) {
        self.command_runs = runs;
    }

    /// Advances every cause to `now`. `promised_until` is the end of the last promise.
    ///
    /// Call it after each event and timeout of `machine`, and when [`Self::poll_timeout`] is due.
    pub fn turn(
        &mut self,
        machine: &mut impl Election,
        promised_until: Option<Instant>,
        now: Instant,
    ) {
        if self.active.is_empty() {
            return self.note_claim(machine);
        }
        self.expire(now);
        if !self.command_runs && promised_until.is_none_or(|until| until <= now) {
            self.promises_ended();
        }
        self.instruct(machine, now);
        self.note_claim(machine);
        if machine.is_released() {
            self.released(now);
        } else {
            self.claim_ended(now);
        }
        self.instruct(machine, now);
    }

    fn note_claim(&mut self, machine: &impl Election) {
        if let Some(claim) = machine.claim() {
            self.claim_ends = self.claim_ends.max(Some(claim.deadline()));
        }
    }

    /// When to call [`Self::turn`] next. `promised_until` is the end of the last promise.
    pub fn poll_timeout(&self, promised_until: Option<Instant>) -> Option<Instant> {
        let due = |active: &Active| match active.stage {
            Stage::Holding { until } if active.ticket.is_some() => {
                promised_until.map(|promised| promised.min(until))
            }
            Stage::Holding { until } | Stage::Unconfirmed { until } => Some(until),
            Stage::Keeping if active.ticket.is_some() && !self.prepares_to_stop() => promised_until,
            Stage::Awaiting => promised_until,
            Stage::Releasing if active.order.cause() == Cause::Resigned => self.claim_ends,
            Stage::Keeping | Stage::Releasing | Stage::Released => None,
        };
        self.active.values().filter_map(due).min()
    }

    /// The oldest event not yet returned.
    pub fn poll_event(&mut self) -> Option<WithdrawalEvent> {
        self.events.pop_front()
    }

    /// Whether `cause` is in the set.
    pub fn contains(&self, cause: Cause) -> bool {
        self.active.contains_key(&cause)
    }

    /// When the candidate campaigns again; `None` while a cause keeps it away.
    pub fn campaigns_from(&self) -> Option<Instant> {
        match self.due_order() {
            Given::Campaign { from } => Some(from),
            Given::Withdraw(_) | Given::Release(_) => None,
        }
    }

    /// How the candidate withdraws under the present causes; `None` if it campaigns.
    pub fn withdrawal(&self) -> Option<Withdrawal> {
        match self.given {
            Given::Campaign { .. } => None,
            Given::Withdraw(how) => Some(how),
            Given::Release(_) => Some(Withdrawal::Releasing),
        }
    }

    /// Ends the shutdown's order, because the store refuses the release. Returns whether such a
    /// release was in progress.
    pub fn refuse_shutdown(&mut self) -> bool {
        let shutdown = self.active.get_mut(&Cause::Shutdown);
        let releasing = shutdown.filter(|active| active.stage == Stage::Releasing);
        let ticket = releasing.and_then(|active| active.ticket.take());
        if let Some(ticket) = ticket {
            self.settle(ticket, OrderOutcome::Refused);
        }
        ticket.is_some()
    }

    /// Removes the causes whose time has passed.
    fn expire(&mut self, now: Instant) {
        let is_over = |active: &Active| match active.stage {
            Stage::Holding { until } | Stage::Unconfirmed { until } => until <= now,
            Stage::Keeping | Stage::Awaiting | Stage::Releasing | Stage::Released => false,
        };
        let is_stopped = self.active.contains_key(&Cause::Shutdown);
        if !is_stopped && self.active.get(&Cause::Stopping).is_some_and(is_over) {
            self.events.push_back(WithdrawalEvent::StoppingExpired);
        }
        let over = self.active.extract_if(.., |_, active| is_over(active));
        let unsettled: Vec<_> = over.filter_map(|(_, active)| active.ticket).collect();
        for ticket in unsettled {
            self.settle(ticket, OrderOutcome::Superseded);
        }
    }

    /// Whether the Pod is about to end, so that a shutdown will release the record.
    fn prepares_to_stop(&self) -> bool {
        self.active.contains_key(&Cause::Stopping)
    }

    /// No promise holds: every release may be sent. An order to keep the record leads to the end of
    /// the process, so it waits while a shutdown is to come.
    fn promises_ended(&mut self) {
        let mut settled = Vec::new();
        let prepares_to_stop = self.prepares_to_stop();
        for active in self.active.values_mut() {
            match active.stage {
                Stage::Awaiting => active.stage = Stage::Releasing,
                Stage::Keeping if prepares_to_stop => {}
                Stage::Holding { .. } | Stage::Keeping => settled.extend(active.ticket.take()),
                Stage::Releasing | Stage::Unconfirmed { .. } | Stage::Released => {}
            }
        }
        for ticket in settled {
            self.settle(ticket, OrderOutcome::Withdrawn);
        }
    }

    /// The store holds nothing of this candidate: every release has ended.
    fn released(&mut self, now: Instant) {
        let mut settled = Vec::new();
        for active in self.active.values_mut() {
            let rests_until = match (active.stage, active.order) {
                (Stage::Holding { .. } | Stage::Keeping | Stage::Awaiting | Stage::Released, _) => {
                    continue;
                }
                (Stage::Unconfirmed { until }, _) => until,
                (Stage::Releasing, Order::Resign { hold_off }) => now + hold_off,
                (
                    Stage::Releasing,
                    Order::Shutdown | Order::Unasked | Order::Unfit { .. } | Order::Stopping { .. },
                ) => now,
            };
            self.not_before = self.not_before.max(rests_until);
            active.stage = Stage::Released;
            settled.extend(active.ticket.take());
        }
        if self.active.get(&Cause::Resigned).is_some_and(|active| active.stage == Stage::Released) {
            self.active.remove(&Cause::Resigned);
        }
        for ticket in settled {
            self.settle(ticket, OrderOutcome::Confirmed);
        }
    }

    /// If the claim has ended without a confirmed release, the resignation's hold-off begins. A claim
    /// that ended before the order does not shorten it.
    fn claim_ended(&mut self, now: Instant) {
        let Some(ended) = self.claim_ends.filter(|ends| *ends <= now) else { return };
        let Some(active) = self.active.get_mut(&Cause::Resigned) else { return };
        if let (Order::Resign { hold_off }, Stage::Releasing) = (active.order, active.stage) {
            let began = ended.max(active.ordered_at);
            active.stage = Stage::Unconfirmed { until: began + hold_off };
            if let Some(ticket) = active.ticket.take() {
                self.settle(ticket, OrderOutcome::Unconfirmed);
            }
        }
    }

    fn settle(&mut self, ticket: Ticket, outcome: OrderOutcome) {
        self.events.push_back(WithdrawalEvent::Settled(ticket, outcome));
    }

    /// The order that the present causes ask for.
    fn due_order(&self) -> Given {
        let releasing = self.active.values().find(|active| match active.stage {
            Stage::Releasing | Stage::Unconfirmed { .. } | Stage::Released => true,
            Stage::Holding { .. } | Stage::Keeping | Stage::Awaiting => false,
        });
        if let Some(active) = releasing {
            return Given::Release(active.order.cause().reason());
        }
        let awaits = self.active.values().any(|active| active.stage == Stage::Awaiting);
        if awaits && !self.command_runs {
            return Given::Withdraw(Withdrawal::Releasing);
        }
        if self.active.is_empty() {
            Given::Campaign { from: self.not_before }
        } else {
            Given::Withdraw(Withdrawal::Renewing)
        }
    }

    /// Gives the machine the order that is due, unless it has that order already. A release that has
    /// begun goes on while any cause is left, because its request may be in flight.
    fn instruct(&mut self, machine: &mut impl Election, now: Instant) {
        let due = self.due_order();
        let goes_on = matches!((self.given, due), (Given::Release(_), Given::Withdraw(_)));
        if goes_on || self.given == due {
            return;
        }
        self.given = due;
        match due {
            Given::Campaign { from } => machine.campaign(from.max(now)),
            Given::Withdraw(how) => machine.withdraw(how),
            Given::Release(reason) => machine.release(reason, now),
        }
    }
}
