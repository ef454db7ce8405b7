//! What the checkers remember of one candidate.

mod budget;

use super::hearsay::Hearsay;
use crate::clock::Moment;
use baton_election::claim::{Claim, FencingToken};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Event, Outcome, Request, Verb, Withdrawal};
use baton_election::timing::Timing;
use std::mem::replace;
use std::time::Duration;

/// One candidate. Instants are by its own clock.
pub(super) struct Known {
    pub(super) timing: Timing,
    pub(super) identity: Option<Identity>,
    /// The claim that it publishes.
    pub(super) claim: Option<Claim>,
    /// The token of that, and of the claim before it until its end is told.
    pub(super) term: Option<FencingToken>,
    /// Until when the longest promise runs, and when the write was applied that it rests on.
    pub(super) promised: Option<(Instant, Option<Moment>)>,
    /// It was told to give leadership up, how, and when.
    pub(super) resigns: Option<(Withdrawal, Instant)>,
    /// It runs and may campaign, from when on, and nothing has been wrong with it since.
    pub(super) campaigns: bool,
    pub(super) campaigns_from: Instant,
    pub(super) well_since: Moment,
    pub(super) faults: u32,
    /// How many faults keep news away, and since when none has.
    pub(super) deafening: u32,
    pub(super) hears_news_since: Moment,
    /// How many faults let the store hear of it only now and then.
    pub(super) limps: u32,
    /// How many faults let it stand still, and when one last began or ended.
    pub(super) stalls: u32,
    pub(super) stalled_at: Instant,
    /// How often it has tried to renew since the renewal that its claim rests on, and when that was sent; the same as it
    /// was when its last term ended; and when it last had something to look into first.
    tries: (u32, Instant),
    pub(super) tried: (u32, Instant),
    pub(super) contradicted_at: Option<Instant>,
    /// What it asked for last, if that failed.
    failed: Option<Verb>,
    /// What it waits for, since when, and when that was applied.
    waits_for: Option<Verb>,
    pub(super) asked_at: Instant,
    /// It held a claim when it asked, so what it asked for was no beginning.
    pub(super) asked_as_leader: bool,
    applied: Option<(Moment, Instant)>,
    /// When the last write was applied that it knows to be.
    pub(super) acknowledged: Option<(Moment, Instant)>,
    /// When it last took something in.
    pub(super) heard_at: Instant,
    /// A release of its own was applied, and nobody has told it otherwise.
    pub(super) released: bool,
    /// From when to when anything was wrong with it or the store since it sent its last renewal that was not cut.
    pub(super) trouble: Option<(Instant, Instant)>,
    /// The same as it was when its last term ended.
    pub(super) undoing: Option<(Instant, Instant)>,
    /// The newest record that it was told of, or the last that a read showed, and who held it; nobody where it is gone since, and when
    /// that was told.
    pub(super) newest: u128,
    /// The version that it was shown last, and the least of one that shows all that it was told of or may have written.
    shown: u128,
    settled_from: u128,
    /// What it replaces by the write that it last asked for, or the newest that it was told of then: what that wrote has a higher version.
    wrote_over: Option<u128>,
    /// When it last asked, was answered, or saw its term run out.
    pub(super) looked_at: Instant,
    pub(super) follows: Option<Identity>,
    pub(super) told_gone: Option<Moment>,
    /// A read of a lower version was overtaken by news since it last asked; any was where these said that the record is gone.
    stale_below: u128,
    /// When it heard the reply to a read, if it has heard nothing since.
    was_shown: Option<Instant>,
    pub(super) race: Race,
    /// How long its last claim was, from when it was asked for.
    holds_for: Duration,
    /// When it asked for the last of its claims that was as long as in calm: a session cuts one that rests on an old answer.
    pub(super) whole_since: Instant,
    /// When it was last answered.
    pub(super) answered_at: Instant,
    /// Until when it may rest after a request that failed.
    pub(super) rests_until: Instant,
    /// When it began to ask as often as it does, and how often it asked since.
    pub(super) asking: (Instant, u32),
    /// How often strangers have done anything since it began to, or anybody was told to go or to come back.
    pub(super) deeds: u32,
    /// How often since then a write of its own met a conflict though it went over a later version
    /// than the one refused before it, and which version that was.
    pub(super) overtaken: u32,
    refused_over: Option<u128>,
}

/// A write that was to begin a term, as soon as a read had let it, until there are news.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Race {
    None,
    Runs,
    /// It was told so then.
    Lost(Instant),
}

impl Known {
    pub(super) fn new(timing: Timing) -> Self {
        let start = Instant::since_boot(Duration::ZERO);
        Self {
            timing,
            identity: None,
            claim: None,
            term: None,
            promised: None,
            resigns: None,
            campaigns: false,
            campaigns_from: start,
            well_since: Moment::START,
            faults: 0,
            deafening: 0,
            hears_news_since: Moment::START,
            limps: 0,
            stalls: 0,
            stalled_at: start,
            tries: (0, start),
            tried: (0, start),
            contradicted_at: None,
            failed: None,
            waits_for: None,
            asked_at: start,
            asked_as_leader: false,
            applied: None,
            acknowledged: None,
            heard_at: start,
            released: false,
            trouble: None,
            undoing: None,
            newest: 0,
            shown: 0,
            settled_from: 0,
            wrote_over: None,
            looked_at: start,
            follows: None,
            told_gone: None,
            stale_below: 0,
            was_shown: None,
            race: Race::None,
            holds_for: Duration::ZERO,
            whole_since: start,
            answered_at: start,
            rests_until: start,
            asking: (start, 0),
            deeds: 0,
            overtaken: 0,
            refused_over: None,
        }
    }

    /// Another process in its place: what was promised stays promised, and what is wrong stays wrong.
    pub(super) fn restarted(&self, identity: Identity) -> Self {
        let Self {
            promised, faults, deafening, hears_news_since, limps, stalls, stalled_at, ..
        } = *self;
        let kept = Self {
            promised,
            faults,
            deafening,
            hears_news_since,
            limps,
            stalls,
            stalled_at,
            ..Self::new(self.timing)
        };
        Self { identity: Some(identity), ..kept }
    }

    /// It is told to give leadership up when its clock shows `shown`. Who is to stop is not held up by a hook that says so again.
    pub(super) fn resigns_in(&mut self, how: Withdrawal, shown: Instant) {
        let (how, since) = match (self.resigns, how) {
            (Some(earlier @ (Withdrawal::Releasing, _)), Withdrawal::Renewing) => earlier,
            (_, how) => (how, shown),
        };
        (self.resigns, self.campaigns, self.race) = (Some((how, since)), false, Race::None);
    }

    /// Whether it runs, may campaign, and nothing is wrong with it.
    pub(super) fn is_well(&self) -> bool {
        self.campaigns && self.faults == 0
    }

    /// Whether its claim is current when its clock shows `shown`.
    pub(super) fn claims(&self, shown: Instant) -> bool {
        self.claim.is_some_and(|claim| !claim.remaining(shown).is_zero())
    }

    /// Whether it was told that nobody knows what became of its last request, a write, and waits for nothing.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.waits_for.is_none() && self.failed.is_some_and(|verb| verb != Verb::Read)
    }

    /// Whether it may have written what is there, the last that it was shown is older than what it was told of or may have written,
    /// and it does not look, nor has since `ordered`.
    pub(super) fn believes_the_past(&self, ordered: Instant) -> bool {
        let is_old = self.wrote_over.is_some() && self.shown < self.settled_from;
        is_old && self.looked_at < ordered && !self.waits()
    }

    /// When a write of its own was applied of which it has not heard.
    pub(super) fn unheard(&self) -> Option<Moment> {
        self.applied.map(|(applied, _)| applied)
    }

    /// Whether it waits for a reply.
    pub(super) fn waits(&self) -> bool {
        self.waits_for.is_some()
    }

    /// When the write was applied that its claim rests on.
    pub(super) fn applied_at(&self) -> Option<Moment> {
        self.acknowledged.map(|(applied, _)| applied)
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

    /// Its request replaces the version `over`, if any.
    pub(super) fn asks<R: Request>(&mut self, request: &R, over: Option<u128>, sent: Instant) {
        self.waits_for = Some(request.verb());
        (self.asked_at, self.looked_at, self.applied) = (sent, sent, None);
        if request.verb() != Verb::Read {
            self.wrote_over = over.or(Some(self.newest));
        }
        (self.asked_as_leader, self.stale_below) = (self.claims(sent), 0);
        let races = request.verb() != Verb::Read && !request.is_renewal() && self.campaigns;
        self.race = if races && self.was_shown == Some(sent) { Race::Runs } else { Race::None };
        // A session whose connection broke is taken up first, and what broke it took the time of a try.
        let resumes = request.verb() == Verb::Connect;
        let has_failed = resumes && matches!(self.failed.take(), Some(Verb::Read | Verb::List));
        self.tries.0 += u32::from(request.is_renewal() || resumes) + u32::from(has_failed);
        let (since, count) = self.asking;
        let is_same_period = sent.since(since) < self.timing.retry_period();
        self.asking = if is_same_period { (since, count + 1) } else { (sent, 1) };
        self.deeds = if is_same_period { self.deeds } else { 0 };
        self.overtaken = if is_same_period { self.overtaken } else { 0 };
    }

    /// The store did what it asked for.
    pub(super) fn applied(&mut self, now: Moment, shown: Instant, gives_up: bool) {
        self.applied = Some((now, shown));
        self.released |= gives_up;
    }

    pub(super) fn hears<E: Event>(&mut self, event: &E, now: Instant) {
        self.heard_at = now;
        let asked = self.waits_for.take();
        let wrote = asked.is_some_and(|verb| verb != Verb::Read);
        self.was_shown =
            (asked == Some(Verb::Read) && event.outcome() == Outcome::Applied).then_some(now);
        self.stale_below = if wrote { 0 } else { self.stale_below };
        self.failed = asked.filter(|_| event.outcome() == Outcome::Unknown);
        match self.failed {
            None => (self.answered_at, self.looked_at) = (now, now),
            Some(Verb::Read) => {}
            Some(_) => {
                self.settled_from =
                    self.settled_from.max(self.wrote_over.map_or(0, |over| over + 1));
            }
        }
        if event.outcome() == Outcome::Unknown || wrote && self.applied.is_none() {
            self.rests_until = self.asked_at + self.timing.retry_period();
        }
        match event.outcome() {
            Outcome::Applied if wrote => {
                self.acknowledged = self.applied.take().or(self.acknowledged);
            }
            Outcome::Conflict => {
                let before = replace(&mut self.refused_over, self.wrote_over);
                let holds = self.asked_as_leader || self.resigns.is_some();
                self.overtaken += u32::from(holds && before < self.wrote_over);
                (self.released, self.contradicted_at) = (false, Some(now));
                self.race = if self.race == Race::Runs { Race::Lost(now) } else { Race::None };
            }
            Outcome::Applied | Outcome::Unknown => {}
        }
        if wrote && event.outcome() != Outcome::Conflict {
            self.refused_over = None;
        }
    }

    /// It is told of the record, by a notice or by a reply. Notices may be old, also of a record that is gone since.
    pub(super) fn is_told(&mut self, hearsay: Hearsay<'_>, now: Moment, is_notice: bool) {
        if is_notice {
            (self.was_shown, self.race) = (None, Race::None);
        }
        if !is_notice && self.stale_below == u128::MAX {
            return;
        }
        match hearsay {
            Hearsay::Nothing => {}
            Hearsay::Gone => {
                self.follows = None;
                if is_notice {
                    // Also where that is old news, it is looked into before anything is renewed.
                    (self.told_gone, self.contradicted_at) = (Some(now), Some(self.heard_at));
                    self.stale_below = u128::MAX;
                }
            }
            Hearsay::Held(version, holder) => {
                // A read that news overtook is asked again.
                let counts = !is_notice && version >= self.stale_below;
                self.shown = if counts { version } else { self.shown.max(version) };
                self.settled_from = self.settled_from.max(version);
                let is_news = version > self.newest;
                if is_notice && is_news {
                    self.stale_below = self.stale_below.max(version);
                }
                // A read from the past, which nothing overtook, looks like a store that went back: what comes after it is news again.
                if is_news || counts {
                    (self.newest, self.follows) = (version, holder.cloned());
                }
            }
        }
    }

    /// Publishes another claim than before, or none.
    pub(super) fn publishes(&mut self, claim: Option<Claim>, lag: Option<Duration>) {
        let token = claim.map(|claim| claim.token());
        if self.term.is_some() && self.term != token {
            (self.undoing, self.tried) = (self.trouble, self.tries);
        }
        if let Some(claim) = claim {
            let since = self.asked_at;
            self.holds_for = claim.deadline().since(since);
            // What cuts a claim lies before it, and may still be what ends it.
            if self.holds_for >= self.leads_for(lag) {
                let rests_on = lag.map_or(since, |_| self.rests_on_answer_of(claim));
                self.trouble = self
                    .trouble
                    .filter(|(_, to)| *to >= rests_on)
                    .map(|(from, to)| (from.max(rests_on), to));
                self.whole_since = rests_on;
            }
            self.released = false;
            self.tries = (0, since);
        }
        (self.term, self.claim) = (token, claim);
    }

    /// When the answer was asked for, at the earliest, on which `claim` rests in a session. A pause
    /// after that leaves a gap between the answers, and the claim after this one may end in it.
    fn rests_on_answer_of(&self, claim: Claim) -> Instant {
        let life = self.timing.drift().min_elapsed(self.timing.lease_duration());
        Instant::since_boot(claim.deadline().elapsed_since_boot().saturating_sub(life))
    }

    /// Something is wrong when its clock shows `shown`.
    pub(super) fn troubled(&mut self, shown: Instant) {
        let (since, _) = self.trouble.unwrap_or((shown, shown));
        self.trouble = Some((since, shown));
    }
}
