//! What is on its way between candidates and the store, and what happens when it arrives.
//!
//! Pure. Start with [`World::send`]; `link.rs` draws what becomes of each message.

use crate::link::Fate;
use crate::process::{Input, Process};
use crate::scenario::Outage;
use crate::store::{Arrival, Effect, Store};
use crate::trace::{Departure, Happening, Observer, Scene};
use crate::world::{Alarm, World};
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event, Outcome, Request, Verb};
use std::time::Duration;

/// A call that waits for its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) is_harmed: bool,
}

/// A message on its way.
#[derive(Debug)]
pub(super) enum Message<E: Election> {
    Request(Sent<E>),
    Reply { to: usize, call: u64, event: Option<E::Event> },
    News { to: usize, starts: u32, connection: u64, event: E::Event, is_late: bool },
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Sent<E: Election> {
    from: usize,
    call: u64,
    connection: u64,
    request: E::Request,
    is_answered: bool,
    is_late: bool,
}

impl<S: Store, O: Observer<S::Election>> World<S, O> {
    /// Sends a request that was asked for at `now` on the clock of `from`.
    pub(super) fn send(
        &mut self,
        from: usize,
        request: <S::Election as Election>::Request,
        now: Instant,
    ) {
        let connection = self.store.sets_out(from, &request);
        let node = &mut self.nodes[from];
        let timeout = node.process.as_ref().map_or(Duration::ZERO, Process::call_timeout);
        node.calls += 1;
        let call = node.calls;
        let Fate { arrives: [first, again], breaks, is_harmed } = node.link.request(timeout);
        node.call = Some(Call { number: call, is_harmed });
        if is_harmed {
            self.felt(Some(from));
        }
        if let Some(breaks) = breaks {
            self.post.put(self.now + breaks, Message::Reply { to: from, call, event: None });
        }
        // Who sends it twice passes on the second reply.
        let is_late = is_harmed;
        if let Some(again) = again {
            let (request, is_answered) = (request.clone(), breaks.is_none());
            let sent = Sent { from, call, connection, request, is_answered, is_late };
            self.post.put(self.now + again, Message::Request(sent));
        }
        if let Some(first) = first {
            let is_answered = breaks.is_none() && again.is_none();
            let sent = Sent { from, call, connection, request, is_answered, is_late };
            self.post.put(self.now + first, Message::Request(sent));
        }
        self.set(from, Alarm::CallOver, now + timeout);
        self.collect();
    }

    /// The next message arrives.
    pub(super) fn arrive(&mut self) {
        let Some(message) = self.post.take() else { return };
        match message {
            Message::Request(sent) => self.arrived(sent),
            Message::Reply { to, call, event } => {
                let node = &mut self.nodes[to];
                if node.call.is_some_and(|waiting| waiting.number == call) {
                    if event.is_some() {
                        self.store.heard(to, call);
                        self.reached(to);
                    }
                    self.deliver(to, Input::Reply { call, event });
                }
            }
            Message::News { to, starts, connection, event, is_late } => {
                if self.nodes[to].starts == starts && self.store.is_connected(to, connection) {
                    if is_late {
                        self.deafened(to);
                    }
                    self.deliver(to, Input::News(event));
                }
            }
        }
    }

    fn arrived(&mut self, sent: Sent<S::Election>) {
        let Some((fault, outage)) = self.outages.last().copied() else {
            return self.perform(&sent);
        };
        self.harmed(sent.from, sent.call);
        match outage {
            Outage::Refuses => {
                let latency = self.nodes[sent.from].link.latency();
                self.post.put(
                    self.now + latency,
                    Message::Reply { to: sent.from, call: sent.call, event: None },
                );
            }
            Outage::Hangs => {
                let over = self
                    .ends
                    .iter()
                    .find(|(_, ending, _)| *ending == fault)
                    .map_or(self.now, |end| end.0);
                let at = over + self.chance.lasting(Duration::ZERO, self.setup.latency.1);
                let soonest = self.now + Duration::from_nanos(1);
                self.post.put(at.max(soonest), Message::Request(Sent { is_late: true, ..sent }));
            }
            Outage::Dies => {
                if self.chance.in_thousand(500) {
                    self.perform(&Sent { is_late: true, is_answered: false, ..sent });
                }
            }
            Outage::Shortens => {
                let request = self.store.shorten(&sent.request);
                self.perform(&Sent { request, ..sent });
            }
            Outage::Slow(_) if sent.is_late => self.perform(&sent),
            Outage::Slow(longest) => {
                let at = self.now + self.chance.of_any_size(longest);
                self.post.put(at, Message::Request(Sent { is_late: true, ..sent }));
            }
            Outage::Stale | Outage::Idle | Outage::Restored(_) => {
                let is_read = sent.request.verb() == Verb::Read;
                let feigns = is_read == (outage == Outage::Stale) && self.chance.in_thousand(500);
                let ago = if outage == Outage::Idle { 0 } else { self.chance.index(6) };
                if feigns {
                    // Now and then its watch is opened anew, at the same server.
                    if outage == Outage::Stale && self.chance.in_thousand(100) {
                        self.tell_news(sent.from, ago);
                    }
                    let event = self.store.feign(&sent.request, ago);
                    self.reply(sent.from, sent.call, event, sent.is_answered);
                } else {
                    self.perform(&Sent { is_late: true, ..sent });
                }
            }
        }
    }

    /// The store does what was asked, and replies now or later.
    fn perform(&mut self, sent: &Sent<S::Election>) {
        let Sent { from, call, connection, .. } = *sent;
        let before = self.store.changes();
        // Nobody waits for a call of that number.
        let answered = if sent.is_answered { call } else { u64::MAX };
        let event = self
            .store
            .perform(Arrival { now: self.now, from, call: answered, connection }, &sent.request);
        let has_changed = self.store.changes() != before;
        if has_changed {
            self.changed();
        }
        let waits = self.nodes[from].call.is_some_and(|waiting| waiting.number == call);
        if event.is_none() && !waits {
            // A sign of life of a session that perhaps nobody uses any more: others have to wait for it anew.
            self.felt(None);
        }
        if let Some(event) = event {
            let scene = Scene { now: self.now, clocks: &self.clocks };
            self.observer.see(&scene, &Happening::Performed(from, &sent.request, &event));
            if has_changed && (sent.is_late || !waits) {
                // Others have to wait for a change that nobody made use of.
                self.felt(None);
            }
            self.reply(from, call, event, sent.is_answered);
        }
        self.collect();
    }

    /// Does what the store has come to.
    pub(super) fn collect(&mut self) {
        while let Some(effect) = self.store.next_effect() {
            match effect {
                Effect::Reply { to, call, event } => self.reply(to, call, event, true),
                Effect::News { to, connection, event } => self.tell(to, connection, event),
                Effect::Performed { from, request, event } => {
                    let scene = Scene { now: self.now, clocks: &self.clocks };
                    self.observer.see(&scene, &Happening::Performed(from, &request, &event));
                }
                Effect::Holder { holder, departure } => {
                    let scene = Scene { now: self.now, clocks: &self.clocks };
                    if let Some(departure) = departure {
                        self.observer.see(&scene, &Happening::Goes(departure));
                    }
                    self.observer.see(&scene, &Happening::Holder(holder.as_ref(), Duration::ZERO));
                }
                Effect::Orphaned => {
                    let scene = Scene { now: self.now, clocks: &self.clocks };
                    self.observer.see(&scene, &Happening::Orphaned);
                }
                Effect::Stirred => self.felt(None),
            }
        }
    }

    fn reply(
        &mut self,
        to: usize,
        call: u64,
        event: <S::Election as Election>::Event,
        is_answered: bool,
    ) {
        if !is_answered {
            return;
        }
        let (after, is_harmed) = self.nodes[to].link.reply();
        if is_harmed {
            self.harmed(to, call);
            if event.outcome() == Outcome::Applied {
                self.felt(None);
            }
        }
        if let Some(after) = after {
            self.post.put(self.now + after, Message::Reply { to, call, event: Some(event) });
        }
    }

    /// The record is another than before: whoever watches is told.
    pub(super) fn changed(&mut self) {
        let (holder, protects) = self.store.holder();
        let scene = Scene { now: self.now, clocks: &self.clocks };
        if holder.is_none() {
            self.observer.see(&scene, &Happening::Goes(Departure::GivenUp));
        }
        self.observer.see(&scene, &Happening::Holder(holder, protects));
        for to in 0..self.nodes.len() {
            self.tell_news(to, 0);
        }
    }

    /// Tells `to` what the record was like so many changes ago, if it can hear it.
    pub(super) fn tell_news(&mut self, to: usize, ago: usize) {
        let node = &mut self.nodes[to];
        let Some(process) = &node.process else { return };
        if !self.setup.tells_leaders && process.claim(self.clocks[to].read(self.now)).is_some() {
            return;
        }
        if let Some(event) = self.store.news(ago) {
            self.tell(to, 0, event);
        }
    }

    fn tell(&mut self, to: usize, connection: u64, event: <S::Election as Election>::Event) {
        let node = &mut self.nodes[to];
        if let Some(at) = node.link.news(self.now) {
            let (starts, is_late) = (node.starts, at > self.now + self.setup.latency.1);
            if is_late {
                self.deafened(to);
            }
            self.post.put(at, Message::News { to, starts, connection, event, is_late });
        }
    }

    /// Tells everybody that the record may be gone.
    pub(super) fn tell_rumour(&mut self) {
        for to in 0..self.nodes.len() {
            if let Some(event) = self.store.rumour() {
                self.tell(to, 0, event);
            }
        }
    }

    /// A reply came through to `to`, so its watch is opened anew, from what that reply knew.
    fn reached(&mut self, to: usize) {
        let link = &mut self.nodes[to].link;
        if link.is_deaf && link.deafening == 0 {
            link.is_deaf = false;
            self.tell_news(to, 0);
        }
    }

    /// Marks the call as one that did not go as it should.
    fn harmed(&mut self, from: usize, number: u64) {
        if let Some(call) = self.nodes[from].call.as_mut().filter(|call| call.number == number) {
            call.is_harmed = true;
        }
        self.felt(Some(from));
    }

    fn deafened(&mut self, candidate: usize) {
        let scene = Scene { now: self.now, clocks: &self.clocks };
        self.observer.see(&scene, &Happening::Deafened(candidate));
    }

    pub(super) fn felt(&mut self, candidate: Option<usize>) {
        let scene = Scene { now: self.now, clocks: &self.clocks };
        self.observer.see(&scene, &Happening::Felt(candidate));
    }
}
