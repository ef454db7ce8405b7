//! The previous run of a candidate, whose process has certainly ended.
//!
//! Pure. Start with [`EndedRun`]. The caller has the proof: the previous run held a lock to its end,
//! and this run holds it now. So the next run need not wait for the lease of the previous one, as
//! all others must.

use crate::identity::Identity;
use crate::instant::Instant;

/// A run that has ended in the same place as this one, without a release.
///
/// Its process makes no promise any more, and starts no write. A write that it sent before it ended
/// may still be applied, so its record is released only over the version that was read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EndedRun {
    /// The identity under which it took part.
    pub identity: Identity,
    /// Until when its application may act: when its last promise expires at the latest.
    pub acts_until: Instant,
}
