//! Which cluster the endpoints lead to.
//!
//! Pure. Start with [`PinnedCluster::admit`]. The first answer pins a cluster, because the members
//! of two clusters would hold two elections. A restore may give the members another id. So the pin
//! moves once most endpoints belong to one other cluster, and only foreign members have answered for
//! a lease duration. In that time every endpoint is asked, and no claim of this candidate is left.

use baton_election::instant::Instant;
use std::time::Duration;

/// The pinned cluster, and the endpoints that belong to others.
pub(super) struct PinnedCluster {
    lease_duration: Duration,
    pinned: Option<u64>,
    /// When a foreign member first answered since the pinned cluster did.
    foreign_since: Option<Instant>,
    /// For each endpoint, the other cluster that it belonged to in that time.
    others: Vec<Option<u64>>,
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
        let others = vec![None; endpoints];
        Self { lease_duration, pinned: None, foreign_since: None, others }
    }

    /// Notes a message of a watch from the cluster `id`. Returns whether it counts: only those of
    /// the pinned one do.
    pub(super) fn hears(&mut self, id: u64) -> bool {
        let is_pinned = self.pinned == Some(id);
        if is_pinned {
            self.pin(id);
        }
        is_pinned
    }

    /// Notes that `endpoint` answered at `now` as a member of the cluster `id`.
    pub(super) fn admit(
        &mut self,
        endpoint: usize,
        id: u64,
        now: Instant,
        moves: Moves,
    ) -> Membership {
        let Some(pinned) = self.pinned.filter(|pinned| *pinned != id) else {
            self.pin(id);
            return Membership::Pinned;
        };
        match moves {
            Moves::Allowed if self.is_replaced_by(id, endpoint, now) => {
                self.pin(id);
                Membership::Moved { from: pinned }
            }
            Moves::Allowed | Moves::Forbidden => Membership::Foreign { pinned },
        }
    }

    /// Notes a foreign answer. Returns whether the cluster `id` has taken the place of the pinned
    /// one.
    fn is_replaced_by(&mut self, id: u64, endpoint: usize, now: Instant) -> bool {
        self.others[endpoint] = Some(id);
        let agreeing = self.others.iter().filter(|other| **other == Some(id)).count();
        let since = *self.foreign_since.get_or_insert(now);
        now.since(since) >= self.lease_duration && 2 * agreeing > self.others.len()
    }

    fn pin(&mut self, id: u64) {
        self.pinned = Some(id);
        self.foreign_since = None;
        self.others.fill(None);
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

    const FOREIGN: Membership = Membership::Foreign { pinned: 1 };

    #[test]
    fn pin_moves_to_the_cluster_of_most_endpoints() {
        let mut cluster = pinned();
        assert_eq!(cluster.admit(0, 2, at(0), Moves::Allowed), FOREIGN);
        assert_eq!(cluster.admit(0, 2, at(LATE), Moves::Allowed), FOREIGN, "one endpoint, twice");
        assert_eq!(cluster.admit(1, 3, at(LATE), Moves::Allowed), FOREIGN, "a third cluster");
        let moved = Membership::Moved { from: 1 };
        assert_eq!(cluster.admit(1, 2, at(LATE), Moves::Allowed), moved);
        assert!(cluster.hears(2) && !cluster.hears(1));
    }

    /// A follower with a healthy watch asks nothing for hours. Its next answers may be foreign while
    /// another endpoint still leads to the pinned cluster.
    #[test]
    fn pin_stays_for_a_lease_duration_of_foreign_answers() {
        let mut cluster = pinned();
        assert_eq!(cluster.admit(0, 2, at(3600), Moves::Allowed), FOREIGN);
        assert_eq!(cluster.admit(1, 2, at(3600 + LATE - 1), Moves::Allowed), FOREIGN);
        assert_eq!(cluster.admit(2, 1, at(3600 + LATE - 1), Moves::Allowed), Membership::Pinned);
        assert_eq!(cluster.admit(0, 2, at(3600 + LATE), Moves::Allowed), FOREIGN);
        assert_eq!(cluster.admit(1, 2, at(3600 + 2 * LATE - 1), Moves::Allowed), FOREIGN);
    }

    #[test]
    fn message_of_a_watch_counts_as_an_answer() {
        let mut cluster = pinned();
        cluster.admit(0, 2, at(0), Moves::Allowed);
        cluster.admit(1, 2, at(1), Moves::Allowed);
        assert!(cluster.hears(1));
        assert_eq!(cluster.admit(0, 2, at(LATE), Moves::Allowed), FOREIGN);
    }

    #[test]
    fn write_and_read_of_the_past_move_no_pin() {
        let mut cluster = PinnedCluster::new(1, LEASE);
        cluster.admit(0, 1, at(0), Moves::Allowed);
        assert_eq!(cluster.admit(0, 2, at(0), Moves::Forbidden), FOREIGN);
        assert_eq!(cluster.admit(0, 2, at(LATE), Moves::Allowed), FOREIGN, "the first that counts");
        assert_eq!(cluster.admit(0, 2, at(2 * LATE), Moves::Forbidden), FOREIGN);
        assert!(cluster.hears(1));
    }
}
