//! The previous run of a candidate, whose process has certainly ended.
//!
//! Pure. Start with [`EndedRun`]. The caller must have proof: the previous run held a lock until it
//! ended, and this run holds that lock now. So this run need not wait for the lease of the previous
//! run, as every other candidate must.

use crate::identity::Identity;
use crate::instant::Instant;

/// The previous run of this candidate, which ended without a release.
///
/// Its process makes no further promise and sends no further write. A write that it sent before it
/// ended may still be applied, so its record is released only over the version that was read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EndedRun {
    /// The identity under which it took part.
    pub identity: Identity,
    /// When its last promise expires, at the latest. Its record is released only after that.
    pub promised_until: Instant,
}
