//! The history that etcd keeps of a record.
//!
//! Pure. Start with [`Uncompacted`].

use std::fmt;
use std::time::Duration;

/// A history of this length shows that etcd is not compacted hourly, as docs/operating/etcd.md
/// advises.
const LIMIT: Duration = Duration::from_hours(3);

/// etcd keeps a long history; displays as the cause and the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncompacted(Duration);

impl Uncompacted {
    /// The finding, if a history of the length `kept` is long enough for it.
    pub fn if_long(kept: Duration) -> Option<Self> {
        (kept >= LIMIT).then_some(Self(kept))
    }
}

impl fmt::Display for Uncompacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = humantime::format_duration(Duration::from_secs(self.0.as_secs()));
        write!(
            f,
            "etcd still has the record as it was {kept} ago: unless it is to keep so much history, start \
             it with --auto-compaction-mode=periodic --auto-compaction-retention=1h, or its database \
             grows until it refuses writes"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_between_two_hourly_compactions_is_no_finding() {
        assert_eq!(Uncompacted::if_long(Duration::from_hours(2)), None);
        let found = Uncompacted::if_long(Duration::from_hours(5)).expect("it is long");
        assert!(found.to_string().contains("as it was 5h ago"), "{found}");
    }
}
