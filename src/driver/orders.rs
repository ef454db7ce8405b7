//! The orders that other modules may give to the driver.
//!
//! Touches only tokio's channels. Start with [`Control`]. A clean stop withdraws, waits until the
//! last promise expires, and releases; the caller performs these steps in this sequence.

use baton_election::instant::Instant;
use baton_election::machine::{Reason, Withdrawal};
use tokio::sync::{mpsc, oneshot};

/// The driver has stopped, and the process is about to exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the election has ended in this process")]
pub struct DriverStopped;

/// How a release ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The store holds nothing of ours.
    Confirmed,
    /// The store refuses us, as after `helm uninstall`, which deletes the rights before the leader
    /// exits. Our record expires by itself. Only a process about to exit gets this; others retry.
    Refused,
}

/// An order to the driver.
#[derive(Debug)]
pub(super) enum DriverOrder {
    /// Promise nothing more, and reply with the end of the last promise. With `for_good`, later
    /// orders to campaign are ignored, since the process is about to exit.
    Withdraw { how: Withdrawal, for_good: bool, done: oneshot::Sender<Instant> },
    /// Release what the store holds of ours.
    Release(Reason, oneshot::Sender<ReleaseOutcome>),
    /// Campaign from this instant on.
    Campaign(Instant),
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
    /// Stops leading until an order to campaign. Returns when the last promise expires.
    pub async fn withdraw(&self) -> Result<Instant, DriverStopped> {
        self.send(|done| DriverOrder::Withdraw {
            how: Withdrawal::Releasing,
            for_good: false,
            done,
        })
        .await
    }

    /// Stops leading for good, since the process is about to exit.
    pub async fn withdraw_for_good(&self, how: Withdrawal) -> Result<Instant, DriverStopped> {
        self.send(|done| DriverOrder::Withdraw { how, for_good: true, done }).await
    }

    /// Releases what the store holds of ours.
    pub async fn release(&self, reason: Reason) -> Result<ReleaseOutcome, DriverStopped> {
        self.send(|done| DriverOrder::Release(reason, done)).await
    }

    /// Campaigns again from `from` on.
    pub async fn campaign(&self, from: Instant) -> Result<(), DriverStopped> {
        self.0.send(DriverOrder::Campaign(from)).await.map_err(|_| DriverStopped)
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
