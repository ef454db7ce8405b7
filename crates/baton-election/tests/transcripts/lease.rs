//! Inputs and requests of [`RecordElection`] in transcripts. Start with [`record`], which describes
//! the notation of records.

use super::{TranscriptElection, timing};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version,
};
use baton_election::record::preference::Preference;
use baton_election::timing::Jitter;
use baton_election::transcript;
use std::time::Duration;

impl TranscriptElection for RecordElection {
    type Context = ();

    fn candidate() -> Self {
        Self::new(
            Identity::parse("a").unwrap(),
            timing(),
            Jitter::new(1),
            Instant::since_boot(Duration::ZERO),
        )
    }

    fn standing_after(stand_after: Duration) -> Result<Self, String> {
        let preference = Preference::new(stand_after, &timing());
        Ok(Self::candidate().with_preference(preference.map_err(|error| error.to_string())?))
    }

    /// Parses `IDENTITY until TIME`.
    fn after(ended_run: &str) -> Result<Self, String> {
        super::ended_run(ended_run).map(|run| Self::candidate().with_ended_run(run))
    }

    fn event(
        (): &mut (),
        request: Option<&RecordRequest>,
        verb: &str,
        arguments: &str,
    ) -> Result<RecordEvent, String> {
        Ok(match verb {
            "read" => RecordEvent::Read(record(arguments)?),
            "watch event" => RecordEvent::WatchEvent(record(arguments)?),
            "applied" => RecordEvent::Applied(written(request, arguments)?),
            "applied and altered" => {
                RecordEvent::Applied(record(arguments)?.ok_or("a write always leaves a record")?)
            }
            "conflict" => RecordEvent::Conflict,
            "unknown" => RecordEvent::Unknown,
            other => return Err(format!("unknown event {other:?}")),
        })
    }

    fn format((): &(), request: &RecordRequest) -> String {
        transcript::record_request(request)
    }
}

/// The record after the write in `request`, with the given version.
fn written(request: Option<&RecordRequest>, version: &str) -> Result<Snapshot, String> {
    let Some(RecordRequest::Write(write)) = request else {
        return Err("the last request is not a write".to_owned());
    };
    let number = number(version)?;
    let uid = write.over.as_ref().map_or_else(|| "uid-a".into(), |over| over.uid.clone());
    let record = Record {
        holder: write.holder.clone(),
        duration: Some(write.duration),
        transitions: write.transitions,
        acquired: Stamp::default(),
        renewed: Stamp(version.to_owned()),
    };
    Ok(Snapshot { version: Version { uid, number }, record })
}

/// Parses `none`, or `HOLDER VERSION DURATION` such as `b v7 15s`.
///
/// The holder may be `none`, and the duration `-` if the record has none. Two attributes may
/// follow: `renewed=v6` if the lease has not changed since v6, and `uid=other` for another record.
fn record(text: &str) -> Result<Option<Snapshot>, String> {
    if text == "none" {
        return Ok(None);
    }
    let mut words = text.split(' ');
    let (Some(holder), Some(version), Some(duration)) = (words.next(), words.next(), words.next())
    else {
        return Err("a record is `none` or `HOLDER VERSION DURATION`".to_owned());
    };
    let mut renewed = version;
    let mut uid = "uid-a";
    for word in words {
        match word.split_once('=') {
            Some(("renewed", value)) => renewed = value,
            Some(("uid", value)) => uid = value,
            _ => return Err(format!("unknown attribute {word:?}")),
        }
    }
    let holder = Some(holder).filter(|holder| *holder != "none");
    let duration = Some(duration).filter(|duration| *duration != "-");
    Ok(Some(Snapshot {
        version: Version { uid: uid.into(), number: number(version)? },
        record: Record {
            holder: holder.map(|holder| Identity::parse(holder).unwrap()),
            duration: duration
                .map(humantime::parse_duration)
                .transpose()
                .map_err(|error| error.to_string())?,
            transitions: 0,
            acquired: Stamp::default(),
            renewed: Stamp(renewed.to_owned()),
        },
    }))
}

fn number(version: &str) -> Result<u128, String> {
    let digits = version.strip_prefix('v').ok_or("a version is `v` and a number")?;
    digits.parse().map_err(|_| "a version is `v` and a number".to_owned())
}
