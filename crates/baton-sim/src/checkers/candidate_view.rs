//! FaultKind the checkers remember of one candidate.

mod budget;

use super::inspect::ReportedRecord;
use crate::clock::Moment;
use baton_election::claim::{Claim, FencingToken};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Event, Outcome, Request, Verb, Withdrawal};
use baton_election::timing::Timing;
use std::mem::replace;
use std::time::Duration;

/// One candidate. Instants are by its own clock.
pub(super) struct CandidateView {
    pub(super) timing: Timing,
    pub(super) identity: Option<Identity>,
    /// The claim that it publishes.
    pub(super) claim: Option<Claim>,
    /// The token of that, and of the claim before it until its end is told.
    pub(super) term: Option<FencingToken>,
    /// Until when the longest promise runs, and when the write was applied that it rests on.
    pub(super) promised: Option<(Instant, Option<Moment>)>,
    /// It was told to give leadership up, how, and when.
    pub(super) withdrawal: Option<(Withdrawal, Instant)>,
    /// It runs and may campaign, from when on, and nothing has been wrong with it since.
    pub(super) is_campaigning: bool,
    pub(super) campaigns_from: Instant,
    pub(super) fault_free_since: Moment,
    pub(super) faults: u32,
    /// How many faults keep news away, and since when none has.
    pub(super) watch_faults: u32,
    pub(super) watch_reliable_since: Moment,
    /// How many faults let the store hear of it only now and then.
    pub(super) intermittent_faults: u32,
    /// How many faults let it stand still, and when one last began or ended.
    pub(super) pauses: u32,
    pub(super) paused_at: Instant,
    /// How often it has attempts_at_loss to renew since the renewal that its claim rests on, and when that was sent; the same as it
    /// was when its last term ended; and when it last had something to look into first.
    attempts: (u32, Instant),
    pub(super) attempts_at_loss: (u32, Instant),
    pub(super) contradicted_at: Option<Instant>,
    /// FaultKind it asked for last, if that failed.
    failed: Option<Verb>,
    /// FaultKind it waits for, since when, and when that was applied.
    pending: Option<Verb>,
    pub(super) sent_at: Instant,
    /// It held a claim when it asked, so what it asked for was no beginning.
    pub(super) led_when_sent: bool,
    applied_write: Option<(Moment, Instant)>,
    /// When the last write was applied that it knows to be.
    pub(super) acknowledged_write: Option<(Moment, Instant)>,
    /// When it last took something in.
    pub(super) last_input_at: Instant,
    /// A release of its own was applied, and nobody has told it otherwise.
    pub(super) has_released: bool,
    /// From when to when anything was wrong with it or the store since it sent its last renewal that was not cut.
    pub(super) disturbance: Option<(Instant, Instant)>,
    /// The same as it was when its last term ended.
    pub(super) disturbance_at_loss: Option<(Instant, Instant)>,
    /// The newest_version record that it was told of, or the last that a read showed, and who held it; nobody where it is gone since, and when
    /// that was told.
    pub(super) newest_version: u128,
    /// The version that it was shown last, and the least of one that shows all that it was told of or may have written.
    shown_version: u128,
    required_version: u128,
    /// FaultKind it replaces by the write that it last asked for, or the newest_version that it was told of then: what that wrote has a higher version.
    base_version: Option<u128>,
    /// When it last asked, was answered, or saw its term run out.
    pub(super) last_checked_at: Instant,
    pub(super) believed_holder: Option<Identity>,
    pub(super) deletion_seen_at: Option<Moment>,
    /// A read of a lower version was overtaken_writes by news since it last asked; any was where these said that the record is gone.
    stale_below: u128,
    /// When it heard the reply to a read, if it has heard nothing since.
    fresh_read_at: Option<Instant>,
    pub(super) race: Race,
    /// How long its last claim was, from when it was asked for.
    claim_length: Duration,
    /// When it asked for the last of its claims that was as long as in calm: a session cuts one that rests on an old answer.
    pub(super) full_claim_sent_at: Instant,
    /// When it was last answered.
    pub(super) answered_at: Instant,
    /// Until when it may rest after a request that failed.
    pub(super) backoff_until: Instant,
    /// When it began to ask as often as it does, and how often it asked since.
    pub(super) request_window: (Instant, u32),
    /// How often strangers have done anything since it began to, or anybody was told to go or to come back.
    pub(super) extra_requests: u32,
    /// How often since then a write of its own met a conflict though it went base a later version
    /// than the one refused before it, and which version that was.
    pub(super) overtaken_writes: u32,
    refused_base: Option<u128>,
}

/// A write that was to begin a term, as soon as a read had let it, until there are news.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Race {
    None,
    Running,
    /// It was told so then.
    Lost(Instant),
}

impl CandidateView {
    pub(super) fn new(timing: Timing) -> Self {
        let start = Instant::since_boot(Duration::ZERO);
        Self {
            timing,
            identity: None,
            claim: None,
            term: None,
            promised: None,
            withdrawal: None,
            is_campaigning: false,
            campaigns_from: start,
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
            led_when_sent: false,
            applied_write: None,
            acknowledged_write: None,
            last_input_at: start,
            has_released: false,
            disturbance: None,
            disturbance_at_loss: None,
            newest_version: 0,
            shown_version: 0,
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

    /// Another process in its place: what was promised stays promised, and what is wrong stays wrong.
    pub(super) fn restarted(&self, identity: Identity) -> Self {
        let Self {
            promised,
            faults,
            watch_faults,
            watch_reliable_since,
            intermittent_faults,
            pauses,
            paused_at,
            ..
        } = *self;
        let kept = Self {
            promised,
            faults,
            watch_faults,
            watch_reliable_since,
            intermittent_faults,
            pauses,
            paused_at,
            ..Self::new(self.timing)
        };
        Self { identity: Some(identity), ..kept }
    }

    /// It is told to give leadership up when its clock shows `shown`. Who is to stop is not held up by a hook that says so again.
    pub(super) fn withdraw(&mut self, how: Withdrawal, shown: Instant) {
        let (how, since) = match (self.withdrawal, how) {
            (Some(earlier @ (Withdrawal::Releasing, _)), Withdrawal::Renewing) => earlier,
            (_, how) => (how, shown),
        };
        (self.withdrawal, self.is_campaigning, self.race) = (Some((how, since)), false, Race::None);
    }

    /// Whether it runs, may campaign, and nothing is wrong with it.
    pub(super) fn is_fault_free(&self) -> bool {
        self.is_campaigning && self.faults == 0
    }

    /// Whether its claim is current when its clock shows `shown`.
    pub(super) fn claims(&self, shown: Instant) -> bool {
        self.claim.is_some_and(|claim| !claim.remaining(shown).is_zero())
    }

    /// Whether it was told that nobody knows what became of its last request, a write, and waits for nothing.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.pending.is_none() && self.failed.is_some_and(|verb| verb != Verb::Read)
    }

    /// Whether it may have written what is there, the last that it was shown is older than what it was told of or may have written,
    /// and it does not look, nor has since `ordered`.
    pub(super) fn trusts_stale_read(&self, ordered: Instant) -> bool {
        let is_old = self.base_version.is_some() && self.shown_version < self.required_version;
        is_old && self.last_checked_at < ordered && !self.has_pending_request()
    }

    /// When a write of its own was applied of which it has not heard.
    pub(super) fn unacknowledged(&self) -> Option<Moment> {
        self.applied_write.map(|(applied, _)| applied)
    }

    /// Whether it waits for a reply.
    pub(super) fn has_pending_request(&self) -> bool {
        self.pending.is_some()
    }

    /// When the write was applied that its claim rests on.
    pub(super) fn applied_at(&self) -> Option<Moment> {
        self.acknowledged_write.map(|(applied, _)| applied)
    }

    /// Whether its claim rests on a write from before `then`, if that ever was.
    pub(super) fn rests_on(&self, then: Option<Moment>) -> bool {
        self.applied_at().is_some_and(|applied| Some(applied) <= then)
    }

    /// Whether its application may act when its clock shows `shown`.
    pub(super) fn promises(&self, shown: Instant) -> bool {
        self.promised.is_some_and(|(until, _)| shown < until)
    }

    pub(super) fn promise(&mut self, until: Instant) {
        if self.promised.is_none_or(|(other, _)| other < until) {
            self.promised = Some((until, self.applied_at()));
        }
    }

    /// Its request replaces the version `base`, if any.
    pub(super) fn send_request<R: Request>(
        &mut self,
        request: &R,
        base: Option<u128>,
        sent: Instant,
    ) {
        self.pending = Some(request.verb());
        (self.sent_at, self.last_checked_at, self.applied_write) = (sent, sent, None);
        if request.verb() != Verb::Read {
            self.base_version = base.or(Some(self.newest_version));
        }
        (self.led_when_sent, self.stale_below) = (self.claims(sent), 0);
        let races = request.verb() != Verb::Read && !request.is_renewal() && self.is_campaigning;
        self.race =
            if races && self.fresh_read_at == Some(sent) { Race::Running } else { Race::None };
        // A session whose connection broke is taken up first, and what broke it took the time of a try.
        let resumes = request.verb() == Verb::Connect;
        let has_failed = resumes && matches!(self.failed.take(), Some(Verb::Read | Verb::List));
        self.attempts.0 += u32::from(request.is_renewal() || resumes) + u32::from(has_failed);
        let (since, count) = self.request_window;
        let is_same_period = sent.since(since) < self.timing.retry_period();
        self.request_window = if is_same_period { (since, count + 1) } else { (sent, 1) };
        self.extra_requests = if is_same_period { self.extra_requests } else { 0 };
        self.overtaken_writes = if is_same_period { self.overtaken_writes } else { 0 };
    }

    /// The store did what it asked for.
    pub(super) fn applied(&mut self, now: Moment, shown: Instant, is_release: bool) {
        self.applied_write = Some((now, shown));
        self.has_released |= is_release;
    }

    pub(super) fn receive_reply<E: Event>(&mut self, event: &E, now: Instant) {
        self.last_input_at = now;
        let asked = self.pending.take();
        let wrote = asked.is_some_and(|verb| verb != Verb::Read);
        self.fresh_read_at =
            (asked == Some(Verb::Read) && event.outcome() == Outcome::Applied).then_some(now);
        self.stale_below = if wrote { 0 } else { self.stale_below };
        self.failed = asked.filter(|_| event.outcome() == Outcome::Unknown);
        match self.failed {
            None => (self.answered_at, self.last_checked_at) = (now, now),
            Some(Verb::Read) => {}
            Some(_) => {
                self.required_version =
                    self.required_version.max(self.base_version.map_or(0, |base| base + 1));
            }
        }
        if event.outcome() == Outcome::Unknown || wrote && self.applied_write.is_none() {
            self.backoff_until = self.sent_at + self.timing.retry_period();
        }
        match event.outcome() {
            Outcome::Applied if wrote => {
                self.acknowledged_write = self.applied_write.take().or(self.acknowledged_write);
            }
            Outcome::Conflict => {
                let before = replace(&mut self.refused_base, self.base_version);
                let holds = self.led_when_sent || self.withdrawal.is_some();
                self.overtaken_writes += u32::from(holds && before < self.base_version);
                (self.has_released, self.contradicted_at) = (false, Some(now));
                self.race = if self.race == Race::Running { Race::Lost(now) } else { Race::None };
            }
            Outcome::Applied | Outcome::Unknown => {}
        }
        if wrote && event.outcome() != Outcome::Conflict {
            self.refused_base = None;
        }
    }

    /// It is told of the record, by a notice or by a reply. Notices may be old, also of a record that is gone since.
    pub(super) fn learn(
        &mut self,
        reported_record: ReportedRecord<'_>,
        now: Moment,
        is_watch_event: bool,
    ) {
        if is_watch_event {
            (self.fresh_read_at, self.race) = (None, Race::None);
        }
        if !is_watch_event && self.stale_below == u128::MAX {
            return;
        }
        match reported_record {
            ReportedRecord::Unspecified => {}
            ReportedRecord::Absent => {
                self.believed_holder = None;
                if is_watch_event {
                    // Also where that is old news, it is looked into before anything is renewed.
                    (self.deletion_seen_at, self.contradicted_at) =
                        (Some(now), Some(self.last_input_at));
                    self.stale_below = u128::MAX;
                }
            }
            ReportedRecord::Present(version, holder) => {
                // A read that news overtook is asked again.
                let counts = !is_watch_event && version >= self.stale_below;
                self.shown_version = if counts { version } else { self.shown_version.max(version) };
                self.required_version = self.required_version.max(version);
                let is_news = version > self.newest_version;
                if is_watch_event && is_news {
                    self.stale_below = self.stale_below.max(version);
                }
                // A read from the past, which nothing overtook, looks like a store that went back: what comes after it is news again.
                if is_news || counts {
                    (self.newest_version, self.believed_holder) = (version, holder.cloned());
                }
            }
        }
    }

    /// Publishes another claim than before, or none.
    pub(super) fn publish_claim(&mut self, claim: Option<Claim>, lag: Option<Duration>) {
        let token = claim.map(|claim| claim.token());
        if self.term.is_some() && self.term != token {
            (self.disturbance_at_loss, self.attempts_at_loss) = (self.disturbance, self.attempts);
        }
        if let Some(claim) = claim {
            let since = self.sent_at;
            self.claim_length = claim.deadline().since(since);
            // FaultKind cuts a claim lies before it, and may still be what fault_ended it.
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

    /// When the answer was asked for, at the earliest, on which `claim` rests in a session. A pause
    /// after that leaves a gap between the answers, and the claim after this one may end in it.
    fn rests_on_answer_of(&self, claim: Claim) -> Instant {
        let life = self.timing.drift().least_of_ours(self.timing.lease_duration());
        Instant::since_boot(claim.deadline().elapsed_since_boot().saturating_sub(life))
    }

    /// Something is wrong when its clock shows `shown`.
    pub(super) fn disturbed(&mut self, shown: Instant) {
        let (since, _) = self.disturbance.unwrap_or((shown, shown));
        self.disturbance = Some((since, shown));
    }
}
