//! Decides which connection of a full listener has to go, so that a newcomer is never refused.
//!
//! Pure. Start at [`Slots::admit`]. Connections hold slots in two groups, as entries of a segmented
//! LRU cache do:
//!
//! * **Newcomers** have sent no whole request yet. The oldest goes first, so a newcomer keeps its
//!   slot until [`NEWCOMERS`] more have come.
//! * **Askers** have sent one. Idle askers go before busy ones, whose request is being answered.
//!   Among equals, the one that asked the longest ago goes first. Connections that never ask cannot
//!   take an asker's slot, and a kept request outlasts everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many connections may hold a slot before their first whole request.
pub(super) const NEWCOMERS: usize = 32;

/// The turn of a connection that has sent no whole request.
const NEVER: u64 = 0;

/// When a connection last asked, counted in requests of its listener, and whether that request is
/// being answered. Its slot, its task and the handler of its request share it.
#[derive(Debug, Clone)]
pub struct Turn {
    state: Arc<State>,
    requests: Arc<AtomicU64>,
}

#[derive(Debug)]
struct State {
    last: AtomicU64,
    is_busy: AtomicBool,
    is_kept: AtomicBool,
}

/// How much an asker's connection matters now. The least goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Idle,
    Busy,
    Kept,
}

impl Turn {
    /// The turn of a connection that holds no slot, such as one that a fuzzer makes up.
    pub fn without_slot() -> Self {
        Self::counted_in(Arc::default())
    }

    fn counted_in(requests: Arc<AtomicU64>) -> Self {
        let state = State {
            last: AtomicU64::new(NEVER),
            is_busy: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
        };
        Self { state: Arc::new(state), requests }
    }

    /// Notes that a whole request has come. The connection is busy until the result is dropped.
    pub(super) fn ask(&self) -> Busy {
        let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        self.state.last.store(request, Ordering::Relaxed);
        self.state.is_busy.store(true, Ordering::Relaxed);
        Busy(Arc::clone(&self.state))
    }

    /// Keeps the connection until its current request is answered, whoever else comes.
    pub fn keep(&self) {
        self.state.is_kept.store(true, Ordering::Relaxed);
    }

    fn last(&self) -> u64 {
        self.state.last.load(Ordering::Relaxed)
    }

    fn weight(&self) -> Weight {
        if self.state.is_kept.load(Ordering::Relaxed) {
            Weight::Kept
        } else if self.state.is_busy.load(Ordering::Relaxed) {
            Weight::Busy
        } else {
            Weight::Idle
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<State>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Relaxed);
        self.0.is_kept.store(false, Ordering::Relaxed);
    }
}

/// The connections of one address or several, in the order in which they came. `T` ends one of
/// them.
#[derive(Debug)]
pub(super) struct Slots<T> {
    held: Vec<(T, Turn)>,
    askers: usize,
    requests: Arc<AtomicU64>,
}

impl<T> Slots<T> {
    /// Slots for [`NEWCOMERS`] and this many askers.
    pub(super) fn new(askers: usize) -> Self {
        Self { held: Vec::new(), askers, requests: Arc::default() }
    }

    /// The turn of a connection that is about to be admitted.
    pub(super) fn turn(&self) -> Turn {
        Turn::counted_in(Arc::clone(&self.requests))
    }

    /// Gives a connection its slot, and returns the connection that has to go for it.
    pub(super) fn admit(&mut self, connection: T, turn: Turn) -> Option<T> {
        self.held.push((connection, turn));
        if self.held.len() <= NEWCOMERS + self.askers {
            return None;
        }
        let newcomers = self.held.iter().filter(|held| is_newcomer(held)).count();
        let asker = if newcomers > NEWCOMERS { None } else { self.least_asker() };
        // Where every asker is kept, a newcomer goes: the newest connection is one.
        let place = asker.or_else(|| self.held.iter().position(is_newcomer));
        place.map(|place| self.held.remove(place).0)
    }

    /// The place of the asker that has to go first.
    fn least_asker(&self) -> Option<usize> {
        let askers = self.held.iter().enumerate().filter(|(_, held)| !is_newcomer(held));
        let weighed = askers.map(|(place, (_, turn))| (turn.weight(), turn.last(), place));
        weighed.min().and_then(|(weight, _, place)| (weight < Weight::Kept).then_some(place))
    }

    /// Frees the slot of a connection that has ended.
    pub(super) fn free(&mut self, is_ended: impl Fn(&T) -> bool) {
        self.held.retain(|(connection, _)| !is_ended(connection));
    }
}

fn is_newcomer<T>(held: &(T, Turn)) -> bool {
    held.1.last() == NEVER
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKERS: usize = 40;

    /// Admits connections by number, and keeps their turns.
    struct Listener {
        slots: Slots<usize>,
        turns: Vec<Turn>,
    }

    impl Listener {
        fn new() -> Self {
            Self { slots: Slots::new(ASKERS), turns: Vec::new() }
        }

        fn accept(&mut self) -> Option<usize> {
            let turn = self.slots.turn();
            self.turns.push(turn.clone());
            self.slots.admit(self.turns.len() - 1, turn)
        }

        /// A request that is answered at once.
        fn ask(&self, connection: usize) {
            drop(self.begin(connection));
        }

        /// A request that is being answered until the result is dropped.
        fn begin(&self, connection: usize) -> Busy {
            self.turns[connection].ask()
        }

        /// Admits a connection that asks once: the one that goes for it.
        fn accept_asker(&mut self) -> Option<usize> {
            let evicted = self.accept();
            self.ask(self.turns.len() - 1);
            evicted
        }
    }

    #[test]
    fn newcomers_that_never_ask_evict_no_asker() {
        let mut listener = Listener::new();
        for asker in 0..ASKERS {
            assert_eq!(listener.accept(), None);
            listener.ask(asker);
        }
        for _ in 0..NEWCOMERS {
            assert_eq!(listener.accept(), None);
        }
        for come in 0..1000 {
            assert_eq!(listener.accept(), Some(ASKERS + come), "the oldest newcomer goes");
        }
    }

    #[test]
    fn a_newcomer_outlasts_as_many_newcomers_as_fit() {
        let mut listener = Listener::new();
        while listener.accept().is_none() {}
        let newcomer = listener.turns.len() - 1;
        for _ in 1..NEWCOMERS + ASKERS {
            assert_ne!(listener.accept(), Some(newcomer));
        }
        assert_eq!(listener.accept(), Some(newcomer));
    }

    #[test]
    fn the_asker_that_asked_the_longest_ago_goes() {
        let mut listener = Listener::new();
        for asker in 0..NEWCOMERS + ASKERS {
            assert_eq!(listener.accept(), None);
            listener.ask(asker);
        }
        listener.ask(0);
        assert_eq!(listener.accept(), Some(1));
        assert_eq!(listener.accept(), Some(2));
    }

    #[test]
    fn a_connection_that_ended_frees_its_slot() {
        let mut listener = Listener::new();
        for _ in 0..NEWCOMERS + ASKERS {
            assert_eq!(listener.accept(), None);
        }
        listener.slots.free(|connection| *connection == 3);
        assert_eq!(listener.accept(), None);
        assert_eq!(listener.accept(), Some(0));
    }

    #[test]
    fn a_busy_asker_outlasts_every_idle_one() {
        let mut listener = Listener::new();
        listener.accept();
        let busy = listener.begin(0);
        for _ in 0..1000 {
            assert_ne!(listener.accept_asker(), Some(0), "its request is being answered");
        }
        drop(busy);
        assert_eq!(listener.accept_asker(), Some(0), "it asked the longest ago");
    }

    #[test]
    fn the_longest_busy_asker_goes_when_all_are_busy() {
        let mut listener = Listener::new();
        let mut busy = Vec::new();
        for asker in 0..NEWCOMERS + ASKERS {
            assert_eq!(listener.accept(), None);
            busy.push(listener.begin(asker));
        }
        assert_eq!(listener.accept(), Some(0));
        assert_eq!(listener.accept(), Some(1));
    }

    #[test]
    fn a_kept_request_outlasts_every_busy_asker() {
        let mut listener = Listener::new();
        listener.accept();
        let kept = listener.begin(0);
        listener.turns[0].keep();
        let mut busy = Vec::new();
        for asker in 1..1000 {
            assert_ne!(listener.accept(), Some(0), "it is kept");
            busy.push(listener.begin(asker));
        }
        drop(kept);
        assert_eq!(listener.accept(), Some(0), "its answer is given");
    }

    #[test]
    fn a_newcomer_goes_where_every_asker_is_kept() {
        let mut listener = Listener::new();
        let mut kept = Vec::new();
        for asker in 0..NEWCOMERS + ASKERS {
            assert_eq!(listener.accept(), None);
            kept.push(listener.begin(asker));
            listener.turns[asker].keep();
        }
        assert_eq!(listener.accept(), Some(NEWCOMERS + ASKERS));
    }
}
