//! The table of all properties: the name of each, the events that it concerns, and its function.
//!
//! Pure. Start with [`first_violation`]. A row without an event is evaluated at every event. Most
//! properties concern one kind of event, and naming it here saves a tenth of a run: otherwise every
//! event would call every property. A debug build checks that no property is violated at another
//! event.

use super::inspect::Inspect;
use super::state::CheckerState;
use super::{
    answers, commands, ended_runs, exclusion, preference, progress, stability, terms, withdrawals,
};
use crate::trace::{TraceContext, TraceEvent};

/// If one of these is violated, two candidates may lead at once.
pub(super) const EXCLUSION: [&str; 3] = [
    "at most one candidate holds a claim",
    "at most one candidate promises",
    "the record names the claim holder",
];

/// Returns the first violated property, and what was observed.
pub(super) fn first_violation<E: Inspect>(
    state: &CheckerState,
    context: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<(&'static str, String)> {
    macro_rules! first_of {
        ($($name:expr $(, $($event:ident)|+)? => $property:path;)*) => {
            $(
                let is_concerned = true $(&& matches!(event, $(TraceEvent::$event(..))|+))?;
                if is_concerned && let Some(detail) = $property(state, context, event) {
                    return Some(($name, detail));
                }
                debug_assert!(is_concerned || $property(state, context, event).is_none());
            )*
        };
    }
    first_of! {
        EXCLUSION[0], ClaimPublished => exclusion::at_most_one_claim;
        EXCLUSION[1], ClaimPublished | QueryAnswered => exclusion::at_most_one_promise;
        EXCLUSION[2], HolderChanged => exclusion::record_names_claim_holder;
        "promises are backed by claims", QueryAnswered => exclusion::promises_are_backed;
        "a leader answers that it leads", QueryAnswered => exclusion::leader_answers_leading;
        "the revision counts changes", QueryAnswered => answers::revision_counts_changes;
        "the status file of a leader lasts", QueryAnswered => answers::file_lasts_while_leading;
        "claims are backed by writes", ClaimPublished => exclusion::claims_are_backed;
        "at most one command runs", Command => commands::at_most_one_command;
        "a command ends before its claim" => commands::command_ends_before_its_claim;
        "a command starts only for a leader", Command => commands::command_starts_for_a_leader;
        "a release waits for the command", RequestSent => commands::release_waits_for_the_command;
        "the claim of a command is renewed", Withdrew => commands::claim_is_renewed_for_the_command;
        "a command is stopped for a reason", Command => commands::command_is_stopped_for_a_reason;
        "a command ends for a reason", Command => commands::command_ends_for_a_reason;
        "a leader runs its command" => commands::leader_runs_its_command;
        "tokens increase from term to term", ClaimPublished => terms::tokens_increase;
        "a term keeps its token", ClaimPublished => terms::token_is_constant;
        "a restored store ends newer terms", RequestSent | QueryAnswered
            => terms::restored_store_ends_term;
        "only a campaigning candidate begins a term", ClaimPublished => terms::begins_when_eligible;
        "a leader is elected in time" => progress::leader_in_time;
        "a candidate never waits out its own record" => progress::no_wait_on_own_record;
        "a withdrawn candidate releases its record" => progress::withdrawn_releases_record;
        "a release for an ended run waits", HolderChanged => ended_runs::ended_run_release_waits;
        "the record of an ended run is released" => ended_runs::ended_run_record_is_released;
        "a released election is acquired at once" => progress::takeover_after_release;
        "a free record is left to preferred candidates", RequestSent
            => preference::no_early_acquisition;
        "a preference adds to no other wait" => preference::waits_overlap;
        "no order cancels another withdrawal", ClaimPublished | QueryAnswered
            => withdrawals::no_campaign_while_a_cause_applies;
        "a release waits for the last promise", RequestSent
            => withdrawals::release_waits_for_promises;
        "a release is ordered", RequestSent => withdrawals::release_is_ordered;
        "an unfit exit waits for the stop", ProcessExited
            => withdrawals::unfit_exit_waits_for_the_stop;
        "a superseded order ends" => withdrawals::superseded_order_ends;
        "a candidate campaigns when no cause is left" => withdrawals::campaigns_without_a_cause;
        "a clean stop releases", ProcessExited => progress::clean_stop_releases;
        "a leaving candidate reads after an unknown write" => progress::reads_after_unknown_write;
        "a stopping candidate trusts no stale read", ProcessExited
            => progress::no_stop_on_stale_read;
        "a leader in its preStop hook keeps its term", ClaimPublished => progress::leads_until_stop;
        "requests are paced", RequestSent => progress::requests_are_paced;
        "the loser of a race waits for the watch", RequestSent => progress::loser_waits_for_watch;
        "knowledge never regresses", Transitioned => terms::knowledge_never_regresses;
        "no transition without a fault", Transitioned => stability::no_transition_without_fault;
        "a short fault ends no term", Transitioned => stability::short_fault_keeps_term;
        "a claim allows three attempts to renew", Transitioned => stability::three_renewal_attempts;
        "a deletion ends the term at once" => stability::deletion_ends_term;
    }
    None
}
