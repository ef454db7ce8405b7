//! FaultKind is on its way between candidates and the store, and what happens when it arrives.
//!
//! Pure. Start with [`World::send`]; `link.rs` draws what becomes of each message.

use crate::link::Delivery;
use crate::process::{Input, Process};
use crate::scenario::StoreFault;
use crate::store::{Arrival, Effect, Store};
use crate::trace::{Departure, Observer, TraceContext, TraceEvent};
use crate::world::{Timer, World};
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event, Outcome, Request, Verb};
use std::time::Duration;

/// A call that waits for its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) is_impaired: bool,
}

/// A message on its way.
#[derive(Debug)]
pub(super) enum Message<E: Election> {
    Request(InFlightRequest<E>),
    Reply { to: usize, call: u64, event: Option<E::Event> },
    WatchEvent { to: usize, starts: u32, connection: u64, event: E::Event, is_delayed: bool },
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct InFlightRequest<E: Election> {
    from: usize,
    call: u64,
    connection: u64,
    request: E::Request,
    expects_reply: bool,
    is_delayed: bool,
}

impl<S: Store, O: Observer<S::Election>> World<S, O> {
    /// Sends a request that was asked for at `now` on the clock of `from`.
    pub(super) fn send(
        &mut self,
        from: usize,
        request: <S::Election as Election>::Request,
        now: Instant,
    ) {
        let connection = self.store.on_send(from, &request);
        let node = &mut self.nodes[from];
        let timeout = node.process.as_ref().map_or(Duration::ZERO, Process::call_timeout);
        node.calls += 1;
        let call = node.calls;
        let Delivery { arrives: [first, again], breaks, is_impaired } = node.link.request(timeout);
        node.call = Some(Call { number: call, is_impaired });
        if is_impaired {
            self.disturbed(Some(from));
        }
        if let Some(breaks) = breaks {
            self.in_flight.push(self.now + breaks, Message::Reply { to: from, call, event: None });
        }
        // Who sends it twice passes on the second reply.
        let is_delayed = is_impaired;
        if let Some(again) = again {
            let (request, expects_reply) = (request.clone(), breaks.is_none());
            let sent =
                InFlightRequest { from, call, connection, request, expects_reply, is_delayed };
            self.in_flight.push(self.now + again, Message::Request(sent));
        }
        if let Some(first) = first {
            let expects_reply = breaks.is_none() && again.is_none();
            let sent =
                InFlightRequest { from, call, connection, request, expects_reply, is_delayed };
            self.in_flight.push(self.now + first, Message::Request(sent));
        }
        self.set_timer(from, Timer::CallTimeout, now + timeout);
        self.apply_effects();
    }

    /// The next message arrives.
    pub(super) fn deliver_next_message(&mut self) {
        let Some(message) = self.in_flight.pop() else { return };
        match message {
            Message::Request(sent) => self.request_arrived(sent),
            Message::Reply { to, call, event } => {
                let node = &mut self.nodes[to];
                if node.call.is_some_and(|waiting| waiting.number == call) {
                    if event.is_some() {
                        self.store.on_reply(to, call);
                        self.restore_watch(to);
                    }
                    self.deliver(to, Input::Reply { call, event });
                }
            }
            Message::WatchEvent { to, starts, connection, event, is_delayed } => {
                if self.nodes[to].starts == starts && self.store.is_connected(to, connection) {
                    if is_delayed {
                        self.watch_impaired(to);
                    }
                    self.deliver(to, Input::WatchEvent(event));
                }
            }
        }
    }

    fn request_arrived(&mut self, sent: InFlightRequest<S::Election>) {
        let Some((fault, outage)) = self.store_faults.last().copied() else {
            return self.perform(&sent);
        };
        self.call_impaired(sent.from, sent.call);
        match outage {
            StoreFault::Refuse => {
                let latency = self.nodes[sent.from].link.latency();
                self.in_flight.push(
                    self.now + latency,
                    Message::Reply { to: sent.from, call: sent.call, event: None },
                );
            }
            StoreFault::Hang => {
                let over = self
                    .active_faults
                    .iter()
                    .find(|(_, ending, _)| *ending == fault)
                    .map_or(self.now, |end| end.0);
                let at = over + self.rng.duration_between(Duration::ZERO, self.scenario.latency.1);
                let soonest = self.now + Duration::from_nanos(1);
                self.in_flight.push(
                    at.max(soonest),
                    Message::Request(InFlightRequest { is_delayed: true, ..sent }),
                );
            }
            StoreFault::CrashLoop => {
                if self.rng.permille(500) {
                    self.perform(&InFlightRequest {
                        is_delayed: true,
                        expects_reply: false,
                        ..sent
                    });
                }
            }
            StoreFault::ShortenLeases => {
                let request = self.store.shorten_lease(&sent.request);
                self.perform(&InFlightRequest { request, ..sent });
            }
            StoreFault::Slow(_) if sent.is_delayed => self.perform(&sent),
            StoreFault::Slow(longest) => {
                let at = self.now + self.rng.skewed_duration(longest);
                self.in_flight
                    .push(at, Message::Request(InFlightRequest { is_delayed: true, ..sent }));
            }
            StoreFault::StaleReads | StoreFault::IgnoreWrites | StoreFault::Restore(_) => {
                let is_read = sent.request.verb() == Verb::Read;
                let feigns =
                    is_read == (outage == StoreFault::StaleReads) && self.rng.permille(500);
                let ago = if outage == StoreFault::IgnoreWrites { 0 } else { self.rng.index(6) };
                if feigns {
                    // Now and then its watch is opened anew, at the same server.
                    if outage == StoreFault::StaleReads && self.rng.permille(100) {
                        self.send_watch_state(sent.from, ago);
                    }
                    let event = self.store.false_reply(&sent.request, ago);
                    self.reply(sent.from, sent.call, event, sent.expects_reply);
                } else {
                    self.perform(&InFlightRequest { is_delayed: true, ..sent });
                }
            }
        }
    }

    /// The store does what was asked, and replies now or later.
    fn perform(&mut self, sent: &InFlightRequest<S::Election>) {
        let InFlightRequest { from, call, connection, .. } = *sent;
        let before = self.store.changes();
        // Nobody waits for a call of that number.
        let answered = if sent.expects_reply { call } else { u64::MAX };
        let event = self
            .store
            .perform(Arrival { now: self.now, from, call: answered, connection }, &sent.request);
        let has_changed = self.store.changes() != before;
        if has_changed {
            self.record_changed();
        }
        let waits = self.nodes[from].call.is_some_and(|waiting| waiting.number == call);
        if event.is_none() && !waits {
            // A sign of life of a session that perhaps nobody uses any more: others have to wait for it anew.
            self.disturbed(None);
        }
        if let Some(event) = event {
            let context = TraceContext { now: self.now, clocks: &self.clocks };
            self.observer
                .observe(&context, &TraceEvent::RequestPerformed(from, &sent.request, &event));
            if has_changed && (sent.is_delayed || !waits) {
                // Others have to wait for a change that nobody made use of.
                self.disturbed(None);
            }
            self.reply(from, call, event, sent.expects_reply);
        }
        self.apply_effects();
    }

    /// Does what the store has come to.
    pub(super) fn apply_effects(&mut self) {
        while let Some(effect) = self.store.next_effect() {
            match effect {
                Effect::Reply { to, call, event } => self.reply(to, call, event, true),
                Effect::WatchEvent { to, connection, event } => {
                    self.send_watch_event(to, connection, event)
                }
                Effect::Performed { from, request, event } => {
                    let context = TraceContext { now: self.now, clocks: &self.clocks };
                    self.observer
                        .observe(&context, &TraceEvent::RequestPerformed(from, &request, &event));
                }
                Effect::HolderChanged { holder, departure } => {
                    let context = TraceContext { now: self.now, clocks: &self.clocks };
                    if let Some(departure) = departure {
                        self.observer.observe(&context, &TraceEvent::HolderDeparted(departure));
                    }
                    self.observer.observe(
                        &context,
                        &TraceEvent::HolderChanged(holder.as_ref(), Duration::ZERO),
                    );
                }
                Effect::SessionForgotten => {
                    let context = TraceContext { now: self.now, clocks: &self.clocks };
                    self.observer.observe(&context, &TraceEvent::SessionForgotten);
                }
                Effect::Disturbed => self.disturbed(None),
            }
        }
    }

    fn reply(
        &mut self,
        to: usize,
        call: u64,
        event: <S::Election as Election>::Event,
        expects_reply: bool,
    ) {
        if !expects_reply {
            return;
        }
        let (after, is_impaired) = self.nodes[to].link.reply();
        if is_impaired {
            self.call_impaired(to, call);
            if event.outcome() == Outcome::Applied {
                self.disturbed(None);
            }
        }
        if let Some(after) = after {
            self.in_flight.push(self.now + after, Message::Reply { to, call, event: Some(event) });
        }
    }

    /// The record is another than before: whoever watches is told.
    pub(super) fn record_changed(&mut self) {
        let (holder, lease_duration) = self.store.holder();
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        if holder.is_none() {
            self.observer.observe(&context, &TraceEvent::HolderDeparted(Departure::Released));
        }
        self.observer.observe(&context, &TraceEvent::HolderChanged(holder, lease_duration));
        for to in 0..self.nodes.len() {
            self.send_watch_state(to, 0);
        }
    }

    /// Tells `to` what the record was like so many changes ago, if it can hear it.
    pub(super) fn send_watch_state(&mut self, to: usize, ago: usize) {
        let node = &mut self.nodes[to];
        let Some(process) = &node.process else { return };
        if !self.scenario.leaders_watch && process.claim(self.clocks[to].read(self.now)).is_some() {
            return;
        }
        if let Some(event) = self.store.watch_event(ago) {
            self.send_watch_event(to, 0, event);
        }
    }

    fn send_watch_event(
        &mut self,
        to: usize,
        connection: u64,
        event: <S::Election as Election>::Event,
    ) {
        let node = &mut self.nodes[to];
        if let Some(at) = node.link.watch_event(self.now) {
            let (starts, is_delayed) = (node.starts, at > self.now + self.scenario.latency.1);
            if is_delayed {
                self.watch_impaired(to);
            }
            self.in_flight
                .push(at, Message::WatchEvent { to, starts, connection, event, is_delayed });
        }
    }

    /// Tells everybody that the record may be gone.
    pub(super) fn send_false_deletion(&mut self) {
        for to in 0..self.nodes.len() {
            if let Some(event) = self.store.false_deletion_event() {
                self.send_watch_event(to, 0, event);
            }
        }
    }

    /// A reply came through to `to`, so its watch is opened anew, from what that reply knew.
    fn restore_watch(&mut self, to: usize) {
        let link = &mut self.nodes[to].link;
        if link.watch_is_broken && link.watch_faults == 0 {
            link.watch_is_broken = false;
            self.send_watch_state(to, 0);
        }
    }

    /// Marks the call as one that did not go as it should.
    fn call_impaired(&mut self, from: usize, number: u64) {
        if let Some(call) = self.nodes[from].call.as_mut().filter(|call| call.number == number) {
            call.is_impaired = true;
        }
        self.disturbed(Some(from));
    }

    fn watch_impaired(&mut self, candidate: usize) {
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        self.observer.observe(&context, &TraceEvent::WatchImpaired(candidate));
    }

    pub(super) fn disturbed(&mut self, candidate: Option<usize>) {
        let context = TraceContext { now: self.now, clocks: &self.clocks };
        self.observer.observe(&context, &TraceEvent::Disturbed(candidate));
    }
}
