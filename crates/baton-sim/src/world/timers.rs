//! The timers of one candidate.
//!
//! Pure. Start with [`Timers::next`]. The world asks at each step which timer fires first, and most
//! steps set few timers or none. So the answer is computed when a timer is set.

use crate::clock::Moment;

/// Why a node wakes up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// The process resumes.
    Resume,
    /// The process starts.
    Start,
    /// The call times out.
    CallTimeout,
    /// The machine asked to be woken.
    Wake,
    /// The application polls.
    Query,
}

/// When each timer fires.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    at: [Moment; Timer::ALL.len()],
    next: (Moment, Timer),
}

impl Timer {
    const ALL: [Self; 5] = [Self::Resume, Self::Start, Self::CallTimeout, Self::Wake, Self::Query];
}

impl Default for Timers {
    fn default() -> Self {
        Self { at: [Moment::NEVER; Timer::ALL.len()], next: (Moment::NEVER, Timer::Resume) }
    }
}

impl Timers {
    /// When the first timer fires, and which one. Of two at the same moment it is the one that is
    /// declared first.
    pub(super) const fn next(&self) -> (Moment, Timer) {
        self.next
    }

    /// When `timer` fires.
    pub(super) const fn at(&self, timer: Timer) -> Moment {
        self.at[timer as usize]
    }

    pub(super) fn set(&mut self, timer: Timer, at: Moment) {
        self.at[timer as usize] = at;
        self.next = (Moment::NEVER, Timer::Resume);
        for (at, timer) in self.at.into_iter().zip(Timer::ALL) {
            self.next = if at < self.next.0 { (at, timer) } else { self.next };
        }
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        self.set(timer, Moment::NEVER);
    }
}
