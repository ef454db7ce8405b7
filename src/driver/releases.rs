//! Carries out orders to withdraw, and tells their callers how they ended.
//!
//! Touches only tokio's channels. Start with [`Releases`]. The decisions are those of
//! [`Withdrawals`], which is pure.

use super::orders::{ResignRefusal, Resigning, Withdrawn};
use crate::driver::leadership::Publisher;
use crate::telemetry::reporter::Reporter;
use baton_election::claim::{Claim, FencingToken, Standing};
use baton_election::instant::Instant;
use baton_election::machine::Election;
use baton_election::withdrawals::{Cause, Order, OrderOutcome, Ticket};
use baton_election::withdrawals::{WithdrawalEvent, Withdrawals};
use std::time::Duration;
use tokio::sync::oneshot;

/// The withdrawals of the candidate, and the callers that wait for them.
#[derive(Debug)]
pub(super) struct Releases {
    withdrawals: Withdrawals,
    waiting: Vec<(Ticket, oneshot::Sender<OrderOutcome>)>,
}

impl Releases {
    /// Without any withdrawal, for a machine that campaigns from `campaign_from` on.
    pub(super) const fn new(campaign_from: Instant) -> Self {
        Self { withdrawals: Withdrawals::new(campaign_from), waiting: Vec::new() }
    }

    /// Withdraws `election` for `order`, and publishes that before it returns.
    pub(super) fn withdraw(
        &mut self,
        order: Order,
        election: &mut impl Election,
        publisher: &Publisher,
        reporter: &Reporter,
        now: Instant,
    ) -> Withdrawn {
        let before = election.standing();
        self.withdrawals.set_command_runs(publisher.is_lent());
        let ticket = self.withdrawals.add(order, election, now);
        let after = election.standing();
        publisher.publish(after.clone(), now);
        if let (Standing::Leading(claim), Standing::Resigning(_)) = (before, after) {
            reporter.withdrawn(claim.token(), order);
        }
        let (sender, outcome) = oneshot::channel();
        self.waiting.push((ticket, sender));
        let promised_until = publisher.promised_until().map_or(now, |until| until.max(now));
        Withdrawn { promised_until, outcome }
    }

    /// Resigns from the term of `token`, or from any, if `election` holds a claim.
    pub(super) fn resign(
        &mut self,
        token: Option<FencingToken>,
        hold_off: Duration,
        election: &mut impl Election,
        publisher: &Publisher,
        reporter: &Reporter,
        now: Instant,
    ) -> Result<Resigning, ResignRefusal> {
        let claim = current_claim(election, now).ok_or(ResignRefusal::NotLeading)?;
        if token.is_some_and(|token| token != claim.token()) {
            return Err(ResignRefusal::OtherTerm(claim.token()));
        }
        let order = Order::Resign { hold_off };
        let withdrawn = self.withdraw(order, election, publisher, reporter, now);
        Ok(Resigning { token: claim.token(), withdrawn })
    }

    /// Ends the withdrawal for `cause`.
    pub(super) fn end(&mut self, cause: Cause, election: &mut impl Election, now: Instant) {
        self.withdrawals.end(cause, election, now);
    }

    /// Advances every withdrawal to `now`.
    pub(super) fn turn(
        &mut self,
        election: &mut impl Election,
        publisher: &Publisher,
        now: Instant,
    ) {
        self.withdrawals.set_command_runs(publisher.is_lent());
        self.withdrawals.turn(election, publisher.promised_until(), now);
    }

    /// When to call [`Self::turn`] next.
    pub(super) fn poll_timeout(&self, publisher: &Publisher) -> Option<Instant> {
        self.withdrawals.poll_timeout(publisher.promised_until())
    }

    /// Tells callers and operators what has happened since the last call.
    pub(super) fn report(&mut self, reporter: &Reporter) {
        while let Some(event) = self.withdrawals.poll_event() {
            match event {
                WithdrawalEvent::Settled(ticket, outcome) => {
                    let settled = self.waiting.extract_if(.., |(waiting, _)| *waiting == ticket);
                    for (_, waiter) in settled {
                        // The caller may have stopped waiting.
                        waiter.send(outcome).ok();
                    }
                }
                WithdrawalEvent::StoppingExpired => reporter.stopping_expired(),
            }
        }
    }

    /// Whether the process is stopping.
    pub(super) fn is_stopping(&self) -> bool {
        self.withdrawals.contains(Cause::Shutdown)
    }

    /// Ends the process's stop because the store refuses the release. Returns whether a release was
    /// in progress.
    pub(super) fn refuse_shutdown(&mut self) -> bool {
        self.withdrawals.refuse_shutdown()
    }
}

/// The claim of `election` that is current at `now`.
fn current_claim(election: &impl Election, now: Instant) -> Option<Claim> {
    match election.standing() {
        Standing::Leading(claim) | Standing::Resigning(claim) => {
            Some(claim).filter(|claim| !claim.remaining(now).is_zero())
        }
        Standing::Unknown | Standing::Following { .. } => None,
    }
}
