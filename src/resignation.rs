//! Why a healthy leader resigns although nothing forces it to.
//!
//! Touches the driver only through its orders. Start with [`require_polling`]. Every reason follows
//! one order: withdraw, wait until the last promise expires, release, and campaign again when the
//! reason is gone.

use crate::driver::leadership::Reader;
use crate::driver::{Control, Over};
use crate::health::Health;
use crate::process::clock::Clock;
use baton_election::machine::Reason;
use std::time::Duration;
use tokio::sync::Notify;

/// Resigns whenever the application has not asked for `limit`, and campaigns again after its next
/// request. Without a limit it never returns.
pub async fn require_polling(
    limit: Option<Duration>,
    reader: &Reader,
    control: &Control,
    health: &Health,
    asked: &Notify,
) -> Over {
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
                reader.last_polled_at().map_or(led_since, |asked| asked.max(led_since)) + limit;
            if Clock.now() >= due {
                match resign_until_asked(reader, control, asked).await {
                    Ok(()) => break,
                    Err(over) => return over,
                }
            }
            tokio::select! {
                () = Clock.sleep_until(due) => {}
                () = health.next_change() => {}
            }
        }
    }
}

async fn resign_until_asked(
    reader: &Reader,
    control: &Control,
    asked: &Notify,
) -> Result<(), Over> {
    let given_up_at = Clock.now();
    let promised_until = control.withdraw().await?;
    Clock.sleep_until(promised_until).await;
    control.release(Reason::Unasked).await?;
    while reader.last_polled_at() <= Some(given_up_at) {
        asked.notified().await;
    }
    control.campaign(Clock.now()).await
}
