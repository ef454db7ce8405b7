//! The checkers' view of one candidate.
//!
//! Pure. Start with [`CandidateView`].

mod budget;
mod promises;
mod replies;
mod requests;

use super::commands::Commands;
use super::ended_runs::{CurrentRun, EndedRun};
use super::inspect::Inspect;
use super::preference::FreeRecord;
use super::withdrawals::Causes;
use crate::clock::Moment;
use crate::scenario::CandidateConfig;
use crate::trace::Worker;
use baton_election::claim::{Claim, FencingToken};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Request, Verb, Withdrawal};
use baton_election::record::preference::Preference;
use baton_election::timing::Timing;
use promises::Promises;
pub(super) use requests::{Race, RoleWhenSent};
use std::time::Duration;

/// One candidate. Each `Instant` is by its own clock.
#[derive(Clone)]
pub(super) struct CandidateView {
    pub(super) timing: Timing,
    pub(super) preference: Preference,
    /// When the record becomes free, by what it has seen.
    pub(super) free_record: FreeRecord,
    pub(super) identity: Option<Identity>,
    /// The current run, and the previous one.
    pub(super) run: CurrentRun,
    pub(super) ended_run: Option<EndedRun>,
    /// The claim that it publishes.
    pub(super) claim: Option<Claim>,
    /// The token of that claim, or of the previous one until its end is published.
    pub(super) term: Option<FencingToken>,
    /// The promises to its application, and the commands that it runs.
    promises: Promises,
    pub(super) commands: Commands,
    /// Whether its last term was lost, rather than given up.
    pub(super) has_lost: bool,
    /// Why it must stay away, by the orders that it received.
    pub(super) causes: Causes,
    /// The end of the claim that it published last.
    pub(super) claim_ends: Option<Instant>,
    /// How and when it was ordered to withdraw.
    pub(super) withdrawal: Option<(Withdrawal, Instant)>,
    /// Whether its process runs and was not ordered to withdraw, and when it may begin to campaign.
    pub(super) is_campaigning: bool,
    pub(super) campaigns_from: Instant,
    /// The moment of `campaigns_from`.
    pub(super) campaigns_since: Moment,
    /// Since when it has been free of faults, and how many are active.
    pub(super) fault_free_since: Moment,
    pub(super) faults: u32,
    /// The number of faults of its watch, and since when its watch has been reliable.
    pub(super) watch_faults: u32,
    pub(super) watch_reliable_since: Moment,
    /// The number of faults that let only some requests through.
    pub(super) intermittent_faults: u32,
    /// The number of faults that suspend it, and when one last started or ended.
    pub(super) pauses: u32,
    pub(super) paused_at: Instant,
    /// The number of attempts to renew since the renewal that its claim rests on, and when that was
    /// sent.
    attempts: (u32, Instant),
    /// `attempts` at the end of its last term.
    pub(super) attempts_at_loss: (u32, Instant),
    /// When it last had a reason to read before the next renewal.
    pub(super) contradicted_at: Option<Instant>,
    /// The verb of its last request if the outcome is unknown.
    failed: Option<Verb>,
    /// The verb of the pending request, and when it was sent.
    pending: Option<Verb>,
    pub(super) sent_at: Instant,
    /// Its role when it sent the request.
    pub(super) role_when_sent: RoleWhenSent,
    /// When the pending write was applied.
    applied_write: Option<(Moment, Instant)>,
    /// When the latest write that it knows to be applied was applied.
    pub(super) acknowledged_write: Option<(Moment, Instant)>,
    /// When it last handled an input.
    pub(super) last_input_at: Instant,
    /// Whether a release of its own was applied and no reply has contradicted that.
    pub(super) has_released: bool,
    /// The first and last disturbance since it sent the renewal of its last full claim.
    pub(super) disturbance: Option<(Instant, Instant)>,
    /// `disturbance` at the end of its last term.
    pub(super) disturbance_at_loss: Option<(Instant, Instant)>,
    /// The highest version that it has seen since its last read, that read included.
    pub(super) newest_version: u128,
    /// The version that it saw last, and the lowest one that includes everything that it has seen
    /// or may have written.
    last_seen_version: u128,
    required_version: u128,
    /// The version that its last write replaces, or else the newest one at that time. The write
    /// creates a higher version.
    base_version: Option<u128>,
    /// When it last sent a request, got a reply, or saw its term expire.
    pub(super) last_checked_at: Instant,
    /// The holder in [`Self::newest_version`], and when it saw a deletion event.
    pub(super) believed_holder: Option<Identity>,
    pub(super) deletion_seen_at: Option<Moment>,
    /// A reply to the pending read with a lower version was overtaken by a watch event. The maximum
    /// if an event reported that the record is gone: then any reply may be.
    stale_below: u128,
    /// When it received the reply to a read, if there was no other input since.
    fresh_read_at: Option<Instant>,
    pub(super) race: Race,
    /// The length of its last claim, from the time of its request.
    claim_length: Duration,
    /// When it sent the request of its last claim of full length. In a session, a claim that rests
    /// on an old answer is shorter.
    pub(super) full_claim_sent_at: Instant,
    /// When it last received a reply.
    pub(super) answered_at: Instant,
    /// Until when it may wait after a failed request.
    pub(super) backoff_until: Instant,
    /// The start of the current retry period, and the number of requests in it.
    pub(super) request_window: (Instant, u32),
    /// The number of events in this period that allow extra requests: external actions and orders
    /// to withdraw or campaign.
    pub(super) extra_requests: u32,
    /// The number of writes in this period that met a conflict although they replaced a later
    /// version than the previous refused write, and the version that this one replaced.
    pub(super) overtaken_writes: u32,
    refused_base: Option<u128>,
}

impl CandidateView {
    /// The view of a candidate before its first start.
    pub(super) fn of(config: &CandidateConfig) -> Self {
        let commands = Commands::new(config.command);
        let run = CurrentRun::of(config);
        Self { run, commands, ..Self::new(config.timing, config.preference) }
    }

    fn new(timing: Timing, preference: Preference) -> Self {
        let start = Instant::since_boot(Duration::ZERO);
        Self {
            timing,
            preference,
            free_record: FreeRecord::new(preference),
            identity: None,
            run: CurrentRun::default(),
            ended_run: None,
            claim: None,
            term: None,
            promises: Promises::default(),
            commands: Commands::default(),
            has_lost: false,
            causes: Causes::default(),
            claim_ends: None,
            withdrawal: None,
            is_campaigning: false,
            campaigns_from: start,
            campaigns_since: Moment::START,
            fault_free_since: Moment::START,
            faults: 0,
            watch_faults: 0,
            watch_reliable_since: Moment::START,
            intermittent_faults: 0,
            pauses: 0,
            paused_at: start,
            attempts: (0, start),
            attempts_at_loss: (0, start),
            contradicted_at: None,
            failed: None,
            pending: None,
            sent_at: start,
            role_when_sent: RoleWhenSent::Away,
            applied_write: None,
            acknowledged_write: None,
            last_input_at: start,
            has_released: false,
            disturbance: None,
            disturbance_at_loss: None,
            newest_version: 0,
            last_seen_version: 0,
            required_version: 0,
            base_version: None,
            last_checked_at: start,
            believed_holder: None,
            deletion_seen_at: None,
            stale_below: 0,
            fresh_read_at: None,
            race: Race::None,
            claim_length: Duration::ZERO,
            full_claim_sent_at: start,
            answered_at: start,
            backoff_until: start,
            request_window: (start, 0),
            extra_requests: 0,
            overtaken_writes: 0,
            refused_base: None,
        }
    }

    /// The view of a restarted process. Promises, commands, and active faults carry over.
    pub(super) fn restarted(&mut self, identity: Identity) -> Self {
        let Self {
            promises,
            faults,
            watch_faults,
            watch_reliable_since,
            intermittent_faults,
            pauses,
            paused_at,
            ..
        } = *self;
        let fresh = Self {
            promises: promises.of_restarted(),
            commands: std::mem::take(&mut self.commands),
            run: self.run.restarted(),
            ended_run: self.ended_run.take(),
            faults,
            watch_faults,
            watch_reliable_since,
            intermittent_faults,
            pauses,
            paused_at,
            ..Self::new(self.timing, self.preference)
        };
        Self { identity: Some(identity), ..fresh }
    }

    /// A watch event of the candidate is lost or late when its clock reads `local_time`.
    pub(super) fn impair_watch(&mut self, now: Moment, local_time: Instant) {
        (self.watch_reliable_since, self.contradicted_at) = (now, Some(local_time));
    }

    /// Whether it may campaign and has no fault.
    pub(super) fn is_eligible(&self) -> bool {
        self.is_campaigning && self.faults == 0
    }

    /// Whether its claim is current when its clock reads `local_time`.
    pub(super) fn claims(&self, local_time: Instant) -> bool {
        self.claim.is_some_and(|claim| !claim.remaining(local_time).is_zero())
    }

    /// Whether the outcome of its last write is unknown and no request is pending. A watch event
    /// settles it if its record is newer than any that the write could have created.
    pub(super) fn is_in_doubt(&self) -> bool {
        let is_unsettled = self.last_seen_version < self.required_version;
        self.pending.is_none() && is_unsettled && self.failed.is_some_and(|verb| verb != Verb::Read)
    }

    /// Whether it may hold the record, last saw a version older than one that it had seen or may
    /// have written, and has not read since `ordered`.
    pub(super) fn trusts_stale_read(&self, ordered: Instant) -> bool {
        let is_stale =
            self.base_version.is_some() && self.last_seen_version < self.required_version;
        is_stale && self.last_checked_at < ordered && !self.has_pending_request()
    }

    /// When its write was applied, if it has not received the reply.
    pub(super) fn unacknowledged(&self) -> Option<Moment> {
        self.applied_write.map(|(applied, _)| applied)
    }

    /// Whether it waits for a reply to a request that it sent before `fault_free_since`. If that
    /// reply is lost, the call has to time out first.
    pub(super) fn awaits_lost_reply(&self, fault_free_since: Instant) -> bool {
        self.has_pending_request() && self.sent_at < fault_free_since
    }

    /// Whether it waits for a reply.
    pub(super) fn has_pending_request(&self) -> bool {
        self.pending.is_some()
    }

    /// When the write that its claim rests on was applied.
    pub(super) fn applied_at(&self) -> Option<Moment> {
        self.acknowledged_write.map(|(applied, _)| applied)
    }

    /// Whether its claim rests on a write from before `then`.
    pub(super) fn rests_on(&self, then: Option<Moment>) -> bool {
        self.applied_at().is_some_and(|applied| Some(applied) <= then)
    }

    /// The longest promise: when it expires, and when the write that backs it was applied.
    pub(super) fn promised(&self) -> Option<(Instant, Option<Moment>)> {
        self.promises.longest()
    }

    /// Whether its application may act when its clock reads `local_time`.
    pub(super) fn promises(&self, local_time: Instant) -> bool {
        self.promised().is_some_and(|(until, _)| local_time < until)
    }

    /// When the last promise of this process expires.
    pub(super) fn own_promise(&self) -> Option<Instant> {
        self.promises.own()
    }

    /// Its term is lost when its clock reads `local_time`.
    pub(super) const fn lose(&mut self, local_time: Instant) {
        (self.last_checked_at, self.has_lost) = (local_time, true);
    }

    /// A worker receives a promise.
    pub(super) fn promise(&mut self, worker: Worker, until: Instant) {
        self.promises.add(worker, until, self.applied_at());
    }

    /// The named worker has finished this piece of work.
    pub(super) const fn finish_work(&mut self, piece: u32, at: Instant) {
        self.promises.finish_work(piece, at);
    }

    /// When the named worker last finished a piece of work.
    pub(super) const fn work_finished_at(&self) -> Option<Instant> {
        self.promises.finished_at()
    }

    /// The candidate sends a request.
    pub(super) fn send_request<E: Inspect>(&mut self, request: &E::Request, sent: Instant) {
        self.pending = Some(request.verb());
        (self.sent_at, self.last_checked_at, self.applied_write) = (sent, sent, None);
        if request.verb() != Verb::Read {
            self.base_version = E::replaced_version(request).or(Some(self.newest_version));
        }
        self.stale_below = 0;
        self.role_when_sent = if self.claims(sent) {
            RoleWhenSent::Leading
        } else if self.is_campaigning && self.campaigns_from <= sent {
            RoleWhenSent::Campaigning
        } else {
            RoleWhenSent::Away
        };
        self.run.sends(E::is_entry(request), E::is_release(request));
        let begins_term = E::is_acquisition(request) && self.is_campaigning;
        self.race = if begins_term && self.fresh_read_at == Some(sent) {
            Race::Running
        } else {
            Race::None
        };
        // After a broken connection the session is resumed first. The request that broke counts as
        // an attempt.
        let is_resume = request.verb() == Verb::Connect;
        let has_failed = is_resume && matches!(self.failed.take(), Some(Verb::Read | Verb::List));
        self.attempts.0 += u32::from(request.is_renewal() || is_resume) + u32::from(has_failed);
        let (since, count) = self.request_window;
        let is_same_period = sent.since(since) < self.timing.retry_period();
        self.request_window = if is_same_period { (since, count + 1) } else { (sent, 1) };
        self.extra_requests = if is_same_period { self.extra_requests } else { 0 };
        self.overtaken_writes = if is_same_period { self.overtaken_writes } else { 0 };
    }

    /// The store applied its write.
    pub(super) fn applied(&mut self, now: Moment, local_time: Instant, is_release: bool) {
        self.applied_write = Some((now, local_time));
        self.has_released |= is_release;
    }

    /// The candidate publishes another claim, or none.
    pub(super) fn publish_claim(&mut self, claim: Option<Claim>, lag: Option<Duration>) {
        let token = claim.map(|claim| claim.token());
        if self.term.is_some() && self.term != token {
            (self.disturbance_at_loss, self.attempts_at_loss) = (self.disturbance, self.attempts);
        }
        if let Some(claim) = claim {
            self.claim_ends = self.claim_ends.max(Some(claim.deadline()));
            let since = self.sent_at;
            self.claim_length = claim.deadline().since(since);
            // The disturbance that shortened a claim precedes it, and may still end it.
            if self.claim_length >= self.min_claim(lag) {
                let rests_on = lag.map_or(since, |_| self.rests_on_answer_of(claim));
                self.disturbance = self
                    .disturbance
                    .filter(|(_, to)| *to >= rests_on)
                    .map(|(from, to)| (from.max(rests_on), to));
                self.full_claim_sent_at = rests_on;
            }
            self.has_released = false;
            self.attempts = (0, since);
        }
        (self.term, self.claim) = (token, claim);
    }

    /// The earliest send time of the answer that `claim` rests on in a session. A pause after that
    /// leaves a gap between answers in which the next claim may end.
    fn rests_on_answer_of(&self, claim: Claim) -> Instant {
        let life = self.timing.drift().min_elapsed(self.timing.lease_duration());
        Instant::since_boot(claim.deadline().elapsed_since_boot().saturating_sub(life))
    }

    /// The candidate is disturbed when its clock reads `local_time`.
    pub(super) fn disturbed(&mut self, local_time: Instant) {
        self.disturbance = Some((self.disturbance.map_or(local_time, |it| it.0), local_time));
    }
}
