//! FaultKind a judge remembers of a world.
//!
//! Kept in the terms of the properties: who holds what, since when nothing has disturbed whom, what was written when.

use super::candidate_view::CandidateView;
use super::coverage::Coverage;
use super::inspect::Inspect;
use crate::clock::{Moment, Rate};
use crate::scenario::{Scenario, StoreConfig};
use crate::trace::{Departure, TraceContext, TraceEvent};
use baton_election::claim::{Claim, FencingToken};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use baton_election::machine::{Event, Outcome, Request, Transition, Verb};
use std::time::Duration;

/// The whole of it.
pub(super) struct CheckerState {
    pub(super) candidates: Vec<CandidateView>,
    /// The most that a message takes while nothing is wrong.
    pub(super) latency: Duration,
    /// How fast an ensemble was said to tick, and how many ticks its servers wait for each other; nothing for a record.
    pub(super) tick: Duration,
    pub(super) sync_limit: u32,
    /// How fast its slowest_clock clock runs.
    pub(super) slowest_clock: Rate,
    /// Whether leaders are told news.
    pub(super) leaders_watch: bool,
    /// FaultKind is wrong with the store, and since when nothing is.
    pub(super) store_faults: u32,
    pub(super) store_fault_free_since: Moment,
    /// When a fault of a server last began or ended.
    pub(super) server_fault_at: Option<Moment>,
    /// Since when nothing has happened that could make a transition.
    pub(super) quiet_since: Moment,
    /// The last moment at which anybody held a claim.
    pub(super) last_led_at: Moment,
    /// Who is in the record, since when, and the longest that any record made others wait.
    pub(super) holder: Option<Identity>,
    pub(super) held_since: Moment,
    /// Since when he has forgotten the session that keeps him there, and has begun another: the ensemble alone can end that.
    pub(super) session_forgotten_at: Option<Moment>,
    /// When anybody last did that.
    pub(super) last_session_forgotten: Moment,
    pub(super) longest_lease: Duration,
    /// The largest token of a term that has begun, and whose it is.
    pub(super) greatest: Option<(FencingToken, usize)>,
    /// When a stranger last deleted it.
    pub(super) deleted: Option<Moment>,
    /// The last that a stranger did to the record, and whether everybody had long been well then.
    pub(super) external_change: Option<(Moment, bool)>,
    /// The last time that a stranger did anything.
    pub(super) last_external_action: Moment,
    /// When the store was last set back: what rests on a write from before is worth little from then on.
    pub(super) restored_at: Option<Moment>,
    /// Until when reads come from the past, or came, or the store did.
    pub(super) stale_reads_until: Option<Moment>,
    /// A release that nobody has taken up yet.
    pub(super) released: Option<Moment>,
    /// The next change of holder is one that was given up.
    is_release: bool,
    /// When something was last seen.
    now: Moment,
    pub(super) coverage: Coverage,
}

impl CheckerState {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let ensemble = match &scenario.store {
            StoreConfig::Ensemble(config) => Some(config),
            StoreConfig::Record(_) => None,
        };
        Self {
            candidates: scenario
                .candidates
                .iter()
                .map(|candidate| CandidateView::new(candidate.timing))
                .collect(),
            latency: scenario.latency.1,
            tick: ensemble.map_or(Duration::ZERO, |config| config.configured_tick),
            sync_limit: ensemble.map_or(0, |config| config.sync_limit),
            slowest_clock: ensemble
                .and_then(|config| config.clock_rates.iter().copied().min())
                .unwrap_or(Rate::TRUE),
            leaders_watch: scenario.leaders_watch,
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
            greatest: None,
            deleted: None,
            external_change: None,
            last_external_action: Moment::START,
            restored_at: None,
            stale_reads_until: None,
            released: None,
            is_release: false,
            now: Moment::START,
            coverage: Coverage::default(),
        }
    }

    /// Whether nothing is wrong now.
    pub(super) fn is_fault_free(&self) -> bool {
        self.store_faults == 0 && self.candidates.iter().all(|candidate| candidate.faults == 0)
    }

    /// Since when `number` and the store have been well, if they are.
    pub(super) fn fault_free_since(&self, number: usize) -> Option<Moment> {
        let candidate = &self.candidates[number];
        let since = candidate.fault_free_since.max(self.store_fault_free_since);
        Some(since).filter(|_| candidate.is_fault_free() && self.store_faults == 0)
    }

    /// Whether claims or promises may overlap, because one rests on a write from before a stranger came between.
    pub(super) fn is_excused(&self, one: Option<Moment>, other: Option<Moment>) -> bool {
        let Some((external_change, was_quiet)) = self.external_change else { return false };
        let is_from_before =
            |applied: Option<Moment>| applied.is_none_or(|applied| applied <= external_change);
        // A record that is gone is waited out; a znode that is gone lets the next in the line lead at once.
        let is_quiet = self.tick.is_zero() && was_quiet && self.quiet_since < external_change;
        !is_quiet && (is_from_before(one) || is_from_before(other))
    }

    /// Whether what takes the leadership of `candidate` may be a stranger's action, or a read from the past. Neither undoes a claim that
    /// rests on a write of later: over what a stranger left behind it was a term of its own, and no read from before it counts.
    pub(super) fn is_undone_from_outside(&self, candidate: &CandidateView) -> bool {
        candidate.rests_on(self.external_change.map(|(at, _)| at))
            || candidate.rests_on(self.stale_reads_until)
    }

    /// Whether what changes now is a stranger's doing.
    pub(super) fn is_external_change(&self, now: Moment) -> bool {
        self.external_change.is_some_and(|(at, _)| at == now)
    }

    /// Claims end while nothing occurs: brings what believed_holder from that up to now.
    pub(super) fn follow_clocks(&mut self, context: &TraceContext<'_>) {
        for (candidate, clock) in self.candidates.iter().zip(context.clocks) {
            if let Some(claim) = candidate.claim {
                let holds = !claim.remaining(clock.read(context.now)).is_zero();
                let led = if holds { context.now } else { clock.when(claim.deadline()) };
                self.last_led_at = self.last_led_at.max(led);
            }
        }
    }

    /// Whether anybody holds a claim, or held one until now.
    pub(super) fn has_leader(&self, now: Moment) -> bool {
        self.last_led_at == now
    }

    /// Takes in what occurs.
    pub(super) fn note<E: Inspect>(
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
                let candidate = &mut self.candidates[*number];
                (candidate.watch_reliable_since, candidate.contradicted_at) =
                    (now, Some(context.local_time(*number)));
                self.disturbed(now);
            }
            TraceEvent::Disturbed(None) => {
                self.store_fault_free_since = now;
                self.disturbed(now);
            }
            TraceEvent::ProcessStarted(number, identity, from) => {
                self.started(context, *number, identity, *from);
            }
            TraceEvent::ProcessExited(number, _) => self.ended(*number, now),
            TraceEvent::Withdrew(number, how) => {
                self.allow_extra_request();
                self.candidates[*number].withdraw(*how, context.local_time(*number));
                self.disturbed(now);
            }
            TraceEvent::CampaignResumed(number) => {
                self.allow_extra_request();
                let candidate = &mut self.candidates[*number];
                (candidate.withdrawal, candidate.is_campaigning, candidate.fault_free_since) =
                    (None, true, now);
                self.disturbed(now);
            }
            TraceEvent::RequestSent(number, request, sent) => {
                self.candidates[*number].send_request(
                    *request,
                    E::replaced_version(request),
                    *sent,
                );
            }
            TraceEvent::RequestPerformed(number, request, reply) => {
                self.performed(context, *number, *request, *reply);
            }
            TraceEvent::HolderChanged(holder, longest_lease) => {
                self.holder_changed(*holder, *longest_lease, now)
            }
            TraceEvent::SessionForgotten => {
                (self.session_forgotten_at, self.last_session_forgotten) = (Some(now), now)
            }
            TraceEvent::HolderDeparted(Departure::Released) => self.is_release = true,
            TraceEvent::HolderDeparted(Departure::Deleted) => {
                // FaultKind occurs between the action and its agreement may keep anybody from hearing of it.
                let was_quiet = self
                    .external_change
                    .is_some_and(|(at, was_quiet)| was_quiet && self.quiet_since <= at);
                self.external_change = Some((now, was_quiet));
                self.disturbed(now);
            }
            TraceEvent::ReplyReceived(number, event, at) => {
                self.receive_reply(*number, *event, *at);
                self.candidates[*number].learn(E::reported_record(event), now, false);
            }
            TraceEvent::WatchEventReceived(number, event, at) => {
                let candidate = &mut self.candidates[*number];
                candidate.last_input_at = *at;
                candidate.learn(E::reported_record(event), now, true);
            }
            // A term that runs out fault_ended whoever was about to stop: nobody is there to look.
            TraceEvent::Transitioned(number, Transition::Lost { .. }) => {
                self.candidates[*number].last_checked_at = context.local_time(*number);
            }
            TraceEvent::Transitioned(..) => {}
            TraceEvent::ClaimPublished(number, claim) => self.claims(context, *number, *claim),
            TraceEvent::QueryAnswered(number, answer, asked) => {
                if let Status::Leading(promise) = answer.status {
                    self.coverage.promises += 1;
                    self.candidates[*number].promise(*asked + promise.valid_for);
                }
            }
        }
    }

    /// How much there was to judge; a calm counts when it is over.
    pub(super) fn coverage(&self) -> Coverage {
        let is_calm =
            self.is_fault_free() && self.now.since(self.quiet_since) > self.settling_time();
        let mut coverage = self.coverage;
        coverage.calm_runs[usize::from(!self.tick.is_zero())] += u64::from(is_calm);
        coverage
    }

    /// Something happened that may make a transition.
    pub(super) fn disturbed(&mut self, now: Moment) {
        self.quiet_since = self.quiet_since.max(now);
    }

    fn started(
        &mut self,
        context: &TraceContext<'_>,
        number: usize,
        identity: &Identity,
        from: Instant,
    ) {
        let began = context.clocks[number].when(from).max(context.now);
        let candidate = &mut self.candidates[number];
        *candidate = candidate.restarted(identity.clone());
        (candidate.is_campaigning, candidate.campaigns_from, candidate.fault_free_since) =
            (true, from, began);
        if candidate.faults + self.store_faults > 0 {
            candidate.disturbed(context.local_time(number));
        }
        self.disturbed(began);
    }

    /// Whether this candidate may know of larger numbers than a store has that was set back: since that it has not been well for as
    /// long as it takes to be shown a smaller one.
    pub(super) fn may_know_larger_numbers(&self, number: usize, now: Moment) -> bool {
        let timing = self.candidates[number].timing;
        let long =
            (timing.lease_duration().max(self.longest_lease) + timing.retry_period() * 2) * 2;
        let is_long_well = |then| {
            self.fault_free_since(number).is_some_and(|since| now.since(since.max(then)) > long)
        };
        self.restored_at.is_some_and(|then| !is_long_well(then))
    }

    fn ended(&mut self, number: usize, now: Moment) {
        self.expire_unacknowledged_write(number);
        let candidate = &mut self.candidates[number];
        (candidate.claim, candidate.term, candidate.is_campaigning, candidate.withdrawal) =
            (None, None, false, None);
        self.disturbed(now);
    }

    /// It may never make use of what it wrote and has not heard of, and others have to wait for that.
    pub(super) fn expire_unacknowledged_write(&mut self, number: usize) {
        let wrote = self.candidates[number].unacknowledged().unwrap_or(Moment::START);
        self.store_fault_free_since = self.store_fault_free_since.max(wrote);
    }

    fn holder_changed(&mut self, holder: Option<&Identity>, longest_lease: Duration, now: Moment) {
        self.longest_lease = self.longest_lease.max(longest_lease);
        let is_external = self.is_external_change(now);
        self.released = (std::mem::take(&mut self.is_release) && !is_external).then_some(now);
        self.coverage.releases += u64::from(self.released.is_some());
        self.session_forgotten_at = None;
        if self.holder.as_ref() != holder {
            (self.holder, self.held_since) = (holder.cloned(), now);
        }
    }

    fn performed<R: Request, E: Event>(
        &mut self,
        context: &TraceContext<'_>,
        number: usize,
        request: &R,
        reply: &E,
    ) {
        let proves = request.is_renewal() || self.tick.is_zero() && request.verb() != Verb::Read;
        if !proves || reply.outcome() != Outcome::Applied {
            return;
        }
        // FaultKind was changed is told just before.
        let is_release = self.released == Some(context.now);
        let candidate = &mut self.candidates[number];
        candidate.applied(context.now, context.local_time(number), is_release);
        if candidate.faults > 0 {
            // It may never make use of what others have to wait for.
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

    fn claims(&mut self, context: &TraceContext<'_>, number: usize, claim: Option<Claim>) {
        let (shown, store_faults, lag, restored_at) =
            (context.local_time(number), self.store_faults, self.lag(), self.restored_at);
        let candidate = &mut self.candidates[number];
        if candidate.faults + store_faults > 0 {
            candidate.disturbed(shown);
        }
        if let Some(claim) = claim {
            self.released = None;
            self.last_led_at = context.now;
            if candidate.term != Some(claim.token())
                && !claim.remaining(shown).is_zero()
                && !candidate.rests_on(restored_at)
            {
                self.coverage.terms += 1;
                self.greatest = Some((claim.token(), number));
            }
        } else if candidate.withdrawal.is_none() {
            self.coverage.losses += 1;
        }
        candidate.publish_claim(claim, lag);
    }
}
