//! The words between the Lease machine and its stores: the record, its versions, requests and replies.
//!
//! Pure. A Kubernetes Lease and a file both come down to this: one record, replaced only over the very
//! version that was read. Start with [`Write`].

use crate::identity::Identity;
use crate::machine::{Diagnostic, Event, Outcome, Request, Verb};
use crate::timing::Durations;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a release writes, as client-go does: the API server refuses zero.
const RELEASED_DURATION: Duration = Duration::from_secs(1);

/// Which record, and which state of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Version {
    /// What a deleted and re-created record does not keep (`metadata.uid`).
    pub uid: Arc<str>,
    /// A number that each write makes larger, also over deletion and re-creation (`metadata.resourceVersion`,
    /// comparable since KEP-5504).
    pub number: u128,
}

/// The record of an election.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// Who holds the election; nobody after a release.
    pub holder: Option<Identity>,
    /// How long the others must wait after they last saw this record change; `None` where the record does not say
    /// it, or not in a way that makes sense.
    pub duration: Option<Duration>,
    /// How often the holder changed, for people to read.
    pub transitions: u32,
    /// When the term began.
    pub acquired: Stamp,
    /// When it was last renewed.
    pub renewed: Stamp,
}

/// A wall-clock time as it stands in a record: two of them differ or they do not, and neither is the later one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stamp(pub String);

/// A record as it was in the store at some moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Snapshot {
    /// Its version.
    pub version: Version,
    /// What it said.
    pub record: Record,
}

/// What the Lease machine asks of a store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RecordRequest {
    /// The record as it is now; a cached one will not do.
    Read,
    /// A conditional write.
    Write(Write),
}

/// A write that is applied only if the store still holds `over`.
///
/// The times in the record are the store's to fill in, from the wall clock: `renewed` always advances, and
/// `acquired` is kept by a renewal and set by the others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Write {
    /// The version to replace; `None` where there must be no record.
    pub over: Option<Version>,
    /// What the write is for.
    pub intent: Intent,
    /// Who holds the election after it.
    pub holder: Option<Identity>,
    /// The duration to write; rounded up where a store knows only whole seconds.
    pub duration: Duration,
    /// The count to write.
    pub transitions: u32,
}

impl Write {
    /// The write for `intent` over the record that is `held` in the store, by `identity`.
    ///
    /// `transitions` counts as client-go does: when the holder changes, and not when a holder comes back.
    pub fn over(
        held: Option<&Snapshot>,
        intent: Intent,
        identity: &Identity,
        lease_duration: Duration,
    ) -> Self {
        let is_ours = held.is_some_and(|held| held.record.holder.as_ref() == Some(identity));
        let transitions = held.map_or(0, |held| {
            let changes_hands = intent == Intent::Acquire && !is_ours;
            held.record.transitions.saturating_add(u32::from(changes_hands))
        });
        let (holder, duration) = match intent {
            Intent::Acquire | Intent::Renew => (Some(identity.clone()), lease_duration),
            Intent::Release => (None, RELEASED_DURATION),
        };
        Self { over: held.map(|held| held.version.clone()), intent, holder, duration, transitions }
    }

    /// Whether `record` tells other candidates the same as this write: this holder, protected for
    /// at least as long.
    pub fn is_kept_in(&self, record: &Record) -> bool {
        record.holder == self.holder
            && (self.holder.is_none() || record.duration >= Some(self.duration))
    }
}

/// A write that came back changed: what was written, and what the store holds instead.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RecordAltered {
    written: (Option<Identity>, Duration),
    returned: (Option<Identity>, Option<Duration>),
}

impl RecordAltered {
    /// The change from `written` to `returned`.
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
        let name = |holder: &Option<Identity>| match holder {
            Some(holder) => holder.to_string(),
            None => "nobody".to_owned(),
        };
        let (holder, duration) = &self.written;
        write!(
            f,
            "the store changed our record: we wrote holder {} and duration {duration:?}",
            name(holder)
        )?;
        let (holder, duration) = &self.returned;
        match duration {
            Some(duration) => write!(f, ", and it holds {} and {duration:?}", name(holder))?,
            None => write!(f, ", and it holds {} and no duration", name(holder))?,
        }
        f.write_str(
            "; this process cannot lead until that ends: exempt the record from what changes it, such as a mutating \
             webhook",
        )
    }
}

/// What a write is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Intent {
    /// Begin a term.
    Acquire,
    /// Extend the term.
    Renew,
    /// End the term.
    Release,
}

/// What the Lease machine hears.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RecordEvent {
    /// The reply to a read: the record, or that there is none.
    Read(Option<Snapshot>),
    /// The reply to a write that was applied: the record as it is since.
    Applied(Snapshot),
    /// The reply to a write that was not, because the store holds another version.
    Conflict,
    /// No reply that says what became of the request.
    Unknown,
    /// News that nobody asked for, from a watch: it may be old, and is a hint to read. `None` when the record is gone, or
    /// nobody knows what has become of it.
    Noticed(Option<Snapshot>),
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
    /// Servers that restart refuse what they will soon do.
    const REFUSED: Self = Self::Unknown;

    fn outcome(&self) -> Outcome {
        match self {
            Self::Read(_) | Self::Applied(_) | Self::Noticed(_) => Outcome::Applied,
            Self::Conflict => Outcome::Conflict,
            Self::Unknown => Outcome::Unknown,
        }
    }

    /// That there is no record shows nothing: where the very namespace is missing the answer is the same, and who may
    /// read need not be one who may create.
    fn shows_admission(&self) -> bool {
        !matches!(self, Self::Read(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_and_answered_is_counted_under_its_name() {
        let us = Identity::parse("us_1").unwrap();
        let write = |held: Option<&Snapshot>, intent| {
            RecordRequest::Write(Write::over(held, intent, &us, Duration::from_secs(15)))
        };
        let record = Record {
            holder: None,
            duration: None,
            transitions: 3,
            acquired: Stamp::default(),
            renewed: Stamp::default(),
        };
        let held = Snapshot { version: Version { uid: "u".into(), number: 7 }, record };
        let counted = |request: &RecordRequest| (request.verb(), request.is_renewal());
        assert_eq!(counted(&RecordRequest::Read), (Verb::Read, false));
        assert_eq!(counted(&write(None, Intent::Acquire)), (Verb::Create, false));
        assert_eq!(counted(&write(Some(&held), Intent::Acquire)), (Verb::Replace, false));
        assert_eq!(counted(&write(Some(&held), Intent::Renew)), (Verb::Replace, true));
        for (event, outcome, shows_admission) in [
            (RecordEvent::Read(Some(held.clone())), Outcome::Applied, true),
            (RecordEvent::Read(None), Outcome::Applied, false),
            (RecordEvent::Noticed(None), Outcome::Applied, true),
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
