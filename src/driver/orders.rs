//! What the supervisor and HTTP may order of the driver, and nothing more.
//!
//! Touches tokio's channels only. The order of a clean end is theirs to keep: withdraw, wait until the last promise
//! has run out, release.

use baton_election::instant::Instant;
use baton_election::machine::{Reason, Withdrawal};
use tokio::sync::{mpsc, oneshot};

/// The driver is gone, and the process is about to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the election is over in this process")]
pub struct Over;

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// Nothing of ours is in the store.
    Confirmed,
    /// The store refuses us, as after `helm uninstall`, which deletes the rights before the leader is gone: what is ours
    /// there runs out by itself. Only a process that is about to end hears it; others try on.
    Refused,
}

/// One order.
#[derive(Debug)]
pub(super) enum Command {
    /// Promise nothing more; the answer is when the last promise runs out. `for_good`: no later order to campaign
    /// counts, since the process is about to end.
    Withdraw { how: Withdrawal, for_good: bool, done: oneshot::Sender<Instant> },
    /// Give back what is ours.
    Release(Reason, oneshot::Sender<Released>),
    /// Try to lead from this instant on.
    Campaign(Instant),
}

/// Makes the two ends of the orders.
pub fn orders() -> (Control, Orders) {
    let (sender, receiver) = mpsc::channel(16);
    (Control(sender), Orders(receiver))
}

/// The end that gives orders.
#[derive(Debug, Clone)]
pub struct Control(mpsc::Sender<Command>);

impl Control {
    /// Withdraws from leading until there is an order to campaign; returns the instant at which the last promise has run
    /// out.
    pub async fn withdraw(&self) -> Result<Instant, Over> {
        self.order(|done| Command::Withdraw { how: Withdrawal::Releasing, for_good: false, done })
            .await
    }

    /// The same, for a process that is about to end.
    pub async fn withdraw_for_good(&self, how: Withdrawal) -> Result<Instant, Over> {
        self.order(|done| Command::Withdraw { how, for_good: true, done }).await
    }

    /// Releases what is ours.
    pub async fn release(&self, reason: Reason) -> Result<Released, Over> {
        self.order(|done| Command::Release(reason, done)).await
    }

    /// Tries to lead again from `from` on.
    pub async fn campaign(&self, from: Instant) -> Result<(), Over> {
        self.0.send(Command::Campaign(from)).await.map_err(|_| Over)
    }

    async fn order<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Over> {
        let (done, answer) = oneshot::channel();
        self.0.send(command(done)).await.map_err(|_| Over)?;
        answer.await.map_err(|_| Over)
    }
}

/// The driver's end.
#[derive(Debug)]
pub struct Orders(mpsc::Receiver<Command>);

impl Orders {
    /// The next order; pends for ever when nobody is left to give one.
    pub(super) async fn next(&mut self) -> Command {
        match self.0.recv().await {
            Some(command) => command,
            None => std::future::pending().await,
        }
    }
}
