//! The state that the checkers derive from a run: holders, undisturbed periods, times of writes.
//!
//! Pure. Start with [`CheckerState::update`].

use super::candidate_view::CandidateView;
use super::coverage::Coverage;
use super::inspect::Inspect;
use super::summary::Summary;
use crate::clock::{Moment, Rate};
use crate::scenario::{Scenario, StoreConfig};
use crate::trace::{TraceContext, TraceEvent, Worker};
use baton_election::claim::{Claim, FencingToken};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::{Answer, Status};
use baton_election::machine::{Event, Outcome, Request, Transition, Verb};
use std::collections::BTreeSet;
use std::time::Duration;

/// The derived state of a run.
#[derive(Clone)]
pub(super) struct CheckerState {
    pub(super) candidates: Vec<CandidateView>,
    /// The longest delivery time of a message without faults.
    pub(super) latency: Duration,
    /// The configured tick of the ensemble and its sync limit; zero over a record.
    pub(super) tick: Duration,
    pub(super) sync_limit: u32,
    /// How old an answer of the ensemble must be for a claim to rest on it. All candidates allow
    /// for the same drift.
    pub(super) lag: Option<Duration>,
    /// The rate of the slowest server's clock.
    pub(super) slowest_clock: Rate,
    /// Whether leaders receive watch events.
    pub(super) leaders_watch: bool,
    /// Whether any candidate is to run a command in each term.
    pub(super) runs_commands: bool,
    /// The number of active faults of the store, and the time since which there has been none.
    pub(super) store_faults: u32,
    pub(super) store_fault_free_since: Moment,
    /// When a fault of a server last started or ended.
    pub(super) server_fault_at: Option<Moment>,
    /// When something that may cause a transition last happened.
    pub(super) quiet_since: Moment,
    /// When a candidate last held a claim.
    pub(super) last_led_at: Moment,
    /// The holder, and since when it has been in the record.
    pub(super) holder: Option<Identity>,
    pub(super) held_since: Moment,
    /// When the holder forgot the session that keeps it in the record. Only the ensemble can end
    /// that session.
    pub(super) session_forgotten_at: Option<Moment>,
    /// When a holder last forgot its session.
    pub(super) last_session_forgotten: Moment,
    /// The longest that any record has made others wait.
    pub(super) longest_lease: Duration,
    /// The longest that the election takes to settle after a disturbance.
    pub(super) settling_time: Duration,
    /// The largest token of any term so far, and the candidate that held it.
    pub(super) greatest_token: Option<(FencingToken, usize)>,
    /// The versions of all writes that were applied.
    written_versions: BTreeSet<u128>,
    /// When another client last deleted the record.
    pub(super) deleted_at: Option<Moment>,
    /// When another client last changed the record, and whether all candidates had long been
    /// undisturbed by then.
    pub(super) external_change: Option<(Moment, bool)>,
    /// When another client last did anything.
    pub(super) last_external_action: Moment,
    /// When the store was last restored. Claims that rest on an earlier write are excused then.
    pub(super) restored_at: Option<Moment>,
    /// Until when the store may show an earlier state, in stale reads or after a restore.
    pub(super) stale_reads_until: Option<Moment>,
    /// When the election was released, if no candidate has acquired it since.
    pub(super) released_at: Option<Moment>,
    /// Whether the next change of holder is a release.
    pub(super) is_release: bool,
    /// The time of the last event.
    now: Moment,
    pub(super) summary: Summary,
    pub(super) coverage: Coverage,
}

impl CheckerState {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let ensemble = match &scenario.store {
            StoreConfig::Ensemble(config) => Some(config),
            StoreConfig::Record(_) => None,
        };
        let mut state = Self {
            candidates: scenario.candidates.iter().map(CandidateView::of).collect(),
            latency: scenario.latency.1,
            tick: ensemble.map_or(Duration::ZERO, |config| config.configured_tick),
            lag: None,
            sync_limit: ensemble.map_or(0, |config| config.sync_limit),
            slowest_clock: ensemble
                .and_then(|config| config.clock_rates.iter().copied().min())
                .unwrap_or(Rate::TRUE),
            leaders_watch: scenario.leaders_watch,
            runs_commands: scenario.candidates.iter().any(|it| it.command.is_some()),
            store_faults: 0,
            store_fault_free_since: Moment::START,
            server_fault_at: None,
            quiet_since: Moment::START,
            last_led_at: Moment::START,
            holder: None,
            held_since: Moment::START,
            session_forgotten_at: None,
            last_session_forgotten: Moment::START,
            longest_lease: Duration::ZERO,
            settling_time: Duration::ZERO,
            greatest_token: None,
            written_versions: BTreeSet::new(),
            deleted_at: None,
            external_change: None,
            last_external_action: Moment::START,
            restored_at: None,
            stale_reads_until: None,
            released_at: None,
            is_release: false,
            now: Moment::START,
            summary: Summary::default(),
            coverage: Coverage::default(),
        };
        (state.lag, state.settling_time) = (state.drifted_lag(), state.longest_settling_time());
        state.summary = Summary::of(&state);
        state
    }

    /// Whether no fault is active.
    pub(super) fn is_fault_free(&self) -> bool {
        self.store_faults == 0 && self.candidates.iter().all(|candidate| candidate.faults == 0)
    }

    /// Since when candidate `number` and the store have been free of faults, if they are.
    pub(super) fn fault_free_since(&self, number: usize) -> Option<Moment> {
        let candidate = &self.candidates[number];
        let since = candidate
            .fault_free_since
            .max(candidate.campaigns_since)
            .max(self.store_fault_free_since);
        Some(since).filter(|_| candidate.is_eligible() && self.store_faults == 0)
    }

    /// Whether claims or promises may overlap because one of them rests on a write from before
    /// another client intervened.
    pub(super) fn is_excused(&self, one: Option<Moment>, other: Option<Moment>) -> bool {
        let Some((external_change, was_quiet)) = self.external_change else { return false };
        let is_from_before =
            |applied: Option<Moment>| applied.is_none_or(|applied| applied <= external_change);
        // Candidates wait after a record vanishes. When a znode vanishes, the next one in the queue
        // leads at once.
        let is_quiet = self.tick.is_zero() && was_quiet && self.quiet_since < external_change;
        !is_quiet && (is_from_before(one) || is_from_before(other))
    }

    /// Whether another client or a stale read may have cost `candidate` its leadership. Neither
    /// excuses the loss of a claim that rests on a later write.
    pub(super) fn is_loss_excused(&self, candidate: &CandidateView) -> bool {
        candidate.rests_on(self.external_change.map(|(at, _)| at))
            || candidate.rests_on(self.stale_reads_until)
    }

    /// Whether another client causes the change at `now`.
    pub(super) fn is_external_change(&self, now: Moment) -> bool {
        self.external_change.is_some_and(|(at, _)| at == now)
    }

    /// Advances [`Self::last_led_at`] to now or to the end of each claim, which may lie between
    /// events.
    pub(super) fn follow_clocks(&mut self, context: &TraceContext<'_>) {
        if self.has_leader(context.now) {
            return;
        }
        for (candidate, clock) in self.candidates.iter().zip(context.clocks) {
            if let Some(claim) = candidate.claim {
                let holds = clock.is_before(context.now, claim.deadline());
                let led = if holds { context.now } else { clock.when(claim.deadline()) };
                self.last_led_at = self.last_led_at.max(led);
            }
        }
    }

    /// Whether a candidate holds a claim, or held one until now.
    pub(super) fn has_leader(&self, now: Moment) -> bool {
        self.last_led_at == now
    }

    /// Updates the state after `event`.
    pub(super) fn update<E: Inspect>(
        &mut self,
        context: &TraceContext<'_>,
        event: &TraceEvent<'_, E>,
    ) {
        let now = context.now;
        self.now = now;
        match event {
            TraceEvent::FaultBegan(fault, affected) => self.fault_began(context, fault, *affected),
            TraceEvent::FaultEnded(fault, affected) => self.fault_ended(context, fault, *affected),
            TraceEvent::Disturbed(Some(number)) => {
                self.candidates[*number].fault_free_since = now;
                self.disturbed(now);
            }
            TraceEvent::WatchImpaired(number) => {
                self.candidates[*number].impair_watch(now, context.local_time(*number));
                self.disturbed(now);
            }
            TraceEvent::Disturbed(None) => {
                self.store_fault_free_since = now;
                self.disturbed(now);
            }
            TraceEvent::ProcessStarted(number, identity, from) => {
                self.started(context, *number, identity, *from);
            }
            TraceEvent::ProcessExited(number, cause) => self.exited(*number, *cause, now),
            TraceEvent::Withdrew(number, how) => self.withdrew(context, *number, *how),
            TraceEvent::CampaignResumed(number, from) => self.resumed(context, *number, *from),
            TraceEvent::Ordered(number, ticket, order, at) => {
                self.candidates[*number].causes.add(*ticket, **order, *at, now);
            }
            TraceEvent::OrderSettled(number, ticket, outcome, at) => {
                self.order_settled(*number, *ticket, *outcome, *at);
            }
            TraceEvent::WithdrawalEnded(number, cause) => {
                self.candidates[*number].causes.end(*cause, context.local_time(*number));
            }
            TraceEvent::WorkDone(number, piece) => {
                self.candidates[*number].finish_work(*piece, context.local_time(*number));
            }
            TraceEvent::RequestSent(number, request, sent) => {
                self.candidates[*number].send_request::<E>(request, *sent);
            }
            TraceEvent::RequestPerformed(number, request, reply) => {
                if let Some(version) = E::written_version(reply) {
                    let recurs = !self.written_versions.insert(version);
                    self.coverage.recurring_versions += u64::from(recurs);
                }
                self.performed(context, *number, *request, *reply);
            }
            TraceEvent::HolderChanged(holder, lease) => self.holder_changed(*holder, *lease, now),
            TraceEvent::SessionForgotten => {
                (self.session_forgotten_at, self.last_session_forgotten) = (Some(now), now);
            }
            TraceEvent::HolderDeparted(departure) => self.holder_departed(*departure, now),
            TraceEvent::ReplyReceived(number, event, at) => {
                self.receive_reply(*number, *event, *at);
                self.candidates[*number].learn(E::reported_record(event), now, false);
            }
            TraceEvent::WatchEventReceived(number, event, at) => {
                self.candidates[*number].last_input_at = *at;
                self.candidates[*number].learn(E::reported_record(event), now, true);
            }
            TraceEvent::Transitioned(number, transition) => {
                self.transitioned(context, *number, transition);
            }
            TraceEvent::Command(number, token, event) => {
                self.command_changed(context, *number, *token, *event);
            }
            TraceEvent::ClaimPublished(number, claim) => self.published(context, *number, *claim),
            TraceEvent::QueryAnswered(number, worker, answer, queried_at) => {
                self.query_answered(*number, *worker, answer, *queried_at);
            }
        }
        self.summarize(event);
    }

    fn transitioned<D>(
        &mut self,
        context: &TraceContext<'_>,
        number: usize,
        transition: &Transition<D>,
    ) {
        let candidate = &mut self.candidates[number];
        match transition {
            // The expiry of a term ends a process that is about to stop, so it cannot read again.
            Transition::Lost { .. } => candidate.lose(context.local_time(number)),
            Transition::Leading { .. } => candidate.has_lost = false,
            Transition::ReleasedForEndedRun { .. } => {
                self.coverage.add_release_for_ended_run(self.tick.is_zero());
            }
            Transition::Following { .. }
            | Transition::StoreWentBack { .. }
            | Transition::Diagnosed(_)
            | Transition::Resigned { .. } => {}
        }
    }

    /// How much there has been to check. A calm period is counted when it ends.
    pub(super) fn coverage(&self) -> Coverage {
        let is_calm = self.is_fault_free() && self.now.since(self.quiet_since) > self.settling_time;
        let mut coverage = self.coverage;
        coverage.calm_periods[usize::from(!self.tick.is_zero())] += u64::from(is_calm);
        coverage
    }

    /// Records that something which may cause a transition happened at `now`.
    pub(super) fn disturbed(&mut self, now: Moment) {
        self.quiet_since = self.quiet_since.max(now);
    }

    /// Whether this candidate may know versions that the restored store has not reached again. That
    /// ends once it has been free of faults for long enough to see a lower version.
    pub(super) fn may_know_newer_versions(&self, number: usize, now: Moment) -> bool {
        let timing = self.candidates[number].timing;
        let long =
            (timing.lease_duration().max(self.longest_lease) + timing.retry_period() * 2) * 2;
        let is_long_fault_free = |then| {
            self.fault_free_since(number).is_some_and(|since| now.since(since.max(then)) > long)
        };
        self.restored_at.is_some_and(|then| !is_long_fault_free(then))
    }

    fn query_answered(
        &mut self,
        number: usize,
        worker: Worker,
        answer: &Answer,
        queried_at: Instant,
    ) {
        let until = match answer.status {
            Status::Leading(promise) => Some(queried_at + promise.valid_for),
            Status::Unknown | Status::Following { .. } | Status::Resigning => None,
        };
        let candidate = &mut self.candidates[number];
        candidate.run.answers.add(worker, answer, until);
        if let Some(until) = until {
            self.coverage.add_promise(worker);
            candidate.promise(worker, until);
        }
    }

    fn performed<R: Request, E: Event>(
        &mut self,
        context: &TraceContext<'_>,
        number: usize,
        request: &R,
        reply: &E,
    ) {
        let backs_claim =
            request.is_renewal() || self.tick.is_zero() && request.verb() != Verb::Read;
        if !backs_claim || reply.outcome() != Outcome::Applied {
            return;
        }
        // The change of holder precedes this event.
        let is_release = self.released_at == Some(context.now);
        let candidate = &mut self.candidates[number];
        candidate.applied(context.now, context.local_time(number), is_release);
        if candidate.faults > 0 {
            // The candidate may never use a lease that others have to wait for.
            self.store_fault_free_since = context.now;
        }
    }

    fn receive_reply<E: Event>(&mut self, number: usize, event: &E, at: Instant) {
        self.candidates[number].receive_reply(event, at);
        match event.outcome() {
            Outcome::Applied => {}
            Outcome::Conflict => self.coverage.conflicts += 1,
            Outcome::Unknown => self.coverage.unknowns += 1,
        }
    }

    fn published(&mut self, context: &TraceContext<'_>, number: usize, claim: Option<Claim>) {
        let (local_time, store_faults, lag, restored_at) =
            (context.local_time(number), self.store_faults, self.lag, self.restored_at);
        let candidate = &mut self.candidates[number];
        if candidate.faults + store_faults > 0 {
            candidate.disturbed(local_time);
        }
        if let Some(claim) = claim {
            self.released_at = None;
            self.last_led_at = context.now;
            if candidate.term != Some(claim.token())
                && !claim.remaining(local_time).is_zero()
                && !candidate.rests_on(restored_at)
            {
                self.coverage.terms += 1;
                self.greatest_token = Some((claim.token(), number));
            }
        } else if candidate.withdrawal.is_none() {
            self.coverage.losses += 1;
        }
        if let Some(claim) = claim {
            candidate.commands.extend(claim, candidate.applied_at(), local_time);
        }
        candidate.publish_claim(claim, lag);
    }
}
