//! Replies of the store that come late: a claim counts from when its renewal was sent.
//!
//! strace delays the last system call of each write, after the record was replaced.

use crate::rig::{
    Delay, ELECTION, Files, Ledger, NOISE, Rig, STUBBORN, Store as _, Timing, may_trace_a_sidecar,
};
use crate::rig::{throughout, uptime};
use std::time::Duration;

/// One call may take 1.8 s.
const TIMING: Timing = Timing::of_ms(9000, 6000, 600, 600);

const REPLY_DELAY: Duration = Duration::from_secs(1);

/// How long before the claim ends every process must have ended: half of the 500 ms between SIGKILL
/// and that end.
const MARGIN: Duration = Duration::from_millis(250);

#[test]
fn command_is_dead_before_a_claim_with_late_replies_ends() {
    if !may_trace_a_sidecar() {
        return;
    }
    let rig = Rig::over(Files::fresh(), TIMING);
    let ledger = Ledger::new(&rig);
    let only = ledger.candidate("a", STUBBORN).start();
    let first = ledger.next_token(&[]);
    // After its rename, a write removes its draft.
    let _late = Delay::of_all_threads(only.pid(), "unlinkat", REPLY_DELAY);
    throughout(TIMING.renew_deadline + TIMING.retry_period, "late renewals count", || {
        only.is_alive() && rig.holds(&only)
    });
    let _blocked = rig.store.block(ELECTION);
    ledger.is_silent_within(TIMING.renew_deadline + NOISE);
    let age = rig.store.written(ELECTION).elapsed().expect("the write is in the past");
    let ran_on = ledger.last(first).saturating_sub(uptime().saturating_sub(age));
    let bound = TIMING.renew_deadline.saturating_sub(MARGIN);
    assert!(ran_on < bound, "it ran for {ran_on:?} after the last renewal");
    assert_eq!(only.exit_code(), 75);
}
