//! Messages between candidates and the store, and what happens when they arrive.
//!
//! Pure. Start with [`World::send`]. [`Link`](crate::link::Link) draws the delivery of each
//! message.

use crate::clock::Moment;
use crate::link::Delivery;
use crate::process::{Input, Process};
use crate::runner::FromGuard;
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

/// A message in flight, and when it was sent.
#[derive(Clone, Debug)]
pub(super) struct Posted<E: Election> {
    pub(super) sent: Moment,
    pub(super) message: Message<E>,
}

/// The content of a message.
#[derive(Clone, Debug)]
pub(super) enum Message<E: Election> {
    Request(InFlightRequest<E>),
    Reply { to: usize, call: u64, event: Option<E::Event> },
    WatchEvent { to: usize, starts: u32, connection: u64, event: E::Event, is_delayed: bool },
    FromGuard { to: usize, starts: u32, message: FromGuard },
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct InFlightRequest<E: Election> {
    pub(super) from: usize,
    call: u64,
    attached: u64,
    pub(super) request: E::Request,
    expects_reply: bool,
    is_delayed: bool,
}

impl<S: Store, O: Observer<S::Election>> World<S, O> {
    /// Sends a request of candidate `from`, whose clock reads `now`.
    pub(super) fn send(
        &mut self,
        from: usize,
        request: <S::Election as Election>::Request,
        now: Instant,
    ) {
        let attached = self.store.on_send(from, &request);
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
            self.post(self.now + breaks, Message::Reply { to: from, call, event: None });
        }
        let is_delayed = is_impaired;
        // A proxy that sends the request twice forwards the second reply.
        if let Some(again) = again {
            let (request, expects_reply) = (request.clone(), breaks.is_none());
            let sent = InFlightRequest { from, call, attached, request, expects_reply, is_delayed };
            self.post(self.now + again, Message::Request(sent));
        }
        if let Some(first) = first {
            let expects_reply = breaks.is_none() && again.is_none();
            let sent = InFlightRequest { from, call, attached, request, expects_reply, is_delayed };
            self.post(self.now + first, Message::Request(sent));
        }
        self.set_timer(from, Timer::CallTimeout, now + timeout);
        self.apply_effects();
    }

    /// Sends a message that arrives at `at`.
    pub(super) fn post(&mut self, at: Moment, message: Message<S::Election>) {
        self.in_flight.push(at, Posted { sent: self.now, message });
    }

    /// Delivers the next message.
    pub(super) fn deliver_next_message(&mut self) {
        let Some(Posted { message, .. }) = self.in_flight.pop() else { return };
        match message {
            Message::Request(sent) => self.request_arrived(sent),
            Message::Reply { to, call, event } => {
                let node = &mut self.nodes[to];
                if node.call.is_some_and(|pending| pending.number == call) {
                    if event.is_some() {
                        self.store.on_reply(to, call);
                        self.restore_watch(to);
                    }
                    self.deliver(to, Input::Reply { call, event });
                }
            }
            Message::FromGuard { to, starts, message } => self.guard_told(to, starts, message),
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
        let Some((fault, store_fault)) = self.store_faults.last().copied() else {
            return self.perform(&sent);
        };
        self.call_impaired(sent.from, sent.call);
        match store_fault {
            StoreFault::Refuse => {
                let latency = self.nodes[sent.from].link.latency();
                self.post(
                    self.now + latency,
                    Message::Reply { to: sent.from, call: sent.call, event: None },
                );
            }
            StoreFault::Hang => {
                let fault_end = self
                    .active_faults
                    .iter()
                    .find(|(_, ending, _)| *ending == fault)
                    .map_or(self.now, |end| end.0);
                let at =
                    fault_end + self.rng.duration_between(Duration::ZERO, self.scenario.latency.1);
                let soonest = self.now + Duration::from_nanos(1);
                self.post(
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
                self.post(at, Message::Request(InFlightRequest { is_delayed: true, ..sent }));
            }
            StoreFault::StaleReads | StoreFault::IgnoreWrites | StoreFault::Restore(_) => {
                let is_read = sent.request.verb() == Verb::Read;
                let serves_stale_state =
                    is_read == (store_fault == StoreFault::StaleReads) && self.rng.permille(500);
                let ago =
                    if store_fault == StoreFault::IgnoreWrites { 0 } else { self.rng.index(6) };
                if serves_stale_state {
                    // Sometimes the watch is reopened at the same stale server.
                    if store_fault == StoreFault::StaleReads && self.rng.permille(100) {
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

    /// Lets the store process a request. The reply may come later, as an effect.
    fn perform(&mut self, sent: &InFlightRequest<S::Election>) {
        let InFlightRequest { from, call, attached, .. } = *sent;
        let before = self.store.changes();
        // No call has this number, so the reply is dropped.
        let reply_to = if sent.expects_reply { call } else { u64::MAX };
        let event = self
            .store
            .perform(Arrival { now: self.now, from, call: reply_to, attached }, &sent.request);
        let has_changed = self.store.changes() != before;
        if has_changed {
            self.record_changed();
        }
        let is_awaited = self.nodes[from].call.is_some_and(|pending| pending.number == call);
        if event.is_none() && !is_awaited {
            // The request may renew a session that its candidate no longer uses, so others have to
            // wait for the whole timeout again.
            self.disturbed(None);
        }
        if let Some(event) = event {
            let context = TraceContext { now: self.now, clocks: &self.clocks };
            self.observer
                .observe(&context, &TraceEvent::RequestPerformed(from, &sent.request, &event));
            if has_changed && (sent.is_delayed || !is_awaited) {
                // Others have to wait for a write that its candidate may not know of.
                self.disturbed(None);
            }
            self.reply(from, call, event, sent.expects_reply);
        }
        self.apply_effects();
    }

    /// Executes the pending effects of the store.
    pub(super) fn apply_effects(&mut self) {
        while let Some(effect) = self.store.next_effect() {
            match effect {
                Effect::Reply { to, call, event } => self.reply(to, call, event, true),
                Effect::WatchEvent { to, connection, event } => {
                    self.send_watch_event(to, connection, event);
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
            self.post(self.now + after, Message::Reply { to, call, event: Some(event) });
        }
    }

    /// Reports the new record, and sends it to all watchers.
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

    /// Sends to `to` the record as it was `ago` changes ago, if `to` watches.
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
            self.post(at, Message::WatchEvent { to, starts, connection, event, is_delayed });
        }
    }

    /// Sends every candidate a watch event that falsely reports a deletion.
    pub(super) fn send_false_deletion(&mut self) {
        for to in 0..self.nodes.len() {
            if let Some(event) = self.store.false_deletion_event() {
                self.send_watch_event(to, 0, event);
            }
        }
    }

    /// Reopens the watch of `to` after a reply, from the current record.
    fn restore_watch(&mut self, to: usize) {
        let link = &mut self.nodes[to].link;
        if link.watch_is_broken && link.watch_faults == 0 {
            link.watch_is_broken = false;
            self.send_watch_state(to, 0);
        }
    }

    /// Marks the call as affected by a fault.
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
