//! The requests and replies between a record election and its store.
//!
//! Pure. A Kubernetes Lease, a key in etcd, and a file have the same shape: one record, replaced only
//! if its version has not changed since it was read. Start with [`Write`].

use crate::identity::Identity;
use crate::machine::{Diagnostic, Event, Outcome, Request, Verb};
use crate::timing::Durations;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The lease duration in a released record, as in client-go. The API server rejects zero.
const RELEASED_DURATION: Duration = Duration::from_secs(1);

/// The version of a record, which conditional writes compare.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Version {
    /// Changes when the record is deleted and created again (`metadata.uid`).
    pub uid: Arc<str>,
    /// Increases with every write, even across deletion and creation (`metadata.resourceVersion`,
    /// which is comparable since KEP-5504).
    pub number: u128,
}

/// The record of an election.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// The holder of the election; `None` after a release.
    pub holder: Option<Identity>,
    /// How long the other candidates wait after they last saw this record change; `None` if it is
    /// missing or invalid.
    pub duration: Option<Duration>,
    /// How many times the holder has changed, for people to read.
    pub transitions: u32,
    /// When the term began.
    pub acquired: Stamp,
    /// When the term was last renewed.
    pub renewed: Stamp,
}

/// A wall-clock time in a record. Stamps are only tested for equality and have no order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stamp(pub String);

/// The content and version of a record at one moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Snapshot {
    /// The version of the record.
    pub version: Version,
    /// The content of the record.
    pub record: Record,
}

/// A request of a record election to its store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RecordRequest {
    /// Read the record from the store itself, not from a cache.
    Read,
    /// Perform a conditional write.
    Write(Write),
}

/// A write that the store applies only if the version of the record is still `over`.
///
/// The store fills in the record's wall-clock times: every write advances `renewed`, and every
/// write except a renewal sets `acquired`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Write {
    /// The version to replace; `None` if the record must not exist.
    pub over: Option<Version>,
    /// The purpose of the write.
    pub intent: Intent,
    /// The holder after the write.
    pub holder: Option<Identity>,
    /// The lease duration to write. A store of whole seconds rounds it up.
    pub duration: Duration,
    /// The count of transitions to write.
    pub transitions: u32,
}

impl Write {
    /// A write by the candidate `identity` over the `current` record.
    ///
    /// As in client-go, `transitions` increases when the holder changes, but not when the same
    /// holder acquires the record again.
    pub fn over(
        current: Option<&Snapshot>,
        intent: Intent,
        identity: &Identity,
        lease_duration: Duration,
    ) -> Self {
        let is_ours = current.is_some_and(|read| read.record.holder.as_ref() == Some(identity));
        let transitions = current.map_or(0, |current| {
            let changes_hands = intent == Intent::Acquire && !is_ours;
            current.record.transitions.saturating_add(u32::from(changes_hands))
        });
        let (holder, duration) = match intent {
            Intent::Acquire | Intent::Renew => (Some(identity.clone()), lease_duration),
            Intent::Release => (None, RELEASED_DURATION),
        };
        let over = current.map(|current| current.version.clone());
        Self { over, intent, holder, duration, transitions }
    }

    /// Whether `record` names the holder of this write and protects it for at least as long.
    pub fn is_kept_in(&self, record: &Record) -> bool {
        record.holder == self.holder
            && (self.holder.is_none() || record.duration >= Some(self.duration))
    }
}

/// The store holds a different record than the one that was written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RecordAltered {
    written: (Option<Identity>, Duration),
    returned: (Option<Identity>, Option<Duration>),
}

impl RecordAltered {
    /// The difference between the `written` record and the `returned` one.
    pub fn new(written: &Write, returned: &Record) -> Self {
        Self {
            written: (written.holder.clone(), written.duration),
            returned: (returned.holder.clone(), returned.duration),
        }
    }
}

impl Diagnostic for RecordAltered {
    fn event(&self) -> &'static str {
        "record_altered"
    }

    fn is_error(&self) -> bool {
        true
    }

    fn remedy(&self) -> Option<Durations> {
        None
    }
}

impl fmt::Display for RecordAltered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let describe = |holder: &Option<Identity>, duration: Option<Duration>| {
            let holder = match holder {
                Some(holder) => format!("holder {holder}"),
                None => "no holder".to_owned(),
            };
            let duration = match duration {
                Some(duration) => format!("duration {duration:?}"),
                None => "no duration".to_owned(),
            };
            format!("{holder} and {duration}")
        };
        let (written, returned) = (&self.written, &self.returned);
        write!(
            f,
            "the store altered the record: it was written with {}, but now has {}; this candidate \
             cannot lead until that stops: exempt the record from whatever alters it, such as a \
             mutating webhook",
            describe(&written.0, Some(written.1)),
            describe(&returned.0, returned.1)
        )
    }
}

/// The purpose of a write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Intent {
    /// Begin a term.
    Acquire,
    /// Extend the term.
    Renew,
    /// End the term.
    Release,
}

/// A reply or watch event for a record election.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RecordEvent {
    /// The reply to a read: the record, or `None` if there is none.
    Read(Option<Snapshot>),
    /// The reply to a write that was applied: the resulting record.
    Applied(Snapshot),
    /// The reply to a write that was not applied, because the store holds another version.
    Conflict,
    /// The outcome of the request is unknown.
    Unknown,
    /// A watch event. It may be stale, and is only a hint to read. `None` means that the record was
    /// deleted, or that its state is unknown.
    WatchEvent(Option<Snapshot>),
}

impl Request for RecordRequest {
    const VERBS: &'static [Verb] = &[Verb::Read, Verb::Create, Verb::Replace];

    fn verb(&self) -> Verb {
        match self {
            Self::Read => Verb::Read,
            Self::Write(Write { over: None, .. }) => Verb::Create,
            Self::Write(Write { over: Some(_), .. }) => Verb::Replace,
        }
    }

    fn is_renewal(&self) -> bool {
        matches!(self, Self::Write(Write { intent: Intent::Renew, .. }))
    }
}

impl Event for RecordEvent {
    const UNKNOWN: Self = Self::Unknown;
    /// A restarting server denies requests that it will soon accept.
    const REFUSED: Self = Self::Unknown;

    fn outcome(&self) -> Outcome {
        match self {
            Self::Read(_) | Self::Applied(_) | Self::WatchEvent(_) => Outcome::Applied,
            Self::Conflict => Outcome::Conflict,
            Self::Unknown => Outcome::Unknown,
        }
    }

    /// A missing record proves no permission: the reply is the same if the namespace is missing,
    /// and the right to read does not include the right to create.
    fn shows_admission(&self) -> bool {
        !matches!(self, Self::Read(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_verbs_and_replies_have_outcomes() {
        let us = Identity::parse("us_1").unwrap();
        let write = |current: Option<&Snapshot>, intent| {
            RecordRequest::Write(Write::over(current, intent, &us, Duration::from_secs(15)))
        };
        let record = Record {
            holder: None,
            duration: None,
            transitions: 3,
            acquired: Stamp::default(),
            renewed: Stamp::default(),
        };
        let held = Snapshot { version: Version { uid: "u".into(), number: 7 }, record };
        let kind = |request: &RecordRequest| (request.verb(), request.is_renewal());
        assert_eq!(kind(&RecordRequest::Read), (Verb::Read, false));
        assert_eq!(kind(&write(None, Intent::Acquire)), (Verb::Create, false));
        assert_eq!(kind(&write(Some(&held), Intent::Acquire)), (Verb::Replace, false));
        assert_eq!(kind(&write(Some(&held), Intent::Renew)), (Verb::Replace, true));
        for (event, outcome, shows_admission) in [
            (RecordEvent::Read(Some(held.clone())), Outcome::Applied, true),
            (RecordEvent::Read(None), Outcome::Applied, false),
            (RecordEvent::WatchEvent(None), Outcome::Applied, true),
            (RecordEvent::Applied(held), Outcome::Applied, true),
            (RecordEvent::Conflict, Outcome::Conflict, true),
            (RecordEvent::Unknown, Outcome::Unknown, true),
        ] {
            assert_eq!(
                (event.outcome(), event.shows_admission()),
                (outcome, shows_admission),
                "{event:?}"
            );
        }
    }
}
