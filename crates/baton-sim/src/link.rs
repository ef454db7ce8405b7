//! The way between a candidate and the store: what becomes of each message.
//!
//! Pure. A call is one exchange on a connection; when its caller gives up, the connection is dropped, so no reply reaches
//! a later call. FaultKind a dropped connection has taken in may still arrive.

use crate::clock::Moment;
use crate::rng::Rng;
use crate::scenario::LinkFault;
use std::time::Duration;

/// One candidate's way to the store.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) rng: Rng,
    latency: (Duration, Duration),
    /// FaultKind is wrong, and by which fault.
    faults: Vec<(usize, LinkFault)>,
    /// How many faults keep news away.
    pub(crate) watch_faults: u32,
    /// How late news are, and by which fault.
    watch_delays: Vec<(usize, Duration)>,
    /// The watch is broken, until a reply shows that the store can be reached again.
    pub(crate) watch_is_broken: bool,
    /// News overtake none that came before.
    last_watch_event: Moment,
}

/// FaultKind becomes of a request.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    /// When it arrives, each time.
    pub(crate) arrives: [Option<Duration>; 2],
    /// When the caller hears that the connection broke.
    pub(crate) breaks: Option<Duration>,
    /// Anything but the ordinary.
    pub(crate) is_impaired: bool,
}

impl Link {
    pub(crate) fn new(rng: Rng, latency: (Duration, Duration)) -> Self {
        let (faults, watch_delays, watch_faults, watch_is_broken) =
            (Vec::new(), Vec::new(), 0, false);
        Self {
            rng,
            latency,
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

    /// How long a message takes that nothing happens to.
    pub(crate) fn latency(&mut self) -> Duration {
        let (least, most) = self.latency;
        self.rng.duration_between(least, most)
    }

    /// FaultKind becomes of a request whose caller waits for `timeout`.
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

    /// When a reply comes in, if it does; and whether anything is wrong with that.
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

    /// When news of `now` come in, if they do.
    pub(crate) fn watch_event(&mut self, now: Moment) -> Option<Moment> {
        let link_fault = self.active_fault().unwrap_or_default();
        let is_lost = self
            .happens(link_fault.replies_lost.max(link_fault.requests_lost).max(link_fault.broken));
        self.watch_is_broken |= is_lost || self.watch_faults > 0;
        let late =
            self.happens(link_fault.late).then(|| self.rng.skewed_duration(link_fault.max_delay));
        let lag = self
            .watch_delays
            .last()
            .map(|(_, max_delay)| *max_delay)
            .map(|max_delay| self.rng.skewed_duration(max_delay));
        let arrives = now + self.latency() + late.or(lag).unwrap_or_default();
        self.last_watch_event = self.last_watch_event.max(arrives);
        (!self.watch_is_broken).then_some(self.last_watch_event)
    }

    fn active_fault(&self) -> Option<LinkFault> {
        self.faults.last().map(|(_, link_fault)| *link_fault)
    }

    fn happens(&mut self, permille: u16) -> bool {
        self.rng.permille(permille)
    }
}
