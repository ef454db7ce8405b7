//! `/healthz` of a candidate that waits for nothing.

use super::PATIENCE;
use crate::rig::{ELECTION, Rig, Store as _, Znodes, eventually, throughout};
use std::time::Duration;

/// How late the election loop may be before `/healthz` answers 503.
const GRACE: Duration = Duration::from_secs(10);

#[test]
fn candidate_that_resigned_unasked_stays_healthy() {
    let rig = Rig::over(Znodes::fresh(), Znodes::FAST);
    // The shortest that is accepted.
    let unasked = rig.timing.answer_validity + rig.timing.retry_period;
    let hung =
        rig.candidate("a").unasked().flag("--require-polling", format!("{unasked:?}")).start();
    eventually(PATIENCE, "it resigns", || !hung.events("resigned").is_empty());
    let bound = GRACE + rig.timing.call_timeout() + Znodes::NOISE;
    throughout(bound, "it is healthy and holds nothing", || {
        hung.is_healthy() && rig.store.holder(ELECTION).is_empty()
    });
    // Its place is another's to take.
    let other = rig.start("b");
    eventually(PATIENCE, "another leads", || rig.has_standing(&other, "leading"));
    rig.wait_for_answers();
}
