//! The orders that other modules may give to the driver.
//!
//! Touches only tokio's channels. Start with [`Control`]. The driver carries every order out by
//! itself, so a caller that goes away in the middle leaves nothing half done.

use baton_election::claim::FencingToken;
use baton_election::instant::Instant;
use baton_election::withdrawals::{Cause, Order, OrderOutcome};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The driver has stopped, and the process is about to exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the election has ended in this process")]
pub struct DriverStopped;

/// The candidate has withdrawn: it makes no more promises.
#[derive(Debug)]
pub struct Withdrawn {
    /// When the last promise expires, unless the application voids it earlier; never in the past of
    /// the order.
    pub promised_until: Instant,
    pub(super) outcome: oneshot::Receiver<OrderOutcome>,
}

impl Withdrawn {
    /// Waits until the order has ended.
    pub async fn outcome(&mut self) -> Result<OrderOutcome, DriverStopped> {
        (&mut self.outcome).await.map_err(|_| DriverStopped)
    }
}

/// The candidate resigns from this term.
#[derive(Debug)]
pub struct Resigning {
    /// The fencing token of the term.
    pub token: FencingToken,
    /// The withdrawal.
    pub withdrawn: Withdrawn,
}

/// Why a candidate does not resign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResignRefusal {
    /// It does not hold the election.
    NotLeading,
    /// It leads in the term of this token, which is not the one that the caller named.
    OtherTerm(FencingToken),
}

/// An order to the driver.
#[derive(Debug)]
pub(super) enum DriverOrder {
    /// Withdraw at once, and carry out the order.
    Withdraw { order: Order, done: oneshot::Sender<Withdrawn> },
    /// Resign, if this candidate leads, in the term of `token` if one is given.
    Resign {
        token: Option<FencingToken>,
        hold_off: Duration,
        done: oneshot::Sender<Result<Resigning, ResignRefusal>>,
    },
    /// End the withdrawal for this cause.
    End(Cause),
    /// Promises were voided: a release may be due.
    PromisesVoided,
}

/// Creates both ends of the channel for orders.
pub fn orders() -> (Control, Orders) {
    let (sender, receiver) = mpsc::channel(16);
    (Control(sender), Orders(receiver))
}

/// The sender of orders.
#[derive(Debug, Clone)]
pub struct Control(mpsc::Sender<DriverOrder>);

impl Control {
    /// Withdraws for `order`. Returns as soon as no further promise is made.
    pub async fn withdraw(&self, order: Order) -> Result<Withdrawn, DriverStopped> {
        self.send(|done| DriverOrder::Withdraw { order, done }).await
    }

    /// Resigns, if this candidate leads, in the term of `token` if one is given.
    pub async fn resign(
        &self,
        token: Option<FencingToken>,
        hold_off: Duration,
    ) -> Result<Result<Resigning, ResignRefusal>, DriverStopped> {
        self.send(|done| DriverOrder::Resign { token, hold_off, done }).await
    }

    /// Ends the withdrawal for `cause`. Without another cause, the candidate campaigns again.
    pub async fn end(&self, cause: Cause) -> Result<(), DriverStopped> {
        self.0.send(DriverOrder::End(cause)).await.map_err(|_| DriverStopped)
    }

    /// Tells the driver that promises were voided.
    pub async fn promises_voided(&self) -> Result<(), DriverStopped> {
        self.0.send(DriverOrder::PromisesVoided).await.map_err(|_| DriverStopped)
    }

    async fn send<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> DriverOrder,
    ) -> Result<T, DriverStopped> {
        let (done, reply) = oneshot::channel();
        self.0.send(order(done)).await.map_err(|_| DriverStopped)?;
        reply.await.map_err(|_| DriverStopped)
    }
}

/// The receiver of orders.
#[derive(Debug)]
pub struct Orders(mpsc::Receiver<DriverOrder>);

impl Orders {
    /// The next order; pends forever if all senders are gone.
    pub(super) async fn next(&mut self) -> DriverOrder {
        match self.0.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        }
    }
}
