//! What is still to happen, by when; what happens at one moment, in the order in which it was decided.
//!
//! Pure. Start with [`Queue::put`].

use crate::clock::Moment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things that happen at some moment.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// When, in which order, and the place of the thing: those are too large to be moved about.
    order: BinaryHeap<Reverse<(Moment, u64, usize)>>,
    things: Vec<Option<T>>,
    free: Vec<usize>,
    decided: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), things: Vec::new(), free: Vec::new(), decided: 0 }
    }
}

impl<T> Queue<T> {
    /// When the next thing happens.
    pub(crate) fn next(&self) -> Moment {
        self.order.peek().map_or(Moment::NEVER, |Reverse((at, ..))| *at)
    }

    pub(crate) fn put(&mut self, at: Moment, thing: T) {
        self.decided += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.things.push(None);
            self.things.len() - 1
        });
        self.things[place] = Some(thing);
        self.order.push(Reverse((at, self.decided, place)));
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        let Reverse((_, _, place)) = self.order.pop()?;
        self.free.push(place);
        self.things[place].take()
    }
}
