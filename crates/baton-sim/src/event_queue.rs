//! Future events, ordered by time, and by insertion among events of the same moment.
//!
//! Pure. Start with [`EventQueue::push`]. Few events wait at a time, and most new ones are due soon.
//! An insertion near the end moves few events, so a sorted vector takes fewer instructions than a
//! heap.

use crate::clock::Moment;

/// Items that are due at some moment.
#[derive(Clone, Debug)]
pub(crate) struct EventQueue<T> {
    /// Due time and slot, the next one last. Items stay in their slots because they are expensive
    /// to move.
    order: Vec<(Moment, usize)>,
    items: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { order: Vec::new(), items: Vec::new(), free: Vec::new() }
    }
}

impl<T> EventQueue<T> {
    /// When the next item is due.
    pub(crate) fn next_at(&self) -> Moment {
        self.order.last().map_or(Moment::NEVER, |(at, _)| *at)
    }

    /// The waiting items with their due times, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Moment, &T)> {
        self.order.iter().filter_map(|(at, slot)| Some((*at, self.items[*slot].as_ref()?)))
    }

    pub(crate) fn push(&mut self, at: Moment, item: T) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() - 1
        });
        self.items[slot] = Some(item);
        let later = self.order.partition_point(|(due, _)| *due > at);
        self.order.insert(later, (at, slot));
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let (_, slot) = self.order.pop()?;
        self.free.push(slot);
        self.items[slot].take()
    }
}

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
        assert_eq!(queue.next_at(), Moment::NEVER);
    }
}
