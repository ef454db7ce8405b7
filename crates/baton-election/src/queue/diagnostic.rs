//! What a machine finds in its store that a person should know of.
//!
//! Pure. Each says what is there, what it means, and what to do.

use crate::duration::Rounded;
use crate::machine::Diagnostic;
use crate::queue::timing::SessionTooShort;
use crate::timing::Durations;
use std::fmt;
use std::time::Duration;

/// Something that is not as it should be, though the election goes on as well as it can.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum QueueDiagnostic {
    /// The servers granted another session time-out than was asked for, or one that cuts the renew deadline.
    Granted {
        /// What was asked for.
        asked: Duration,
        /// What was granted.
        granted: Duration,
        /// By how much the renew deadline is cut, when all is calm.
        cut: Duration,
        /// The tickTime that this suggests, where it is more than we were told.
        tick: Option<Duration>,
    },
    /// The servers granted a session time-out that we cannot lead with.
    TooShort(Box<SessionTooShort>),
    /// Children of the election's path that are named in another way than ours and Curator's `LeaderLatch`.
    Strangers {
        /// One of them.
        name: String,
        /// How many there are.
        count: usize,
    },
    /// A child of the election's path that stood before us and that no session owns: it is passed over.
    Idle {
        /// Its name.
        name: String,
    },
    /// The counter of the election's path has reached its end.
    Saturated,
    /// Where leaders acknowledge that they lead stands something that no session owns.
    LeaderPathTaken,
}

impl Diagnostic for QueueDiagnostic {
    fn event(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "session_granted",
            Self::TooShort(_) => "session_too_short",
            Self::Strangers { .. } => "strange_candidates",
            Self::Idle { .. } => "idle_znode",
            Self::Saturated => "counter_saturated",
            Self::LeaderPathTaken => "leader_path_taken",
        }
    }

    fn is_error(&self) -> bool {
        match self {
            Self::TooShort(_) | Self::Saturated => true,
            Self::Granted { .. }
            | Self::Strangers { .. }
            | Self::Idle { .. }
            | Self::LeaderPathTaken => false,
        }
    }

    fn remedy(&self) -> Option<Durations> {
        match self {
            Self::TooShort(why) => Some(why.remedy),
            Self::Granted { .. }
            | Self::Strangers { .. }
            | Self::Idle { .. }
            | Self::Saturated
            | Self::LeaderPathTaken => None,
        }
    }
}

impl fmt::Display for QueueDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted { asked, granted, cut, tick } => {
                let [got, wanted] = [granted, asked].map(|timeout| Rounded::nearest(*timeout));
                write!(f, "the servers granted a session time-out of {got}, {wanted} were asked for")?;
                if granted > asked {
                    write!(f, "; a leader that dies is noticed that much later (see minSessionTimeout)")?;
                }
                if let Some(tick) = tick.map(Rounded::up) {
                    write!(
                        f,
                        "; servers grant two ticks at the least unless minSessionTimeout says otherwise, so one may take \
                         {tick}: look at their tickTime, and say it with --zookeeper-tick-time, because exclusion rests \
                         on it"
                    )?;
                }
                if !cut.is_zero() {
                    let cut = Rounded::up(*cut);
                    write!(
                        f,
                        "; that cuts the renew deadline by {cut}: raise --lease-duration (and the servers' \
                         maxSessionTimeout), or lower --renew-deadline by as much, to have what is asked for"
                    )?;
                }
                Ok(())
            }
            Self::TooShort(why) => why.fmt(f),
            Self::Strangers { name, count } => write!(
                f,
                "the election's path has children that are not named like ours or Curator's LeaderLatch's ({count}, such as \
                 {name:?}): they count as candidates by their last ten digits, which other recipes may see differently, and one without \
                 stands before everybody, so that nobody begins to lead while a session owns it: delete what is no candidate"
            ),
            Self::Idle { name } => write!(
                f,
                "{name:?} in the election's path belongs to no session, so it is no candidate and is passed over: delete it"
            ),
            Self::Saturated => f.write_str(
                "the counter of the election's path has reached its end, and nobody can join any more: stop all candidates, \
                 delete the path, and start them again",
            ),
            Self::LeaderPathTaken => f.write_str(
                "a znode that belongs to no session stands where leaders acknowledge that they lead, so followers cannot \
                 learn who leads: delete it, or choose another --zookeeper-path",
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
    fn each_thing_is_logged_under_its_name_and_as_loudly_as_it_is_bad() {
        let second = Duration::from_secs(1);
        let (name, tick) = ("x".to_owned(), None);
        for (notice, event, is_error) in [
            (
                QueueDiagnostic::Granted { asked: second, granted: second, cut: second, tick },
                "session_granted",
                false,
            ),
            (
                QueueDiagnostic::Strangers { name: name.clone(), count: 1 },
                "strange_candidates",
                false,
            ),
            (QueueDiagnostic::Idle { name }, "idle_znode", false),
            (QueueDiagnostic::Saturated, "counter_saturated", true),
            (QueueDiagnostic::LeaderPathTaken, "leader_path_taken", false),
        ] {
            assert_eq!(
                (notice.event(), notice.is_error(), notice.prevents_leading()),
                (event, is_error, false),
                "{notice}"
            );
        }
    }

    #[test]
    fn what_was_granted_is_told_with_what_comes_of_it_only() {
        let seconds = Duration::from_secs;
        let told = |granted, cut, tick: Option<u64>| {
            let tick = tick.map(seconds);
            QueueDiagnostic::Granted {
                asked: seconds(15),
                granted: seconds(granted),
                cut: seconds(cut),
                tick,
            }
            .to_string()
        };
        let parts = |text: &str| {
            ["that much later", "tickTime", "cuts the renew"].map(|part| text.contains(part))
        };
        assert_eq!(parts(&told(20, 0, None)), [true, false, false]);
        assert_eq!(parts(&told(20, 0, Some(10))), [true, true, false]);
        assert_eq!(parts(&told(15, 1, None)), [false, false, true]);
        assert_eq!(parts(&told(12, 2, None)), [false, false, true]);
    }

    #[test]
    fn only_a_session_that_is_too_short_prevents_leading() {
        let asked = Duration::from_secs(15);
        let cut = QueueDiagnostic::Granted {
            asked,
            granted: asked,
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
        let mut why = timing.grant(seconds(4)).expect_err("four seconds do not hold three tries");
        QueueDiagnostic::TooShort(Box::new(why.remove(0)))
    }
}
