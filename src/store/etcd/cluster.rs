//! Which cluster the endpoints lead to.
//!
//! Pure. Start with [`PinnedCluster::admit`]. The first answer pins a cluster, because the members
//! of two clusters would hold two elections. A restore may give the members another id. So the pin
//! moves once most endpoints belong to one other cluster. The pinned one must not have answered for a
//! lease duration, so that no claim of this candidate is left.

use baton_election::instant::Instant;
use std::time::Duration;

/// The pinned cluster, and the endpoints that belong to others.
pub(super) struct PinnedCluster {
    lease_duration: Duration,
    pinned: Option<Pin>,
    /// For each endpoint, the other cluster that it belonged to since the pinned one answered.
    others: Vec<Option<u64>>,
}

struct Pin {
    id: u64,
    answered_at: Instant,
}

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Membership {
    /// It is the pinned one.
    Pinned,
    /// It replaces the one that was pinned.
    Moved { from: u64 },
    /// It is not the pinned one.
    Foreign { pinned: u64 },
}

/// The effect that an answer may have on the pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    /// Move it, because the machine reads the record of the other cluster.
    Allowed,
    /// Leave it: a write over a record of one cluster must not reach another.
    Forbidden,
}

impl PinnedCluster {
    pub(super) fn new(endpoints: usize, lease_duration: Duration) -> Self {
        Self { lease_duration, pinned: None, others: vec![None; endpoints] }
    }

    /// Whether messages of this cluster count.
    pub(super) fn is(&self, id: u64) -> bool {
        self.pinned.as_ref().is_some_and(|pin| pin.id == id)
    }

    /// Notes that `endpoint` answered at `now` as a member of the cluster `id`.
    pub(super) fn admit(
        &mut self,
        endpoint: usize,
        id: u64,
        now: Instant,
        moves: Moves,
    ) -> Membership {
        let membership = match &self.pinned {
            None => Membership::Pinned,
            Some(pin) if pin.id == id => Membership::Pinned,
            Some(pin) => {
                self.others[endpoint] = Some(id);
                let agreeing = self.others.iter().filter(|other| **other == Some(id)).count();
                let is_gone = now.since(pin.answered_at) >= self.lease_duration
                    && 2 * agreeing > self.others.len();
                match moves {
                    Moves::Allowed if is_gone => Membership::Moved { from: pin.id },
                    Moves::Allowed | Moves::Forbidden => Membership::Foreign { pinned: pin.id },
                }
            }
        };
        match membership {
            Membership::Pinned | Membership::Moved { .. } => {
                self.pinned = Some(Pin { id, answered_at: now });
                self.others.fill(None);
            }
            Membership::Foreign { .. } => {}
        }
        membership
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);
    const LATE: u64 = 15;

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    /// Three endpoints whose cluster 1 answered at the time 0.
    fn pinned() -> PinnedCluster {
        let mut cluster = PinnedCluster::new(3, LEASE);
        assert_eq!(cluster.admit(0, 1, at(0), Moves::Allowed), Membership::Pinned);
        cluster
    }

    #[test]
    fn pin_moves_to_the_cluster_of_most_endpoints() {
        let mut cluster = pinned();
        let foreign = Membership::Foreign { pinned: 1 };
        assert_eq!(cluster.admit(0, 2, at(LATE), Moves::Allowed), foreign);
        assert_eq!(cluster.admit(0, 2, at(LATE), Moves::Allowed), foreign, "one endpoint, twice");
        assert_eq!(cluster.admit(1, 3, at(LATE), Moves::Allowed), foreign, "a third cluster");
        let moved = Membership::Moved { from: 1 };
        assert_eq!(cluster.admit(1, 2, at(LATE), Moves::Allowed), moved);
        assert!(cluster.is(2) && !cluster.is(1));
    }

    /// A claim may be left until a lease duration after the last answer.
    #[test]
    fn pin_stays_for_a_lease_duration() {
        let mut cluster = PinnedCluster::new(1, LEASE);
        cluster.admit(0, 1, at(0), Moves::Allowed);
        let foreign = Membership::Foreign { pinned: 1 };
        assert_eq!(cluster.admit(0, 2, at(LATE - 1), Moves::Allowed), foreign);
        assert_eq!(cluster.admit(0, 1, at(LATE - 1), Moves::Allowed), Membership::Pinned);
        assert_eq!(cluster.admit(0, 2, at(LATE), Moves::Allowed), foreign, "it answered since");
    }

    #[test]
    fn answer_of_the_pinned_cluster_discards_what_others_said() {
        let mut cluster = pinned();
        cluster.admit(1, 2, at(1), Moves::Allowed);
        cluster.admit(0, 1, at(2), Moves::Allowed);
        let foreign = Membership::Foreign { pinned: 1 };
        assert_eq!(cluster.admit(2, 2, at(2 + LATE), Moves::Allowed), foreign);
    }

    #[test]
    fn write_moves_no_pin() {
        let mut cluster = PinnedCluster::new(1, LEASE);
        cluster.admit(0, 1, at(0), Moves::Allowed);
        let foreign = Membership::Foreign { pinned: 1 };
        assert_eq!(cluster.admit(0, 2, at(LATE), Moves::Forbidden), foreign);
        assert!(cluster.is(1));
    }
}
