//! What a judge remembers of a world.
//!
//! Kept in the terms of the properties: who holds what, since when nothing has troubled whom, what was written when.

use super::census::Census;
use super::hearsay::Legible;
use super::known::Known;
use crate::clock::{Moment, Rate};
use crate::scenario::{Setup, StoreKind};
use crate::trace::{Departure, Happening, Scene};
use baton_election::claim::{Claim, FencingToken};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use baton_election::machine::{Event, Outcome, Request, Transition, Verb};
use std::time::Duration;

/// The whole of it.
pub(super) struct Facts {
    pub(super) candidates: Vec<Known>,
    /// The most that a message takes while nothing is wrong.
    pub(super) latency: Duration,
    /// How fast an ensemble was said to tick, and how many ticks its servers wait for each other; nothing for a record.
    pub(super) tick: Duration,
    pub(super) sync_limit: u32,
    /// How fast its slowest clock runs.
    pub(super) slowest: Rate,
    /// Whether leaders are told news.
    pub(super) tells_leaders: bool,
    /// What is wrong with the store, and since when nothing is.
    pub(super) store_faults: u32,
    pub(super) store_well_since: Moment,
    /// When a fault of a server last began or ended.
    pub(super) struck: Option<Moment>,
    /// Since when nothing has happened that could make a transition.
    pub(super) quiet_since: Moment,
    /// The last moment at which anybody held a claim.
    pub(super) last_led: Moment,
    /// Who is in the record, since when, and the longest that any record made others wait.
    pub(super) holder: Option<Identity>,
    pub(super) held_since: Moment,
    /// Since when he has forgotten the session that keeps him there, and has begun another: the ensemble alone can end that.
    pub(super) orphaned: Option<Moment>,
    /// When anybody last did that.
    pub(super) last_orphaned: Moment,
    pub(super) protects: Duration,
    /// The largest token of a term that has begun, and whose it is.
    pub(super) greatest: Option<(FencingToken, usize)>,
    /// When a stranger last deleted it.
    pub(super) deleted: Option<Moment>,
    /// The last that a stranger did to the record, and whether everybody had long been well then.
    pub(super) meddled: Option<(Moment, bool)>,
    /// The last time that a stranger did anything.
    pub(super) last_deed: Moment,
    /// When the store was last set back: what rests on a write from before is worth little from then on.
    pub(super) set_back: Option<Moment>,
    /// Until when reads come from the past, or came, or the store did.
    pub(super) misled_until: Option<Moment>,
    /// A release that nobody has taken up yet.
    pub(super) released: Option<Moment>,
    /// The next change of holder is one that was given up.
    gives_up: bool,
    /// When something was last seen.
    now: Moment,
    pub(super) census: Census,
}

impl Facts {
    pub(super) fn new(setup: &Setup) -> Self {
        let ensemble = match &setup.store {
            StoreKind::Ensemble(kind) => Some(kind),
            StoreKind::Record(_) => None,
        };
        Self {
            candidates: setup
                .candidates
                .iter()
                .map(|candidate| Known::new(candidate.timing))
                .collect(),
            latency: setup.latency.1,
            tick: ensemble.map_or(Duration::ZERO, |kind| kind.told_tick),
            sync_limit: ensemble.map_or(0, |kind| kind.sync_limit),
            slowest: ensemble
                .and_then(|kind| kind.rates.iter().copied().min())
                .unwrap_or(Rate::TRUE),
            tells_leaders: setup.tells_leaders,
            store_faults: 0,
            store_well_since: Moment::START,
            struck: None,
            quiet_since: Moment::START,
            last_led: Moment::START,
            holder: None,
            held_since: Moment::START,
            orphaned: None,
            last_orphaned: Moment::START,
            protects: Duration::ZERO,
            greatest: None,
            deleted: None,
            meddled: None,
            last_deed: Moment::START,
            set_back: None,
            misled_until: None,
            released: None,
            gives_up: false,
            now: Moment::START,
            census: Census::default(),
        }
    }

    /// Whether nothing is wrong now.
    pub(super) fn is_well(&self) -> bool {
        self.store_faults == 0 && self.candidates.iter().all(|known| known.faults == 0)
    }

    /// Since when `number` and the store have been well, if they are.
    pub(super) fn well_since(&self, number: usize) -> Option<Moment> {
        let known = &self.candidates[number];
        let since = known.well_since.max(self.store_well_since);
        Some(since).filter(|_| known.is_well() && self.store_faults == 0)
    }

    /// Whether claims or promises may overlap, because one rests on a write from before a stranger came between.
    pub(super) fn is_excused(&self, one: Option<Moment>, other: Option<Moment>) -> bool {
        let Some((meddled, was_quiet)) = self.meddled else { return false };
        let is_from_before =
            |applied: Option<Moment>| applied.is_none_or(|applied| applied <= meddled);
        // A record that is gone is waited out; a znode that is gone lets the next in the line lead at once.
        let is_quiet = self.tick.is_zero() && was_quiet && self.quiet_since < meddled;
        !is_quiet && (is_from_before(one) || is_from_before(other))
    }

    /// Whether what takes the leadership of `known` may be a stranger's deed, or a read from the past. Neither undoes a claim that
    /// rests on a write of later: over what a stranger left behind it was a term of its own, and no read from before it counts.
    pub(super) fn is_undone_from_outside(&self, known: &Known) -> bool {
        known.rests_on(self.meddled.map(|(at, _)| at)) || known.rests_on(self.misled_until)
    }

    /// Whether what changes now is a stranger's doing.
    pub(super) fn is_meddled(&self, now: Moment) -> bool {
        self.meddled.is_some_and(|(at, _)| at == now)
    }

    /// Claims end while nothing happens: brings what follows from that up to now.
    pub(super) fn follow_clocks(&mut self, scene: &Scene<'_>) {
        for (known, clock) in self.candidates.iter().zip(scene.clocks) {
            if let Some(claim) = known.claim {
                let holds = !claim.remaining(clock.read(scene.now)).is_zero();
                let led = if holds { scene.now } else { clock.when(claim.deadline()) };
                self.last_led = self.last_led.max(led);
            }
        }
    }

    /// Whether anybody holds a claim, or held one until now.
    pub(super) fn is_led(&self, now: Moment) -> bool {
        self.last_led == now
    }

    /// Takes in what happens.
    pub(super) fn note<E: Legible>(&mut self, scene: &Scene<'_>, happening: &Happening<'_, E>) {
        let now = scene.now;
        self.now = now;
        match happening {
            Happening::Begins(fault, hit) => self.begins(scene, fault, *hit),
            Happening::Ends(fault, hit) => self.ends(scene, fault, *hit),
            Happening::Felt(Some(number)) => {
                self.candidates[*number].well_since = now;
                self.stirred(now);
            }
            Happening::Deafened(number) => {
                let known = &mut self.candidates[*number];
                (known.hears_news_since, known.contradicted_at) =
                    (now, Some(scene.shown_to(*number)));
                self.stirred(now);
            }
            Happening::Felt(None) => {
                self.store_well_since = now;
                self.stirred(now);
            }
            Happening::Started(number, identity, from) => {
                self.started(scene, *number, identity, *from);
            }
            Happening::Ended(number, _) => self.ended(*number, now),
            Happening::Resigns(number, how) => {
                self.gives_reason_to_ask();
                self.candidates[*number].resigns_in(*how, scene.shown_to(*number));
                self.stirred(now);
            }
            Happening::Campaigns(number) => {
                self.gives_reason_to_ask();
                let known = &mut self.candidates[*number];
                (known.resigns, known.campaigns, known.well_since) = (None, true, now);
                self.stirred(now);
            }
            Happening::Asks(number, request, sent) => {
                self.candidates[*number].asks(*request, E::replaces(request), *sent);
            }
            Happening::Performed(number, request, reply) => {
                self.performed(scene, *number, *request, *reply);
            }
            Happening::Holder(holder, protects) => self.changes_hands(*holder, *protects, now),
            Happening::Orphaned => (self.orphaned, self.last_orphaned) = (Some(now), now),
            Happening::Goes(Departure::GivenUp) => self.gives_up = true,
            Happening::Goes(Departure::Deleted) => {
                // What happens between the deed and its agreement may keep anybody from hearing of it.
                let was_quiet =
                    self.meddled.is_some_and(|(at, was_quiet)| was_quiet && self.quiet_since <= at);
                self.meddled = Some((now, was_quiet));
                self.stirred(now);
            }
            Happening::Hears(number, event, at) => {
                self.hears(*number, *event, *at);
                self.candidates[*number].is_told(E::hearsay(event), now, false);
            }
            Happening::Notices(number, event, at) => {
                let known = &mut self.candidates[*number];
                known.heard_at = *at;
                known.is_told(E::hearsay(event), now, true);
            }
            // A term that runs out ends whoever was about to stop: nobody is there to look.
            Happening::Tells(number, Transition::Lost { .. }) => {
                self.candidates[*number].looked_at = scene.shown_to(*number);
            }
            Happening::Tells(..) => {}
            Happening::Claims(number, claim) => self.claims(scene, *number, *claim),
            Happening::Answered(number, answer, asked) => {
                if let Status::Leading(promise) = answer.status {
                    self.census.promises += 1;
                    self.candidates[*number].promise(*asked + promise.valid_for);
                }
            }
        }
    }

    /// How much there was to judge; a calm counts when it is over.
    pub(super) fn census(&self) -> Census {
        let is_calm = self.is_well() && self.now.since(self.quiet_since) > self.settles_in();
        let mut census = self.census;
        census.calms[usize::from(!self.tick.is_zero())] += u64::from(is_calm);
        census
    }

    /// Something happened that may make a transition.
    pub(super) fn stirred(&mut self, now: Moment) {
        self.quiet_since = self.quiet_since.max(now);
    }

    fn started(&mut self, scene: &Scene<'_>, number: usize, identity: &Identity, from: Instant) {
        let began = scene.clocks[number].when(from).max(scene.now);
        let known = &mut self.candidates[number];
        *known = known.restarted(identity.clone());
        (known.campaigns, known.campaigns_from, known.well_since) = (true, from, began);
        if known.faults + self.store_faults > 0 {
            known.troubled(scene.shown_to(number));
        }
        self.stirred(began);
    }

    /// Whether this candidate may know of larger numbers than a store has that was set back: since that it has not been well for as
    /// long as it takes to be shown a smaller one.
    pub(super) fn may_know_larger_numbers(&self, number: usize, now: Moment) -> bool {
        let timing = self.candidates[number].timing;
        let long = (timing.lease_duration().max(self.protects) + timing.retry_period() * 2) * 2;
        let is_long_well =
            |then| self.well_since(number).is_some_and(|since| now.since(since.max(then)) > long);
        self.set_back.is_some_and(|then| !is_long_well(then))
    }

    fn ended(&mut self, number: usize, now: Moment) {
        self.falls_silent(number);
        let known = &mut self.candidates[number];
        (known.claim, known.term, known.campaigns, known.resigns) = (None, None, false, None);
        self.stirred(now);
    }

    /// It may never make use of what it wrote and has not heard of, and others have to wait for that.
    pub(super) fn falls_silent(&mut self, number: usize) {
        let wrote = self.candidates[number].unheard().unwrap_or(Moment::START);
        self.store_well_since = self.store_well_since.max(wrote);
    }

    fn changes_hands(&mut self, holder: Option<&Identity>, protects: Duration, now: Moment) {
        self.protects = self.protects.max(protects);
        let by_stranger = self.is_meddled(now);
        self.released = (std::mem::take(&mut self.gives_up) && !by_stranger).then_some(now);
        self.census.releases += u64::from(self.released.is_some());
        self.orphaned = None;
        if self.holder.as_ref() != holder {
            (self.holder, self.held_since) = (holder.cloned(), now);
        }
    }

    fn performed<R: Request, E: Event>(
        &mut self,
        scene: &Scene<'_>,
        number: usize,
        request: &R,
        reply: &E,
    ) {
        let proves = request.is_renewal() || self.tick.is_zero() && request.verb() != Verb::Read;
        if !proves || reply.outcome() != Outcome::Applied {
            return;
        }
        // What was changed is told just before.
        let gives_up = self.released == Some(scene.now);
        let known = &mut self.candidates[number];
        known.applied(scene.now, scene.shown_to(number), gives_up);
        if known.faults > 0 {
            // It may never make use of what others have to wait for.
            self.store_well_since = scene.now;
        }
    }

    fn hears<E: Event>(&mut self, number: usize, event: &E, at: Instant) {
        self.candidates[number].hears(event, at);
        match event.outcome() {
            Outcome::Applied => {}
            Outcome::Conflict => self.census.conflicts += 1,
            Outcome::Unknown => self.census.unknowns += 1,
        }
    }

    fn claims(&mut self, scene: &Scene<'_>, number: usize, claim: Option<Claim>) {
        let (shown, outages, lag, set_back) =
            (scene.shown_to(number), self.store_faults, self.lag(), self.set_back);
        let known = &mut self.candidates[number];
        if known.faults + outages > 0 {
            known.troubled(shown);
        }
        if let Some(claim) = claim {
            self.released = None;
            self.last_led = scene.now;
            if known.term != Some(claim.token())
                && !claim.remaining(shown).is_zero()
                && !known.rests_on(set_back)
            {
                self.census.terms += 1;
                self.greatest = Some((claim.token(), number));
            }
        } else if known.resigns.is_none() {
            self.census.losses += 1;
        }
        known.publishes(claim, lag);
    }
}
