//! Opens a session at the ZooKeeper servers, and reads the announcement of the leader.
//!
//! Touches ZooKeeper, through [`ZooKeeperStore`]. Start with [`Report::session`].

use super::report::{Milliseconds, Report, Verdict};
use crate::config::ZooKeeperConfig;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::store::Store;
use crate::store::zookeeper::ZooKeeperStore;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest};
use baton_election::text::one_line;
use std::time::Duration;
use tokio::time::timeout;

/// The longest excerpt of a text from the store, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

impl Report {
    /// Opens a session, reads the announcement of the leader, and closes the session.
    pub(super) async fn session(
        &mut self,
        store: &ZooKeeperStore,
        config: &ZooKeeperConfig,
        call: Duration,
    ) {
        let perform = async |request| {
            let performing = <ZooKeeperStore as Store<QueueElection>>::perform(store, request);
            timeout(call, performing).await
        };
        let requested = config.timing.requested().lease_duration();
        let began = Clock.now();
        let granted = match perform(QueueRequest::Begin { timeout: requested }).await {
            Ok(Ok(event)) => match granted_timeout(&event) {
                Some(granted) => granted,
                None => return self.line(Verdict::Warning, "store", &"no session was granted"),
            },
            Ok(Err(error)) => return self.refused(&error),
            Err(_elapsed) => return self.no_answer(call),
        };
        let took = Milliseconds(Clock.now().since(began));
        let location = store.location();
        self.line(Verdict::Ok, "store", &format_args!("{location} connects in {took}"));
        match config.timing.grant(granted) {
            Ok(_) => {
                let text = format!("granted {granted:?} (requested: {requested:?})");
                self.line(Verdict::Ok, "session", &text);
            }
            Err(errors) => {
                for error in errors {
                    self.failure("session", Exit::Usage, &error);
                }
            }
        }
        match perform(QueueRequest::ReadLeader).await {
            Ok(Ok(event)) => self.leader(event, call),
            Ok(Err(error)) => self.refused(&error),
            Err(_elapsed) => self.no_answer(call),
        }
        // The session expires by itself if this fails.
        perform(QueueRequest::Close).await.ok();
    }

    /// Reports the reply to a read of the announcement.
    fn leader(&mut self, event: QueueEvent, call: Duration) {
        match event {
            QueueEvent::Leader(Some(leader)) => {
                // Any client may have written it.
                let text: String = one_line(&leader.text).chars().take(MAX_EXCERPT_CHARS).collect();
                self.line(Verdict::Ok, "leader", &format_args!("announced: {text}"));
            }
            QueueEvent::Leader(None) | QueueEvent::Missing => {
                self.line(Verdict::Ok, "leader", &"none is announced");
            }
            QueueEvent::Connected { .. }
            | QueueEvent::Expired
            | QueueEvent::Closed
            | QueueEvent::Made
            | QueueEvent::Joined { .. }
            | QueueEvent::Listed(_)
            | QueueEvent::Found { .. }
            | QueueEvent::Checked
            | QueueEvent::Announced
            | QueueEvent::Saturated
            | QueueEvent::Changed
            | QueueEvent::Refused
            | QueueEvent::Unknown
            | QueueEvent::Disconnected
            | QueueEvent::WatchFired => self.no_answer(call),
        }
    }
}

/// The timeout of the session that this reply grants, if it grants one.
const fn granted_timeout(event: &QueueEvent) -> Option<Duration> {
    match event {
        QueueEvent::Connected { timeout, .. } => Some(*timeout),
        QueueEvent::Expired
        | QueueEvent::Closed
        | QueueEvent::Made
        | QueueEvent::Joined { .. }
        | QueueEvent::Listed(_)
        | QueueEvent::Found { .. }
        | QueueEvent::Checked
        | QueueEvent::Leader(_)
        | QueueEvent::Announced
        | QueueEvent::Missing
        | QueueEvent::Saturated
        | QueueEvent::Changed
        | QueueEvent::Refused
        | QueueEvent::Unknown
        | QueueEvent::Disconnected
        | QueueEvent::WatchFired => None,
    }
}
