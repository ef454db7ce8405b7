//! How each fault begins and ends.
//!
//! Pure. Start with [`World::begin`].

use crate::clock::{Moment, Rate};
use crate::process::{Input, Order};
use crate::scenario::{Deed, Fault, Harm, Outage, What, Whom};
use crate::store::Store;
use crate::trace::{End, Happening, Observer, Scene};
use crate::world::{Alarm, World};
use std::time::Duration;

impl<S: Store, O: Observer<S::Election>> World<S, O> {
    /// The fault of this number begins.
    pub(super) fn begin(&mut self, number: usize) {
        let fault = self.setup.faults[number];
        let hit = match fault.what {
            What::Candidate(Whom::Candidate(candidate), _) => Some(candidate),
            What::Candidate(Whom::Leader, _) => Some(self.leader().unwrap_or(0)),
            What::Server(which, mishap) => {
                Some(self.store.strike(self.now, which, self.leader(), mishap))
            }
            What::Store(_) | What::Stranger(_) => None,
        };
        self.tell_fault(&fault, hit, true);
        if fault.lasts > Duration::ZERO {
            self.ends.push((fault.end(), number, hit));
        }
        match (fault.what, hit) {
            (What::Candidate(_, harm), Some(candidate)) => {
                self.harm(number, candidate, harm, fault.lasts);
            }
            (What::Store(Outage::Restored(ago)), _) => {
                let before = self.store.changes();
                self.store.restore(self.now, ago);
                self.collect();
                if self.store.changes() != before {
                    self.changed();
                }
            }
            (What::Store(outage), _) => self.outages.push((number, outage)),
            (What::Stranger(Deed::Rumour), _) => self.tell_rumour(),
            (What::Stranger(deed), _) => {
                let before = self.store.changes();
                self.store.meddle(self.now, deed);
                self.collect();
                if self.store.changes() != before {
                    self.changed();
                }
            }
            (What::Server(..), _) => self.collect(),
            (What::Candidate(..), None) => {}
        }
    }

    /// The fault of this number, which hit `hit`, a candidate or a server, is over.
    pub(super) fn end(&mut self, number: usize, hit: Option<usize>) {
        let fault = self.setup.faults[number];
        match (fault.what, hit) {
            (What::Candidate(_, harm), Some(candidate)) => self.heal(number, candidate, harm),
            (What::Store(_), _) => self.outages.retain(|(other, _)| *other != number),
            (What::Server(which, mishap), Some(struck)) => {
                self.store.mend(self.now, which, struck, mishap);
                self.collect();
            }
            (What::Stranger(_) | What::Candidate(..) | What::Server(..), _) => {}
        }
        self.tell_fault(&fault, hit, false);
    }

    fn harm(&mut self, number: usize, candidate: usize, harm: Harm, lasts: Duration) {
        let node = &mut self.nodes[candidate];
        match harm {
            Harm::Pause => self.stand_still(candidate, lasts),
            Harm::Freeze => {
                self.bend(candidate, Rate::off_by(-1_000_000));
                self.stand_still(candidate, lasts);
            }
            Harm::Starve(longest) => node.starved.push((number, longest, self.now + lasts)),
            Harm::Kill if node.process.is_some() => self.ended(candidate, End::Killed),
            Harm::Kill => node.alarms[Alarm::Start as usize] = Moment::NEVER,
            Harm::Stop => self.deliver(candidate, Input::Order(Order::Stop)),
            Harm::Leave => self.deliver(candidate, Input::Order(Order::Leave)),
            Harm::Unasked => self.deliver(candidate, Input::Order(Order::Resign)),
            Harm::Link(trouble) => node.link.begin(number, trouble),
            Harm::Lag(longest) => node.link.lag(number, longest),
            Harm::Deaf => {
                node.link.deafening += 1;
                node.link.is_deaf = true;
            }
            Harm::Bend(rate) => self.bend(candidate, rate),
        }
    }

    fn heal(&mut self, number: usize, candidate: usize, harm: Harm) {
        let node = &mut self.nodes[candidate];
        match harm {
            Harm::Pause | Harm::Bend(_) => {}
            Harm::Freeze => self.bend(candidate, self.setup.candidates[candidate].clock_rate),
            Harm::Starve(_) => node.starved.retain(|(other, ..)| *other != number),
            Harm::Kill | Harm::Stop => self.bring_back(candidate),
            Harm::Leave => {
                self.deliver(candidate, Input::Order(Order::Stop));
                self.bring_back(candidate);
            }
            Harm::Unasked => self.deliver(candidate, Input::Order(Order::Campaign)),
            Harm::Link(_) | Harm::Lag(_) => node.link.end(number),
            Harm::Deaf => {
                node.link.deafening -= 1;
                // A watch that comes back may tell of what has long been over.
                if node.link.deafening == 0 && node.link.chance.in_thousand(500) {
                    node.link.is_deaf = false;
                    let ago = node.link.chance.index(4);
                    self.tell_news(candidate, ago);
                }
            }
        }
    }

    /// Starts the process of `candidate`; one that is still about to stop, when it has.
    fn bring_back(&mut self, candidate: usize) {
        let node = &mut self.nodes[candidate];
        if node.process.is_none() {
            node.alarms[Alarm::Start as usize] = self.now;
        } else {
            node.returns = true;
        }
    }

    /// The clock of `candidate` runs at `rate`, and what it has to ring for comes sooner or later.
    fn bend(&mut self, candidate: usize, rate: Rate) {
        let due = [Alarm::CallOver, Alarm::Wake, Alarm::Ask].map(|alarm| {
            let at = self.nodes[candidate].alarms[alarm as usize];
            (alarm, at, self.clocks[candidate].read(at))
        });
        self.clocks[candidate].bend(self.now, rate);
        for (alarm, at, due) in due {
            if at != Moment::NEVER {
                self.set(candidate, alarm, due);
            }
        }
    }

    fn tell_fault(&mut self, fault: &Fault, hit: Option<usize>, begins: bool) {
        let scene = Scene { now: self.now, clocks: &self.clocks };
        let happening =
            if begins { Happening::Begins(fault, hit) } else { Happening::Ends(fault, hit) };
        self.observer.see(&scene, &happening);
    }
}
