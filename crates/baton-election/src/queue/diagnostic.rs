//! Problems in ZooKeeper that an operator should know about.
//!
//! Pure. Start with [`QueueDiagnostic`].

use crate::duration::Rounded;
use crate::machine::Diagnostic;
use crate::queue::timing::SessionTooShort;
use crate::timing::Durations;
use std::fmt;
use std::time::Duration;

/// A problem in ZooKeeper that does not stop the election.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum QueueDiagnostic {
    /// The servers granted another session timeout than requested, or one that cuts the renew
    /// deadline.
    Granted {
        /// The requested session timeout.
        requested: Duration,
        /// The granted session timeout.
        granted: Duration,
        /// How much shorter the renew deadline becomes, if no heartbeat is delayed.
        cut: Duration,
        /// The tick time that this suggests, if it is larger than the configured one.
        tick: Option<Duration>,
    },
    /// The granted session timeout is too short to lead with.
    TooShort(Box<SessionTooShort>),
    /// The path has children with other names than ours and Curator's `LeaderLatch` use.
    StrangeCandidates {
        /// The name of one of them.
        name: String,
        /// The number of such children.
        count: usize,
    },
    /// A child of the path ahead of us belongs to no session, so it is skipped.
    IdleZnode {
        /// Its name.
        name: String,
    },
    /// The sequence counter of the path has reached its end.
    CounterSaturated,
    /// A znode without a session occupies the path of the leader's announcement.
    LeaderPathTaken,
}

impl Diagnostic for QueueDiagnostic {
    fn event(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "session_granted",
            Self::TooShort(_) => "session_too_short",
            Self::StrangeCandidates { .. } => "strange_candidates",
            Self::IdleZnode { .. } => "idle_znode",
            Self::CounterSaturated => "counter_saturated",
            Self::LeaderPathTaken => "leader_path_taken",
        }
    }

    fn is_error(&self) -> bool {
        match self {
            Self::TooShort(_) | Self::CounterSaturated => true,
            Self::Granted { .. }
            | Self::StrangeCandidates { .. }
            | Self::IdleZnode { .. }
            | Self::LeaderPathTaken => false,
        }
    }

    fn remedy(&self) -> Option<Durations> {
        match self {
            Self::TooShort(error) => Some(error.remedy),
            Self::Granted { .. }
            | Self::StrangeCandidates { .. }
            | Self::IdleZnode { .. }
            | Self::CounterSaturated
            | Self::LeaderPathTaken => None,
        }
    }
}

impl fmt::Display for QueueDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted { requested, granted, cut, tick } => {
                let [got, wanted] = [granted, requested].map(|timeout| Rounded::nearest(*timeout));
                write!(f, "the servers granted a session timeout of {got} (requested: {wanted})")?;
                if granted > requested {
                    f.write_str(
                        "; a crashed leader is noticed that much later (see minSessionTimeout)",
                    )?;
                }
                if let Some(tick) = tick.map(Rounded::up) {
                    write!(
                        f,
                        "; the minimum is two ticks unless minSessionTimeout is set, so a tick may \
                         last {tick}: check the servers' tickTime and set --zookeeper-tick-time to \
                         it, because exclusion depends on it"
                    )?;
                }
                if !cut.is_zero() {
                    let cut = Rounded::up(*cut);
                    write!(
                        f,
                        "; that cuts the renew deadline by {cut}: raise --lease-duration (and the \
                         servers' maxSessionTimeout), or lower --renew-deadline by as much"
                    )?;
                }
                Ok(())
            }
            Self::TooShort(error) => error.fmt(f),
            Self::StrangeCandidates { name, count } => write!(
                f,
                "children of the election's path are not named like ours or those of Curator's \
                 LeaderLatch ({count}, such as {name:?}): they count as candidates in the order of \
                 their last ten digits, which other recipes may not follow, and one without digits \
                 blocks the election while a session owns it: delete those that are not candidates"
            ),
            Self::IdleZnode { name } => write!(
                f,
                "{name:?} in the election's path belongs to no session, so it is not a candidate \
                 and is skipped: delete it"
            ),
            Self::CounterSaturated => f.write_str(
                "the sequence counter of the election's path has reached its end, so no candidate \
                 can join: stop all candidates, delete the path, and start them again",
            ),
            Self::LeaderPathTaken => f.write_str(
                "a znode that belongs to no session occupies the path of the leader's \
                 announcement, so followers cannot learn the leader's name: delete it, or choose \
                 another --zookeeper-path",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Transition;
    use crate::queue::timing::SessionTiming;
    use crate::timing::{Drift, Timing};

    #[test]
    fn diagnostics_have_event_names_and_severities() {
        let second = Duration::from_secs(1);
        let (name, tick) = ("x".to_owned(), None);
        for (diagnostic, event, is_error) in [
            (
                QueueDiagnostic::Granted { requested: second, granted: second, cut: second, tick },
                "session_granted",
                false,
            ),
            (
                QueueDiagnostic::StrangeCandidates { name: name.clone(), count: 1 },
                "strange_candidates",
                false,
            ),
            (QueueDiagnostic::IdleZnode { name }, "idle_znode", false),
            (QueueDiagnostic::CounterSaturated, "counter_saturated", true),
            (QueueDiagnostic::LeaderPathTaken, "leader_path_taken", false),
        ] {
            assert_eq!(
                (diagnostic.event(), diagnostic.is_error(), diagnostic.prevents_leading()),
                (event, is_error, false),
                "{diagnostic}"
            );
        }
    }

    #[test]
    fn granted_timeout_is_reported_with_its_consequences() {
        let seconds = Duration::from_secs;
        let text = |granted, cut, tick: Option<u64>| {
            let tick = tick.map(seconds);
            QueueDiagnostic::Granted {
                requested: seconds(15),
                granted: seconds(granted),
                cut: seconds(cut),
                tick,
            }
            .to_string()
        };
        let parts = |text: &str| {
            ["that much later", "tickTime", "cuts the renew"].map(|part| text.contains(part))
        };
        assert_eq!(parts(&text(20, 0, None)), [true, false, false]);
        assert_eq!(parts(&text(20, 0, Some(10))), [true, true, false]);
        assert_eq!(parts(&text(15, 1, None)), [false, false, true]);
        assert_eq!(parts(&text(12, 2, None)), [false, false, true]);
    }

    #[test]
    fn only_too_short_sessions_prevent_leading() {
        let requested = Duration::from_secs(15);
        let cut = QueueDiagnostic::Granted {
            requested,
            granted: requested,
            cut: Duration::from_secs(1),
            tick: None,
        };
        assert!(!Transition::Diagnosed(cut).prevents_leading());
        assert!(!Transition::<QueueDiagnostic>::Following { leader: None }.prevents_leading());
        assert!(Transition::Diagnosed(too_short()).prevents_leading());
    }

    fn too_short() -> QueueDiagnostic {
        let seconds = Duration::from_secs;
        let durations = Durations {
            lease_duration: seconds(15),
            renew_deadline: seconds(10),
            retry_period: seconds(2),
            answer_validity: seconds(2),
        };
        let timing = Timing::new(durations, Drift::default()).unwrap();
        let timing = SessionTiming::new(timing, seconds(2)).unwrap();
        let mut errors =
            timing.grant(seconds(4)).expect_err("three tries do not fit into four seconds");
        QueueDiagnostic::TooShort(Box::new(errors.remove(0)))
    }
}
