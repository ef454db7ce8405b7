//! The way between a candidate and the store: what becomes of each message.
//!
//! Pure. A call is one exchange on a connection; when its caller gives up, the connection is dropped, so no reply reaches
//! a later call. What a dropped connection has taken in may still arrive.

use crate::clock::Moment;
use crate::rng::Chance;
use crate::scenario::Trouble;
use std::time::Duration;

/// One candidate's way to the store.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) chance: Chance,
    latency: (Duration, Duration),
    /// What is wrong, and by which fault.
    troubles: Vec<(usize, Trouble)>,
    /// How many faults keep news away.
    pub(crate) deafening: u32,
    /// How late news are, and by which fault.
    lags: Vec<(usize, Duration)>,
    /// The watch is broken, until a reply shows that the store can be reached again.
    pub(crate) is_deaf: bool,
    /// News overtake none that came before.
    last_news: Moment,
}

/// What becomes of a request.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// When it arrives, each time.
    pub(crate) arrives: [Option<Duration>; 2],
    /// When the caller hears that the connection broke.
    pub(crate) breaks: Option<Duration>,
    /// Anything but the ordinary.
    pub(crate) is_harmed: bool,
}

impl Link {
    pub(crate) fn new(chance: Chance, latency: (Duration, Duration)) -> Self {
        let (troubles, lags, deafening, is_deaf) = (Vec::new(), Vec::new(), 0, false);
        Self { chance, latency, troubles, deafening, lags, is_deaf, last_news: Moment::START }
    }

    pub(crate) fn begin(&mut self, fault: usize, trouble: Trouble) {
        self.troubles.push((fault, trouble));
    }

    pub(crate) fn lag(&mut self, fault: usize, longest: Duration) {
        self.lags.push((fault, longest));
    }

    pub(crate) fn end(&mut self, fault: usize) {
        self.troubles.retain(|(other, _)| *other != fault);
        self.lags.retain(|(other, _)| *other != fault);
    }

    /// How long a message takes that nothing happens to.
    pub(crate) fn latency(&mut self) -> Duration {
        let (least, most) = self.latency;
        self.chance.lasting(least, most)
    }

    /// What becomes of a request whose caller waits for `patience`.
    pub(crate) fn request(&mut self, patience: Duration) -> Fate {
        let on_time = self.latency();
        let Some(trouble) = self.trouble() else {
            return Fate { arrives: [Some(on_time), None], breaks: None, is_harmed: false };
        };
        let (lost, late) = (self.has(trouble.requests_lost), self.has(trouble.late));
        let (broken, twice) = (self.has(trouble.broken), self.has(trouble.twice));
        let arrives =
            if late { on_time + self.chance.of_any_size(trouble.longest) } else { on_time };
        let again = arrives + self.chance.of_any_size(trouble.longest);
        Fate {
            arrives: [Some(arrives).filter(|_| !lost), Some(again).filter(|_| twice && !lost)],
            breaks: broken.then(|| self.chance.lasting(on_time, patience)),
            is_harmed: lost || late || broken || twice,
        }
    }

    /// When a reply comes in, if it does; and whether anything is wrong with that.
    pub(crate) fn reply(&mut self) -> (Option<Duration>, bool) {
        let on_time = self.latency();
        let Some(trouble) = self.trouble() else { return (Some(on_time), false) };
        if self.has(trouble.replies_lost) {
            (None, true)
        } else if self.has(trouble.late) {
            (Some(on_time + self.chance.of_any_size(trouble.longest)), true)
        } else {
            (Some(on_time), false)
        }
    }

    /// When news of `now` come in, if they do.
    pub(crate) fn news(&mut self, now: Moment) -> Option<Moment> {
        let trouble = self.trouble().unwrap_or_default();
        let is_cut = self.has(trouble.replies_lost.max(trouble.requests_lost).max(trouble.broken));
        self.is_deaf |= is_cut || self.deafening > 0;
        let late = self.has(trouble.late).then(|| self.chance.of_any_size(trouble.longest));
        let lag = self
            .lags
            .last()
            .map(|(_, longest)| *longest)
            .map(|longest| self.chance.of_any_size(longest));
        let arrives = now + self.latency() + late.or(lag).unwrap_or_default();
        self.last_news = self.last_news.max(arrives);
        (!self.is_deaf).then_some(self.last_news)
    }

    fn trouble(&self) -> Option<Trouble> {
        self.troubles.last().map(|(_, trouble)| *trouble)
    }

    fn has(&mut self, cases: u16) -> bool {
        self.chance.in_thousand(cases)
    }
}
