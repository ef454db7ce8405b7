//! Future events, ordered by time, and by insertion among events of the same moment.
//!
//! Pure. Start with [`EventQueue::push`].

use baton_sim::clock::Moment;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Items that are due at some moment.
#[derive(Debug)]
pub(super) struct EventQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Moment,
    number: u64,
    item: T,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }
}

impl<T> EventQueue<T> {
    /// When the next item is due.
    pub(super) fn next_at(&self) -> Moment {
        self.heap.peek().map_or(Moment::NEVER, |Reverse(entry)| entry.at)
    }

    pub(super) fn push(&mut self, at: Moment, item: T) {
        self.pushed += 1;
        self.heap.push(Reverse(Entry { at, number: self.pushed, item }));
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.heap.pop().map(|Reverse(entry)| entry.item)
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn items_are_ordered_by_time_then_insertion() {
        let mut queue = EventQueue::default();
        for (seconds, item) in [(2, "c"), (1, "a"), (3, "e"), (1, "b"), (2, "d")] {
            queue.push(Moment::START + Duration::from_secs(seconds), item);
        }
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(popped, ["a", "b", "c", "d", "e"]);
    }
}
