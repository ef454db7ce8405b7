//! Hashes the trace of a run, so that two builds can be compared seed by seed.
//!
//! Pure. Start with [`TraceHash`]. The hash is FNV-1a with 64 bits. It covers the values of fields
//! and the positions of variants, not their names. Numbers have the same width on every machine, so
//! a 32-bit build gives the same hash.

use crate::trace::{Observer, TraceContext, TraceEvent};
use baton_election::machine::Election;
use std::hash::{Hash, Hasher};

/// The hash of nothing.
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Hashes every event together with its true time.
pub(crate) struct TraceHash(Fnv);

impl TraceHash {
    pub(crate) const fn new() -> Self {
        Self(Fnv(OFFSET_BASIS))
    }

    /// The hash of all events so far.
    pub(crate) fn value(&self) -> u64 {
        self.0.finish()
    }
}

impl<E: Election<Request: Hash, Event: Hash> + Hash> Observer<E> for TraceHash {
    fn observe(&mut self, context: &TraceContext<'_>, event: &TraceEvent<'_, E>) {
        context.now.hash(&mut self.0);
        event.hash(&mut self.0);
    }
}

/// The hash of `value`.
pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = Fnv(OFFSET_BASIS);
    value.hash(&mut hasher);
    hasher.finish()
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write(&[number]);
    }

    fn write_u32(&mut self, number: u32) {
        self.write(&number.to_le_bytes());
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_u128(&mut self, number: u128) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write(&(number as i64).to_le_bytes());
    }
}
