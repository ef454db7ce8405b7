//! `/healthz` of a candidate that resigned because its application does not poll.

use super::PATIENCE;
use crate::rig::{ELECTION, Rig, Store as _, Znodes, eventually, throughout};
use std::time::Duration;

/// How late the election loop may be before `/healthz` answers 503.
const GRACE: Duration = Duration::from_secs(10);

#[test]
fn candidate_that_resigned_for_lack_of_polling_stays_healthy() {
    let rig = Rig::over(Znodes::fresh(), Znodes::FAST);
    // The shortest duration that the flag accepts.
    let polling = rig.timing.answer_validity + rig.timing.retry_period;
    let unpolled =
        rig.candidate("a").unpolled().flag("--require-polling", format!("{polling:?}")).start();
    eventually(PATIENCE, "it resigns", || !unpolled.events("resigned").is_empty());
    let bound = GRACE + rig.timing.call_timeout() + Znodes::NOISE;
    throughout(bound, "it is healthy and holds nothing", || {
        unpolled.is_healthy() && rig.store.holder(ELECTION).is_empty()
    });
    let other = rig.start("b");
    eventually(PATIENCE, "another leads", || rig.has_standing(&other, "leading"));
    rig.wait_for_answers();
}
