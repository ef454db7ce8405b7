//! What is told to the Lease machine, and how its requests read.

use super::{Spoken, timing};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version,
};
use baton_election::timing::Jitter;
use baton_election::transcript;
use std::time::Duration;

impl Spoken for RecordElection {
    type Memory = ();

    fn candidate() -> Self {
        Self::new(
            Identity::parse("a").unwrap(),
            timing(),
            Jitter::new(1),
            Instant::since_boot(Duration::ZERO),
        )
    }

    fn event(
        (): &mut (),
        asked: Option<&RecordRequest>,
        verb: &str,
        rest: &str,
    ) -> Result<RecordEvent, String> {
        Ok(match verb {
            "read" => RecordEvent::Read(record(rest)?),
            "noticed" => RecordEvent::WatchEvent(record(rest)?),
            "applied" => RecordEvent::Applied(written(asked, rest)?),
            "applied and changed" => {
                RecordEvent::Applied(record(rest)?.ok_or("a write leaves a record")?)
            }
            "conflict" => RecordEvent::Conflict,
            "unknown" => RecordEvent::Unknown,
            other => return Err(format!("{other:?} is not known")),
        })
    }

    fn spell((): &(), request: &RecordRequest) -> String {
        transcript::record_request(request)
    }
}

/// The record that the write `asked` leaves behind, under the version in `text`.
fn written(asked: Option<&RecordRequest>, text: &str) -> Result<Snapshot, String> {
    let Some(RecordRequest::Write(write)) = asked else {
        return Err("nothing was written".to_owned());
    };
    let number = number(text)?;
    let uid = write.over.as_ref().map_or_else(|| "uid-a".into(), |over| over.uid.clone());
    let record = Record {
        holder: write.holder.clone(),
        duration: Some(write.duration),
        transitions: write.transitions,
        acquired: Stamp::default(),
        renewed: Stamp(text.to_owned()),
    };
    Ok(Snapshot { version: Version { uid, number }, record })
}

/// A record such as `b v7 15s`: holder (`nobody`), version, duration (`-` where it says none), then, where they matter,
/// `renewed=v6` for a record that only a stranger edited since v6, and `uid=other` for another record.
fn record(text: &str) -> Result<Option<Snapshot>, String> {
    if text == "none" {
        return Ok(None);
    }
    let mut words = text.split(' ');
    let (Some(holder), Some(version), Some(duration)) = (words.next(), words.next(), words.next())
    else {
        return Err("a record is HOLDER VERSION DURATION, or none".to_owned());
    };
    let mut renewed = version;
    let mut uid = "uid-a";
    for word in words {
        match word.split_once('=') {
            Some(("renewed", value)) => renewed = value,
            Some(("uid", value)) => uid = value,
            _ => return Err(format!("{word:?} is not known")),
        }
    }
    let holder = Some(holder).filter(|holder| *holder != "nobody");
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
    let digits = version.strip_prefix('v').ok_or("a version is v and a number")?;
    digits.parse().map_err(|_| "a version is v and a number".to_owned())
}
