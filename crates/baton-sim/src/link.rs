//! The link between a candidate and the store: the delivery of each message.
//!
//! Pure. Start with [`Link::request`]. A call is one exchange on a connection. A caller whose call
//! times out drops the connection, so no reply reaches a later call. A request that was sent on a
//! dropped connection may still arrive.

use crate::clock::Moment;
use crate::rng::{Rng, nanos};
use crate::scenario::LinkFault;
use std::time::Duration;

/// The link of one candidate.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) rng: Rng,
    /// The shortest and the longest delivery time in nanoseconds.
    latency: (u64, u64),
    /// The active faults, with their indices.
    faults: Vec<(usize, LinkFault)>,
    /// How many active faults block watch events.
    pub(crate) watch_faults: u32,
    /// The active delays of watch events, with the indices of their faults.
    watch_delays: Vec<(usize, Duration)>,
    /// Whether the watch is broken until a reply shows that the store is reachable again.
    pub(crate) watch_is_broken: bool,
    /// When the last watch event arrives. Later ones arrive no sooner, so they stay in order.
    last_watch_event: Moment,
}

/// How a request is delivered.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    /// When it arrives: once, twice, or never.
    pub(crate) arrives: [Option<Duration>; 2],
    /// When the caller learns that the connection broke.
    pub(crate) breaks: Option<Duration>,
    /// Whether a fault affects the delivery.
    pub(crate) is_impaired: bool,
}

impl Link {
    pub(crate) fn new(rng: Rng, latency: (Duration, Duration)) -> Self {
        let (faults, watch_delays, watch_faults, watch_is_broken) =
            (Vec::new(), Vec::new(), 0, false);
        Self {
            rng,
            latency: (nanos(latency.0), nanos(latency.1)),
            faults,
            watch_faults,
            watch_delays,
            watch_is_broken,
            last_watch_event: Moment::START,
        }
    }

    pub(crate) fn begin(&mut self, fault: usize, link_fault: LinkFault) {
        self.faults.push((fault, link_fault));
    }

    pub(crate) fn delay_watch(&mut self, fault: usize, max_delay: Duration) {
        self.watch_delays.push((fault, max_delay));
    }

    pub(crate) fn end(&mut self, fault: usize) {
        self.faults.retain(|(other, _)| *other != fault);
        self.watch_delays.retain(|(other, _)| *other != fault);
    }

    /// Draws the delivery time of an unimpaired message.
    pub(crate) fn latency(&mut self) -> Duration {
        Duration::from_nanos(self.rng.between(self.latency.0, self.latency.1))
    }

    /// Draws how late a timer fires.
    pub(crate) fn timer_delay(&mut self) -> Duration {
        Duration::from_nanos(self.rng.between(self.latency.0, self.latency.1) / 8)
    }

    /// Draws the delivery of a request whose caller waits for `timeout`.
    pub(crate) fn request(&mut self, timeout: Duration) -> Delivery {
        let on_time = self.latency();
        let Some(link_fault) = self.active_fault() else {
            return Delivery { arrives: [Some(on_time), None], breaks: None, is_impaired: false };
        };
        let (lost, late) = (self.happens(link_fault.requests_lost), self.happens(link_fault.late));
        let (broken, duplicated) =
            (self.happens(link_fault.broken), self.happens(link_fault.duplicated));
        let arrives =
            if late { on_time + self.rng.skewed_duration(link_fault.max_delay) } else { on_time };
        let again = arrives + self.rng.skewed_duration(link_fault.max_delay);
        Delivery {
            arrives: [Some(arrives).filter(|_| !lost), Some(again).filter(|_| duplicated && !lost)],
            breaks: broken.then(|| self.rng.duration_between(on_time, timeout)),
            is_impaired: lost || late || broken || duplicated,
        }
    }

    /// Draws when a reply arrives, if it does, and whether a fault affects it.
    pub(crate) fn reply(&mut self) -> (Option<Duration>, bool) {
        let on_time = self.latency();
        let Some(link_fault) = self.active_fault() else { return (Some(on_time), false) };
        if self.happens(link_fault.replies_lost) {
            (None, true)
        } else if self.happens(link_fault.late) {
            (Some(on_time + self.rng.skewed_duration(link_fault.max_delay)), true)
        } else {
            (Some(on_time), false)
        }
    }

    /// Draws when a watch event that is sent at `now` arrives, if it does.
    pub(crate) fn watch_event(&mut self, now: Moment) -> Option<Moment> {
        let link_fault = self.active_fault().unwrap_or_default();
        let is_lost = self
            .happens(link_fault.replies_lost.max(link_fault.requests_lost).max(link_fault.broken));
        self.watch_is_broken |= is_lost || self.watch_faults > 0;
        let late =
            self.happens(link_fault.late).then(|| self.rng.skewed_duration(link_fault.max_delay));
        let delay = self
            .watch_delays
            .last()
            .map(|(_, max_delay)| *max_delay)
            .map(|max_delay| self.rng.skewed_duration(max_delay));
        let arrives = now + self.latency() + late.or(delay).unwrap_or_default();
        self.last_watch_event = self.last_watch_event.max(arrives);
        (!self.watch_is_broken).then_some(self.last_watch_event)
    }

    /// Whether a fault impairs messages.
    pub(crate) fn is_impaired(&self) -> bool {
        !self.faults.is_empty()
    }

    fn active_fault(&self) -> Option<LinkFault> {
        self.faults.last().map(|(_, link_fault)| *link_fault)
    }

    fn happens(&mut self, permille: u16) -> bool {
        self.rng.permille(permille)
    }
}
