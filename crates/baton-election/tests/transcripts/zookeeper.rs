//! Inputs and requests of [`QueueElection`] in transcripts.
//!
//! A znode is written as its sequence number, `own`, or its full name; a session as `s1`, and its
//! absence as `none`; a transaction as `z100`. The servers tick every two seconds.

use super::{TranscriptElection, timing};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::Jitter;
use baton_election::transcript;
use std::time::Duration;

/// The name of the candidate's newest znode.
#[derive(Default)]
pub(super) struct OwnZnode(String);

impl TranscriptElection for QueueElection {
    type Context = OwnZnode;

    fn candidate() -> Self {
        let timing = SessionTiming::new(timing(), Duration::from_secs(2))
            .expect("the defaults are valid for a tick of 2 s");
        Self::new(
            Identity::parse("a").unwrap(),
            timing,
            Jitter::new(1),
            Instant::since_boot(Duration::ZERO),
        )
    }

    fn standing_after(_: Duration) -> Result<Self, String> {
        Err("a queue has no preferences".to_owned())
    }

    /// Parses `SESSION TIMEOUT of IDENTITY until TIME`.
    fn after(ended_run: &str) -> Result<Self, String> {
        let usage = "ended run: SESSION TIMEOUT of IDENTITY until TIME";
        let (session, run) = ended_run.split_once(" of ").ok_or(usage)?;
        let (session, timeout) = session.split_once(' ').ok_or(usage)?;
        let timeout = humantime::parse_duration(timeout).map_err(|error| error.to_string())?;
        Ok(Self::candidate().with_ended_run(
            super::ended_run(run)?,
            self::session(session)?,
            timeout,
        ))
    }

    fn event(
        own: &mut OwnZnode,
        request: Option<&QueueRequest>,
        verb: &str,
        arguments: &str,
    ) -> Result<QueueEvent, String> {
        Ok(match verb {
            "connected" => {
                let (session, timeout) =
                    arguments.split_once(' ').ok_or("connected: SESSION TIMEOUT")?;
                let timeout =
                    humantime::parse_duration(timeout).map_err(|error| error.to_string())?;
                QueueEvent::Connected { session: self::session(session)?, timeout }
            }
            "expired" => QueueEvent::Expired,
            "closed" => QueueEvent::Closed,
            "made" => QueueEvent::Made,
            "joined" => {
                let Some(QueueRequest::Join { prefix, .. }) = request else {
                    return Err("the last request is not a join".to_owned());
                };
                let (number, czxid) =
                    arguments.split_once(" z").ok_or("joined: NUMBER TRANSACTION")?;
                own.0 = format!("{prefix}{number:0>10}");
                QueueEvent::Joined { name: own.0.clone(), czxid: parse(czxid)? }
            }
            "listed" => QueueEvent::Listed(
                arguments.split_whitespace().map(|name| own.name(name)).collect(),
            ),
            "found" => QueueEvent::Found { owner: owner(arguments)? },
            "checked" => QueueEvent::Checked,
            "leader" if arguments == "none" => QueueEvent::Leader(None),
            "leader" => {
                let (text, owner) = arguments
                    .rsplit_once(" of ")
                    .ok_or("leader: TOKEN NAME of SESSION, or none")?;
                QueueEvent::Leader(Some(Announcement {
                    text: text.to_owned(),
                    owner: self::owner(owner)?,
                }))
            }
            "announced" => QueueEvent::Announced,
            "missing" => QueueEvent::Missing,
            "saturated" => QueueEvent::Saturated,
            "changed" => QueueEvent::Changed,
            "refused" => QueueEvent::Refused,
            "unknown" => QueueEvent::Unknown,
            "disconnected" => QueueEvent::Disconnected,
            "watch fired" => QueueEvent::WatchFired,
            other => return Err(format!("unknown event {other:?}")),
        })
    }

    fn format(own: &OwnZnode, request: &QueueRequest) -> String {
        transcript::queue_request(&own.0, request)
    }
}

impl OwnZnode {
    /// The name of the znode that a transcript calls `word`.
    fn name(&self, word: &str) -> String {
        match word {
            "own" => self.0.clone(),
            number if number.parse::<u32>().is_ok() => format!("_c_other-latch-{number:0>10}"),
            name => name.to_owned(),
        }
    }
}

fn owner(text: &str) -> Result<Option<SessionId>, String> {
    if text == "none" { Ok(None) } else { session(text).map(Some) }
}

fn session(text: &str) -> Result<SessionId, String> {
    parse(text.strip_prefix('s').ok_or("a session is `s` and a number")?).map(SessionId)
}

fn parse(number: &str) -> Result<u64, String> {
    number.parse().map_err(|_| format!("{number:?} is not a number"))
}
