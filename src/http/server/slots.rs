//! Decides which connection to evict when a listener is full, so that a new client is never
//! refused.
//!
//! Pure. Start with [`Slots::evict`]. Connections hold slots in two groups, like the entries of a
//! segmented LRU cache:
//!
//! * **Newcomers** have not sent a whole request. The oldest is evicted first, so a newcomer keeps
//!   its slot until [`MAX_NEWCOMERS`] more arrive.
//! * **Known** connections have sent one. Idle ones are evicted before busy ones, whose request is
//!   being answered, and among equals the one with the oldest request first. Newcomers cannot evict
//!   them.
//!
//! A connection with a pinned request is never evicted. It uses a pinned slot if one is free, and a
//! known slot otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of slots for newcomers.
pub(super) const MAX_NEWCOMERS: usize = 32;

/// How many connections a listener keeps beside those of newcomers.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Known connections without a pinned request.
    pub known: usize,
    /// Slots for pinned requests. Beyond that, pinned requests use slots of known connections.
    pub pinned: usize,
}

/// The last request of a newcomer, which has sent none.
const NEVER: u64 = 0;

/// A connection's last request, as a count of its listener's requests, and whether it is being
/// answered. The connection's slot, its task, and its request's handler share it.
#[derive(Debug, Clone)]
pub struct Activity {
    flags: Arc<ActivityFlags>,
    requests: Arc<AtomicU64>,
}

#[derive(Debug)]
struct ActivityFlags {
    last_request: AtomicU64,
    is_busy: AtomicBool,
    is_pinned: AtomicBool,
}

/// The priority of a known connection. The lowest is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    Idle,
    Busy,
    Pinned,
}

impl Activity {
    /// The activity of a connection without a slot, for tests.
    pub fn without_slot() -> Self {
        Self::counted_in(Arc::default())
    }

    fn counted_in(requests: Arc<AtomicU64>) -> Self {
        let flags = ActivityFlags {
            last_request: AtomicU64::new(NEVER),
            is_busy: AtomicBool::new(false),
            is_pinned: AtomicBool::new(false),
        };
        Self { flags: Arc::new(flags), requests }
    }

    /// Records a whole request. The connection is busy until the result is dropped.
    pub(super) fn begin_request(&self) -> Busy {
        let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        self.flags.last_request.store(request, Ordering::Relaxed);
        self.flags.is_busy.store(true, Ordering::Relaxed);
        Busy(Arc::clone(&self.flags))
    }

    /// Protects the connection from eviction until its current request is answered.
    pub fn pin(&self) {
        self.flags.is_pinned.store(true, Ordering::Relaxed);
    }

    fn last_request(&self) -> u64 {
        self.flags.last_request.load(Ordering::Relaxed)
    }

    fn priority(&self) -> Priority {
        if self.flags.is_pinned.load(Ordering::Relaxed) {
            Priority::Pinned
        } else if self.flags.is_busy.load(Ordering::Relaxed) {
            Priority::Busy
        } else {
            Priority::Idle
        }
    }
}

/// A guard for a request that is being answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<ActivityFlags>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Relaxed);
        self.0.is_pinned.store(false, Ordering::Relaxed);
    }
}

/// The connections of one or more listeners, in the order of their arrival. `T` is a handle to one.
#[derive(Debug)]
pub(super) struct Slots<T> {
    held: Vec<(T, Activity)>,
    limits: Limits,
    requests: Arc<AtomicU64>,
}

impl<T> Slots<T> {
    /// Slots for [`MAX_NEWCOMERS`] newcomers and for the connections within `limits`.
    pub(super) fn new(limits: Limits) -> Self {
        Self { held: Vec::new(), limits, requests: Arc::default() }
    }

    /// The activity of a connection to admit.
    pub(super) fn new_activity(&self) -> Activity {
        Activity::counted_in(Arc::clone(&self.requests))
    }

    /// Gives a connection a slot. Then [`Self::evict`] until it returns `None`.
    pub(super) fn admit(&mut self, connection: T, activity: Activity) {
        self.held.push((connection, activity));
    }

    /// Removes and returns the connection to evict next; `None` within the limits.
    pub(super) fn evict(&mut self) -> Option<T> {
        let pinned = self.held.iter().filter(|held| held.1.priority() == Priority::Pinned).count();
        let own_slots = pinned.min(self.limits.pinned);
        if self.held.len() <= MAX_NEWCOMERS + self.limits.known + own_slots {
            return None;
        }
        let newcomers = self.held.iter().filter(|held| is_newcomer(held)).count();
        let known = if newcomers > MAX_NEWCOMERS { None } else { self.first_evictable() };
        // If every known connection is pinned, a newcomer is evicted: the newest connection is one.
        let index = known.or_else(|| self.held.iter().position(is_newcomer));
        index.map(|index| self.held.remove(index).0)
    }

    /// The index of the known connection to evict first.
    fn first_evictable(&self) -> Option<usize> {
        let known = self.held.iter().enumerate().filter(|(_, held)| !is_newcomer(held));
        let ranked = known
            .map(|(index, (_, activity))| (activity.priority(), activity.last_request(), index));
        ranked.min().and_then(|(priority, _, index)| (priority < Priority::Pinned).then_some(index))
    }

    /// Frees the slots of connections that have ended.
    pub(super) fn free(&mut self, is_ended: impl Fn(&T) -> bool) {
        self.held.retain(|(connection, _)| !is_ended(connection));
    }
}

fn is_newcomer<T>(held: &(T, Activity)) -> bool {
    held.1.last_request() == NEVER
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_KNOWN: usize = 40;
    const MAX_PINNED: usize = 4;

    /// Admits connections by number, and keeps their activities.
    struct Listener {
        slots: Slots<usize>,
        activities: Vec<Activity>,
    }

    impl Listener {
        fn new() -> Self {
            let limits = Limits { known: MAX_KNOWN, pinned: MAX_PINNED };
            Self { slots: Slots::new(limits), activities: Vec::new() }
        }

        fn accept(&mut self) -> Option<usize> {
            let activity = self.slots.new_activity();
            self.activities.push(activity.clone());
            self.slots.admit(self.activities.len() - 1, activity);
            self.slots.evict()
        }

        /// Sends a request that is answered at once.
        fn request(&self, connection: usize) {
            drop(self.begin(connection));
        }

        /// Sends a request that is being answered until the result is dropped.
        fn begin(&self, connection: usize) -> Busy {
            self.activities[connection].begin_request()
        }

        /// Admits a connection that sends a request. Returns the evicted connection.
        fn accept_known(&mut self) -> Option<usize> {
            let evicted = self.accept();
            self.request(self.activities.len() - 1);
            evicted
        }
    }

    #[test]
    fn newcomers_never_evict_known_connections() {
        let mut listener = Listener::new();
        for known in 0..MAX_KNOWN {
            assert_eq!(listener.accept(), None);
            listener.request(known);
        }
        for _ in 0..MAX_NEWCOMERS {
            assert_eq!(listener.accept(), None);
        }
        for count in 0..1000 {
            assert_eq!(
                listener.accept(),
                Some(MAX_KNOWN + count),
                "the oldest newcomer is evicted"
            );
        }
    }

    #[test]
    fn newcomer_stays_until_all_slots_have_newer_newcomers() {
        let mut listener = Listener::new();
        while listener.accept().is_none() {}
        let newcomer = listener.activities.len() - 1;
        for _ in 1..MAX_NEWCOMERS + MAX_KNOWN {
            assert_ne!(listener.accept(), Some(newcomer));
        }
        assert_eq!(listener.accept(), Some(newcomer));
    }

    #[test]
    fn known_connection_with_oldest_request_is_evicted() {
        let mut listener = Listener::new();
        for known in 0..MAX_NEWCOMERS + MAX_KNOWN {
            assert_eq!(listener.accept(), None);
            listener.request(known);
        }
        listener.request(0);
        assert_eq!(listener.accept(), Some(1));
        assert_eq!(listener.accept(), Some(2));
    }

    #[test]
    fn ended_connection_frees_its_slot() {
        let mut listener = Listener::new();
        for _ in 0..MAX_NEWCOMERS + MAX_KNOWN {
            assert_eq!(listener.accept(), None);
        }
        listener.slots.free(|connection| *connection == 3);
        assert_eq!(listener.accept(), None);
        assert_eq!(listener.accept(), Some(0));
    }

    #[test]
    fn idle_connections_are_evicted_before_a_busy_one() {
        let mut listener = Listener::new();
        listener.accept();
        let busy = listener.begin(0);
        for _ in 0..1000 {
            assert_ne!(listener.accept_known(), Some(0), "its request is being answered");
        }
        drop(busy);
        assert_eq!(listener.accept_known(), Some(0), "its request is the oldest");
    }

    #[test]
    fn longest_busy_connection_is_evicted_if_all_are_busy() {
        let mut listener = Listener::new();
        let mut busy = Vec::new();
        for known in 0..MAX_NEWCOMERS + MAX_KNOWN {
            assert_eq!(listener.accept(), None);
            busy.push(listener.begin(known));
        }
        assert_eq!(listener.accept(), Some(0));
        assert_eq!(listener.accept(), Some(1));
    }

    #[test]
    fn pinned_request_is_never_evicted() {
        let mut listener = Listener::new();
        listener.accept();
        let pinned = listener.begin(0);
        listener.activities[0].pin();
        let mut busy = Vec::new();
        for known in 1..1000 {
            assert_ne!(listener.accept(), Some(0), "it is pinned");
            busy.push(listener.begin(known));
        }
        drop(pinned);
        assert_eq!(listener.accept(), Some(0), "it is answered");
    }

    #[test]
    fn newcomer_is_evicted_if_all_known_are_pinned() {
        let mut listener = Listener::new();
        let mut pinned = Vec::new();
        for known in 0..MAX_NEWCOMERS + MAX_KNOWN + MAX_PINNED {
            assert_eq!(listener.accept(), None);
            pinned.push(listener.begin(known));
            listener.activities[known].pin();
        }
        assert_eq!(listener.accept(), Some(MAX_NEWCOMERS + MAX_KNOWN + MAX_PINNED));
    }

    #[test]
    fn pinned_request_takes_no_slot_of_the_others() {
        let mut listener = Listener::new();
        for known in 0..MAX_NEWCOMERS + MAX_KNOWN {
            assert_eq!(listener.accept(), None);
            listener.request(known);
        }
        let pinned = listener.begin(0);
        listener.activities[0].pin();
        assert_eq!(listener.accept(), None);
        assert_eq!(listener.accept(), Some(1));
        drop(pinned);
        assert_eq!(listener.slots.evict(), Some(2), "its slot is gone");
        assert_eq!(listener.slots.evict(), None);
    }
}
