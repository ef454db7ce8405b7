//! Decides which connection of a full listener has to go, so that a newcomer is never refused.
//!
//! Pure. Start at [`Slots::admit`]. Connections hold slots in two groups, as entries of a segmented
//! LRU cache do:
//!
//! * **Newcomers** have sent no whole request yet. The oldest goes first, so a newcomer keeps its
//!   slot until [`NEWCOMERS`] more have come.
//! * **Askers** have sent one. The one that asked the longest ago goes first, so an asker keeps its
//!   slot until [`ASKERS`] others have asked after it. Connections that never ask cannot take it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many connections may hold a slot before their first whole request.
pub(super) const NEWCOMERS: usize = 32;
/// How many may hold one after it: more than an application, a kubelet and a few scrapers need.
pub(super) const ASKERS: usize = 40;

/// The turn of a connection that has sent no whole request.
const NEVER: u64 = 0;

/// When a connection last asked, counted in requests of its listener. Its slot and its task share
/// it.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    last: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
}

impl Turn {
    /// Notes that a whole request has come.
    pub(super) fn ask(&self) {
        let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        self.last.store(request, Ordering::Relaxed);
    }

    fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}

/// The connections of one listener, in the order in which they came. `T` ends one of them.
#[derive(Debug)]
pub(super) struct Slots<T> {
    held: Vec<(T, Turn)>,
    requests: Arc<AtomicU64>,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Self { held: Vec::new(), requests: Arc::default() }
    }

    /// The turn of a connection that is about to be admitted.
    pub(super) fn turn(&self) -> Turn {
        Turn { last: Arc::new(AtomicU64::new(NEVER)), requests: Arc::clone(&self.requests) }
    }

    /// Gives a connection its slot, and returns the connection that has to go for it.
    pub(super) fn admit(&mut self, connection: T, turn: Turn) -> Option<T> {
        self.held.push((connection, turn));
        if self.held.len() <= NEWCOMERS + ASKERS {
            return None;
        }
        let is_new = |held: &(T, Turn)| held.1.last() == NEVER;
        let newcomers = self.held.iter().filter(|held| is_new(held)).count();
        let place = if newcomers > NEWCOMERS {
            self.held.iter().position(is_new)
        } else {
            let askers = self.held.iter().enumerate().filter(|(_, held)| !is_new(held));
            askers.min_by_key(|(_, held)| held.1.last()).map(|(place, _)| place)
        };
        place.map(|place| self.held.remove(place).0)
    }

    /// Frees the slot of a connection that has ended.
    pub(super) fn free(&mut self, is_ended: impl Fn(&T) -> bool) {
        self.held.retain(|(connection, _)| !is_ended(connection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admits connections by number, and keeps their turns.
    struct Listener {
        slots: Slots<usize>,
        turns: Vec<Turn>,
    }

    impl Listener {
        fn new() -> Self {
            Self { slots: Slots::new(), turns: Vec::new() }
        }

        fn accept(&mut self) -> Option<usize> {
            let turn = self.slots.turn();
            self.turns.push(turn.clone());
            self.slots.admit(self.turns.len() - 1, turn)
        }

        fn ask(&self, connection: usize) {
            self.turns[connection].ask();
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
}
