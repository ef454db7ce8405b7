//! What is told to the ZooKeeper machine, and how its requests read.
//!
//! A candidate is called by its number, or as it is called where that is not the usual name; sessions are `s1`, `s2`;
//! transactions `z100`. The servers tick every two seconds.

use super::{Spoken, spell, timing};
use baton::clock::Instant;
use baton::election::timing::Jitter;
use baton::election::zookeeper::ZooKeeper;
use baton::election::zookeeper::timing::SessionTiming;
use baton::election::zookeeper::words::{Acknowledgement, SessionId, ZooKeeperEvent, ZooKeeperRequest};
use baton::identity::Identity;
use std::time::Duration;

/// The name of our newest znode.
#[derive(Default)]
pub(super) struct Own(String);

impl Spoken for ZooKeeper {
    type Memory = Own;

    fn candidate() -> Self {
        let timing = SessionTiming::new(timing(), Duration::from_secs(2)).expect("the defaults suit the usual tick");
        Self::new(Identity::parse("a").unwrap(), timing, Jitter::new(1), Instant::since_boot(Duration::ZERO))
    }

    fn event(
        own: &mut Own,
        asked: Option<&ZooKeeperRequest>,
        verb: &str,
        rest: &str,
    ) -> Result<ZooKeeperEvent, String> {
        Ok(match verb {
            "connected" => {
                let (session, timeout) = rest.split_once(' ').ok_or("connected: SESSION TIMEOUT")?;
                let timeout = humantime::parse_duration(timeout).map_err(|error| error.to_string())?;
                ZooKeeperEvent::Connected { session: self::session(session)?, timeout }
            }
            "expired" => ZooKeeperEvent::Expired,
            "closed" => ZooKeeperEvent::Closed,
            "made" => ZooKeeperEvent::Made,
            "joined" => {
                let Some(ZooKeeperRequest::Join { prefix, .. }) = asked else { return Err("nobody joins".to_owned()) };
                let (number, czxid) = rest.split_once(" z").ok_or("joined: NUMBER TRANSACTION")?;
                own.0 = format!("{prefix}{number:0>10}");
                ZooKeeperEvent::Joined { name: own.0.clone(), czxid: parse(czxid)? }
            }
            "listed" => ZooKeeperEvent::Listed(rest.split_whitespace().map(|name| own.name(name)).collect()),
            "found" => ZooKeeperEvent::Found { owner: owner(rest)? },
            "checked" => ZooKeeperEvent::Checked,
            "leader" if rest == "none" => ZooKeeperEvent::Leader(None),
            "leader" => {
                let (text, whose) = rest.rsplit_once(" of ").ok_or("leader: TOKEN NAME of SESSION, or none")?;
                ZooKeeperEvent::Leader(Some(Acknowledgement { text: text.to_owned(), owner: owner(whose)? }))
            }
            "acknowledged" => ZooKeeperEvent::Acknowledged,
            "missing" => ZooKeeperEvent::Missing,
            "saturated" => ZooKeeperEvent::Saturated,
            "changed" => ZooKeeperEvent::Changed,
            "refused" => ZooKeeperEvent::Refused,
            "unknown" => ZooKeeperEvent::Unknown,
            "disconnected" => ZooKeeperEvent::Disconnected,
            "fired" => ZooKeeperEvent::Fired,
            other => return Err(format!("{other:?} is not known")),
        })
    }

    fn spell(own: &Own, request: &ZooKeeperRequest) -> String {
        spell::zookeeper_request(&own.0, request)
    }
}

impl Own {
    /// Who is called `word` in a story.
    fn name(&self, word: &str) -> String {
        match word {
            "own" => self.0.clone(),
            number if number.parse::<u32>().is_ok() => format!("_c_other-latch-{number:0>10}"),
            name => name.to_owned(),
        }
    }
}

fn owner(text: &str) -> Result<Option<SessionId>, String> {
    if text == "nobody" { Ok(None) } else { session(text).map(Some) }
}

fn session(text: &str) -> Result<SessionId, String> {
    parse(text.strip_prefix('s').ok_or("a session is s and a number")?).map(SessionId)
}

fn parse(number: &str) -> Result<u64, String> {
    number.parse().map_err(|_| format!("{number:?} is not a number"))
}
