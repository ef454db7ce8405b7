//! Future events, ordered by time, and by insertion among events of the same moment.
//!
//! Pure. Start with [`EventQueue::push`].

use crate::clock::Moment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Items that are due at some moment.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    /// Due time, insertion order, and slot. Items stay in their slots because they are expensive to
    /// move.
    order: BinaryHeap<Reverse<(Moment, u64, usize)>>,
    items: Vec<Option<T>>,
    free: Vec<usize>,
    pushed: u64,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), items: Vec::new(), free: Vec::new(), pushed: 0 }
    }
}

impl<T> EventQueue<T> {
    /// When the next item is due.
    pub(crate) fn next_at(&self) -> Moment {
        self.order.peek().map_or(Moment::NEVER, |Reverse((at, ..))| *at)
    }

    pub(crate) fn push(&mut self, at: Moment, item: T) {
        self.pushed += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() - 1
        });
        self.items[slot] = Some(item);
        self.order.push(Reverse((at, self.pushed, slot)));
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let Reverse((_, _, slot)) = self.order.pop()?;
        self.free.push(slot);
        self.items[slot].take()
    }
}
