//! What a fault means for what is asked of whom it hits, and of everybody.
//!
//! Start with [`Facts::begins`].

use super::facts::Facts;
use crate::scenario::{Deed, Fault, Harm, Outage, Trouble, What};
use crate::trace::Scene;
use std::time::Duration;

impl Facts {
    pub(super) fn begins(&mut self, scene: &Scene<'_>, fault: &Fault, hit: Option<usize>) {
        let now = scene.now;
        self.census = self.census();
        self.census.faults += 1;
        if let What::Stranger(deed) = fault.what
            && !matches!(deed, Deed::Litter { .. })
        {
            self.last_deed = now;
            self.gives_reason_to_ask();
            // What he did is looked into before anything is renewed.
            for (number, known) in self.candidates.iter_mut().enumerate() {
                known.contradicted_at = Some(scene.shown_to(number));
            }
        }
        match fault.what {
            What::Candidate(_, harm) => {
                let number = hit.expect("what harms a candidate names it");
                if is_felt(harm) {
                    self.falls_silent(number);
                }
                let known = &mut self.candidates[number];
                if !is_of_news(harm) {
                    known.well_since = now;
                }
                known.hears_news_since = now;
                known.deafening += u32::from(fault.lasts > Duration::ZERO && is_of_news(harm));
                known.limps += u32::from(fault.lasts > Duration::ZERO && is_limp(harm));
                if fault.lasts > Duration::ZERO && is_stall(harm) {
                    known.stalls += 1;
                    known.stalled_at = scene.shown_to(number);
                }
                if fault.lasts > Duration::ZERO && is_felt(harm) {
                    known.faults += 1;
                    known.troubled(scene.shown_to(number));
                }
                self.stirred(now);
            }
            What::Store(outage) => {
                if let Outage::Restored(_) = outage {
                    (self.meddled, self.set_back, self.struck) =
                        (Some((now, false)), Some(now), Some(now));
                    // What was deleted may be there again.
                    (self.greatest, self.deleted) = (None, None);
                }
                self.store_well_since = now;
                self.store_faults += u32::from(fault.lasts > Duration::ZERO);
                if let Outage::Stale | Outage::Restored(_) = outage {
                    self.misled_until = self.misled_until.max(Some(fault.end()));
                }
                self.all_troubled(scene);
                self.stirred(now);
            }
            What::Server(..) => {
                (self.store_well_since, self.struck) = (now, Some(now));
                self.store_faults += u32::from(fault.lasts > Duration::ZERO);
                self.all_troubled(scene);
                self.stirred(now);
            }
            What::Stranger(Deed::Label | Deed::Rumour) => self.released = None,
            // Whoever lists it passes it over, and nobody else hears of it.
            What::Stranger(Deed::Litter { .. }) => {}
            What::Stranger(deed @ (Deed::Delete | Deed::Remake)) => {
                let was_quiet = self.is_well() && now.since(self.quiet_since) > self.settles_in();
                self.meddled = Some((now, was_quiet));
                self.deleted = if deed == Deed::Delete { Some(now) } else { self.deleted };
                self.store_well_since = now;
            }
            What::Stranger(Deed::Wipe | Deed::Seize(_)) => {
                self.meddled = Some((now, false));
                self.store_well_since = now;
                self.stirred(now);
            }
        }
    }

    pub(super) fn ends(&mut self, scene: &Scene<'_>, fault: &Fault, hit: Option<usize>) {
        let now = scene.now;
        match fault.what {
            What::Candidate(_, harm) => {
                let number = hit.expect("what harms a candidate names it");
                let known = &mut self.candidates[number];
                if !is_of_news(harm) {
                    known.well_since = known.well_since.max(now);
                }
                known.hears_news_since = now;
                known.deafening -= u32::from(is_of_news(harm));
                known.limps -= u32::from(is_limp(harm));
                if is_stall(harm) {
                    known.stalls -= 1;
                    known.stalled_at = scene.shown_to(number);
                    // News that waited meanwhile are taken in now.
                    known.contradicted_at = Some(known.stalled_at);
                }
                if is_felt(harm) {
                    known.faults -= 1;
                    known.troubled(scene.shown_to(number));
                }
            }
            What::Store(_) | What::Server(..) => {
                (self.store_well_since, self.struck) = (now, Some(now));
                self.store_faults -= 1;
                self.all_troubled(scene);
            }
            What::Stranger(_) => {}
        }
        self.stirred(now);
    }

    pub(super) fn gives_reason_to_ask(&mut self) {
        self.candidates.iter_mut().for_each(|known| known.deeds += 1);
    }

    fn all_troubled(&mut self, scene: &Scene<'_>) {
        for (number, known) in self.candidates.iter_mut().enumerate() {
            known.troubled(scene.shown_to(number));
        }
    }
}

/// Whether a fault keeps a candidate from the store while it lasts.
fn is_felt(harm: Harm) -> bool {
    match harm {
        Harm::Pause | Harm::Freeze | Harm::Starve(_) | Harm::Link(_) => true,
        // A candidate that hears no news asks; what the others do is told by what the process does.
        Harm::Deaf
        | Harm::Lag(_)
        | Harm::Kill
        | Harm::Stop
        | Harm::Leave
        | Harm::Unasked
        | Harm::Bend(_) => false,
    }
}

/// Whether the news suffer, and nothing else.
fn is_of_news(harm: Harm) -> bool {
    matches!(harm, Harm::Deaf | Harm::Lag(_))
}

/// Whether the store still hears of the process now and then.
fn is_limp(harm: Harm) -> bool {
    matches!(harm, Harm::Starve(_) | Harm::Link(_)) && harm != Harm::Link(Trouble::CUT)
}

/// Whether the process stands still.
fn is_stall(harm: Harm) -> bool {
    matches!(harm, Harm::Pause | Harm::Freeze | Harm::Starve(_))
}
