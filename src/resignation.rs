//! Makes a healthy leader resign, for reasons outside of the election.
//!
//! Touches the driver only through [`Control`], which withdraws, waits until the last promise
//! expires, and releases. Start with [`require_polling`].

use crate::driver::leadership::Reader;
use crate::driver::{Control, DriverStopped};
use crate::health::Health;
use crate::process::clock::Clock;
use baton_election::withdrawals::{Cause, Order};
use std::time::Duration;
use tokio::sync::Notify;

/// Resigns whenever the application has not polled for `limit`, and campaigns again after its next
/// request. Returns when the driver has ended; without a limit, never.
pub async fn require_polling(
    limit: Option<Duration>,
    reader: &Reader,
    control: &Control,
    health: &Health,
    polled: &Notify,
) -> DriverStopped {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    loop {
        while reader.claim(Clock.now()).is_none() {
            health.next_change().await;
        }
        let led_since = Clock.now();
        while reader.claim(Clock.now()).is_some() {
            let due =
                reader.last_polled_at().map_or(led_since, |polled_at| polled_at.max(led_since))
                    + limit;
            if Clock.now() >= due {
                match resign_until_polled(reader, control, polled).await {
                    Ok(()) => break,
                    Err(stopped) => return stopped,
                }
            }
            tokio::select! {
                () = Clock.sleep_until(due) => {}
                () = health.next_change() => {}
            }
        }
    }
}

async fn resign_until_polled(
    reader: &Reader,
    control: &Control,
    polled: &Notify,
) -> Result<(), DriverStopped> {
    let resigned_at = Clock.now();
    let mut withdrawn = control.withdraw(Order::Unasked).await?;
    withdrawn.outcome().await?;
    while reader.last_polled_at() <= Some(resigned_at) {
        polled.notified().await;
    }
    control.end(Cause::Unasked).await
}
