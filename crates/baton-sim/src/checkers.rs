//! The judge: sees all that happens in a world, and says when a property does not hold.
//!
//! Start with [`first_broken`]. Each property is one function of what is known so far and of what happens now, on true time. They share
//! [`Facts`], which are noted after all of them have looked.

mod calm;
mod census;
pub(crate) mod exclusion;
mod facts;
mod harm;
mod hearsay;
mod known;
mod progress;
mod servers;
mod terms;

use crate::clock::Moment;
use crate::scenario::Setup;
use crate::trace::{Happening, Observer, Scene};
pub(crate) use census::Census;
use facts::Facts;
pub(crate) use hearsay::Legible;
use std::fmt;

/// A property that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    /// Its name, as in [`first_broken`].
    pub(crate) property: &'static str,
    /// When.
    pub(crate) at: Moment,
    /// What was seen.
    pub(crate) what: String,
}

impl Violation {
    /// Whether two lead at once, or could.
    pub(crate) fn is_of_exclusion(&self) -> bool {
        EXCLUSION.contains(&self.property)
    }
}

/// Where one of these does not hold, two may lead at once.
const EXCLUSION: [&str; 3] =
    ["exclusion of claims", "exclusion of promises", "the record names whoever holds a claim"];

/// What must hold, by name: the first that does not, and what was seen. Most look at one kind of happening, which is plain to the
/// compiler where they are called by name, and not where a table is gone through.
fn first_broken<E: Legible>(
    facts: &Facts,
    scene: &Scene<'_>,
    happening: &Happening<'_, E>,
) -> Option<(&'static str, String)> {
    macro_rules! first_of {
        ($($name:expr, $property:path;)*) => {
            None$(.or_else(|| $property(facts, scene, happening).map(|what| ($name, what))))*
        };
    }
    first_of! {
        EXCLUSION[0], exclusion::of_claims;
        EXCLUSION[1], exclusion::of_promises;
        EXCLUSION[2], exclusion::record_names_claimant;
        "promises are backed by claims", exclusion::promises_are_backed;
        "leaders say so", exclusion::leaders_say_so;
        "claims are backed by writes", exclusion::claims_are_backed;
        "tokens grow from term to term", terms::tokens_grow;
        "a term keeps its token", terms::tokens_stay;
        "terms end where the store goes back", terms::tokens_are_known;
        "terms begin when they may", terms::begin_when_they_may;
        "there is a leader in time", progress::in_time;
        "nobody waits for himself", progress::on_own_record;
        "a withdrawn candidate holds nothing back", progress::after_withdrawal;
        "a release is taken up at once", progress::after_release;
        "a clean stop releases", progress::stops_release;
        "who leaves looks what became of its write", progress::looks_before_it_leaves;
        "who leaves believes no past", progress::leaves_nothing_unread;
        "who leaves holds on until told to stop", progress::leaving_holds;
        "nobody asks without pause", progress::in_peace;
        "losers wait for the watch", progress::losers_wait;
        "nobody unhears what it was told", terms::nobody_unhears;
        "nothing changes without a fault", calm::no_transition_without_fault;
        "a short outage costs nobody leadership", calm::no_loss_in_short_outage;
        "a claim is renewed in three tries", calm::three_tries;
        "a deletion is noticed at once", calm::deletion_is_noticed;
    }
}

/// Looks at one world.
pub(crate) struct Judge {
    facts: Facts,
    verdict: Option<Violation>,
}

impl Judge {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self { facts: Facts::new(setup), verdict: None }
    }

    /// The first property that did not hold.
    pub(crate) fn verdict(&self) -> Option<&Violation> {
        self.verdict.as_ref()
    }

    /// How much there was to judge.
    pub(crate) fn census(&self) -> Census {
        self.facts.census()
    }
}

impl<E: Legible> Observer<E> for Judge {
    fn see(&mut self, scene: &Scene<'_>, happening: &Happening<'_, E>) {
        if self.verdict.is_some() {
            return;
        }
        self.facts.follow_clocks(scene);
        if let Some((property, what)) = first_broken(&self.facts, scene, happening) {
            self.verdict = Some(Violation { property, at: scene.now, what });
            return;
        }
        self.facts.note(scene, happening);
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?}: {} does not hold: {}", self.at, self.property, self.what)
    }
}
