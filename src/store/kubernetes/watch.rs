//! The watch of one Lease: opened behind the newest version that is known, and again whenever it ends.
//!
//! Touches kube's client and the clock. A watch may end without a word, or live on and be deaf: behind a version that
//! the server has not come to, as after a restore of etcd. Reads tell it where the Lease is ([`Watch::read_shows`]),
//! and one that is behind them, or ahead, is opened anew.
//!
//! A server keeps no history from before its start, so it may refuse the version of a quiet Lease
//! for good (410). Then the watch begins at the present, and a read follows, since the Lease may
//! have changed in between. A failing watch is opened at most once a retry period.

use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::store::StoreError;
use crate::store::kubernetes::Leases;
use crate::store::kubernetes::bodies::Lines;
use crate::store::kubernetes::lease_object::{Object, version_number};
use crate::store::kubernetes::refusal::CallError;
use baton_election::instant::Instant;
use baton_election::text::one_line;
use kube::api::WatchParams;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long one watch lasts, in seconds, by the server's timer. Ours adds one call to it: the end that a dead
/// connection never brings.
const WATCH_SECONDS: u32 = 60;

/// What was heard of the Lease, and what may come of it.
#[derive(Default)]
pub(super) struct Watch {
    stream: RefCell<Option<Stream>>,
    /// The version that the watch has reached; absent until the first read.
    position: Cell<Option<u128>>,
    /// The newest position that the server refused to watch from.
    refused_position: Cell<Option<u128>>,
    /// A read has moved the position. It wakes who waits now, and nobody later: a watch that is opened afterwards
    /// begins there.
    moved: Notify,
    told_refusal: Cell<bool>,
    told_error: Cell<bool>,
}

/// An open watch.
struct Stream {
    lines: Lines,
    opened_at: Instant,
}

/// What a watch brings.
pub(super) enum News {
    /// The Lease as it was at some moment.
    Seen(Rc<Object>),
    /// It is gone, or nobody knows: it has to be read.
    Suspected,
}

/// Where a watch begins.
#[derive(Clone, Copy)]
enum Start {
    /// After a version: with the next change.
    Behind(u128),
    /// With the Lease as it is now, if there is one. A Lease that is gone by then is not mentioned.
    Present,
}

/// Why an open watch brings nothing more.
enum Over {
    /// A read knows more.
    Overtaken,
    Ended,
    /// The server says that it cannot go on, and why.
    Failed(String),
}

/// One line of a watch.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The fields that are read from an event without a Lease.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Failure {
    code: u16,
    message: String,
}

impl Watch {
    /// Takes in what a read has shown: the Lease at this version, 0 where there is none; `known` is the newest version
    /// that was seen before.
    pub(super) fn read_shows(&self, number: u128, known: Option<u128>) {
        let position = self.position.get();
        // A position may be ahead of the Lease, by other objects' versions; but the Lease itself never goes back,
        // unless all of them did.
        let went_back = known.is_some_and(|known| number < known);
        if went_back || position.is_none_or(|position| position < number) {
            self.position.set(Some(number));
            self.moved.notify_waiters();
        }
        if went_back {
            self.refused_position.set(None);
        }
    }

    /// The next news. It pends while nobody has read the Lease.
    pub(super) async fn next(&self, leases: &Leases) -> News {
        loop {
            // Taken out while it is waited for: a borrow must not be held over an await.
            let stream = self.stream.take();
            match (stream, self.position.get()) {
                (Some(mut stream), _) => match self.next_of(&mut stream, leases).await {
                    Ok(news) => {
                        self.stream.replace(Some(stream));
                        if let Some(news) = news {
                            return news;
                        }
                    }
                    Err(Over::Overtaken) => {}
                    // A server that closes every watch at once must not be asked without pause.
                    Err(Over::Ended) => {
                        self.pause_until(stream.opened_at + leases.retry_period).await;
                    }
                    Err(Over::Failed(why)) => self.fail(leases, &why, stream.opened_at).await,
                },
                (None, Some(position)) => {
                    if let Some(news) = self.open(leases, position).await {
                        return news;
                    }
                }
                (None, None) => self.moved.notified().await,
            }
        }
    }

    /// Opens a watch after `position`, or at the present if the server has refused that version.
    async fn open(&self, leases: &Leases, position: u128) -> Option<News> {
        let is_refused = self.refused_position.get().is_some_and(|refused| position <= refused);
        // Without a Lease there is no version to begin after.
        let start =
            if position == 0 || is_refused { Start::Present } else { Start::Behind(position) };
        let opening_at = Clock.now();
        match open(leases, start).await {
            Ok(stream) => {
                self.told_refusal.set(false);
                self.stream.replace(Some(stream));
                return is_refused.then_some(News::Suspected);
            }
            Err(CallError::Status { code: 410, message }) => {
                self.fail(leases, &message, opening_at).await;
            }
            Err(error) => {
                self.tell(leases, error.into());
                self.pause_until(Clock.now() + leases.retry_period).await;
            }
        }
        None
    }

    /// The next line of a watch; `None` if it brings nothing new.
    async fn next_of(&self, stream: &mut Stream, leases: &Leases) -> Result<Option<News>, Over> {
        let ends_at =
            stream.opened_at + Duration::from_secs(WATCH_SECONDS.into()) + leases.call_timeout;
        let line = tokio::select! {
            // The read that follows on silence reports why a line could not be read.
            line = stream.lines.next() => line.ok().flatten().ok_or(Over::Ended)?,
            () = self.moved.notified() => return Err(Over::Overtaken),
            () = Clock.sleep_until(ends_at) => return Err(Over::Ended),
        };
        let Line { r#type, object } = serde_json::from_slice(&line).map_err(|_| Over::Ended)?;
        match &*r#type {
            "ADDED" | "MODIFIED" => Ok(self.seen(object, &leases.place.name)),
            "DELETED" => Ok(Some(News::Suspected)),
            "BOOKMARK" => {
                self.passed(object);
                Ok(None)
            }
            "ERROR" => {
                let Failure { code, message } =
                    serde_json::from_str(object.get()).unwrap_or_default();
                Err(Over::Failed(format!("{code}: {message}")))
            }
            _ => Ok(None),
        }
    }

    fn seen(&self, object: &RawValue, name: &str) -> Option<News> {
        let object = Object::parse(object.get().as_bytes(), name).ok()?;
        self.told_error.set(false);
        let number = object.seen.version.number;
        if self.position.get().is_some_and(|position| number <= position) {
            return None;
        }
        self.position.set(Some(number));
        Some(News::Seen(Rc::new(object)))
    }

    fn passed(&self, bookmark: &RawValue) {
        let Bookmark { metadata } = serde_json::from_str(bookmark.get()).unwrap_or_default();
        if let Some(version) = version_number(&metadata.resource_version) {
            self.told_error.set(false);
            self.position.set(self.position.get().max(Some(version)));
        }
    }

    /// Notes that the server ended or refused a watch that was opened at this instant. No read cuts
    /// the pause short, because a read does not make the refused version any newer.
    async fn fail(&self, leases: &Leases, why: &str, opened_at: Instant) {
        self.refused_position.set(self.position.get());
        if !self.told_error.replace(true) {
            let (place, why) = (&leases.place, one_line(why));
            tracing::warn!(
                event = "watch_failed",
                "the watch of {place} failed, and begins at the present: {why}"
            );
        }
        Clock.sleep_until(opened_at + leases.retry_period).await;
    }

    /// A read that moves the position has met a server that answers: it is asked at once.
    async fn pause_until(&self, instant: Instant) {
        tokio::select! {
            () = Clock.sleep_until(instant) => {}
            () = self.moved.notified() => {}
        }
    }

    /// Says once what keeps us from watching where we may read. An API server that is away is told of by the read that
    /// follows on silence.
    fn tell(&self, leases: &Leases, error: StoreError) {
        match error {
            StoreError::Refused(error) if !self.told_refusal.replace(true) => {
                let place = &leases.place;
                let told = ErrorChain(&*error);
                tracing::error!(
                    event = "store_refuses",
                    "{place} cannot be watched, so changes are seen late: {told}"
                );
            }
            StoreError::Refused(_) | StoreError::Unusable(_) | StoreError::Unreachable(_) => {}
        }
    }
}

async fn open(leases: &Leases, start: Start) -> Result<Stream, CallError> {
    let parameters = WatchParams {
        field_selector: Some(format!("metadata.name={}", leases.place.name)),
        timeout: Some(WATCH_SECONDS),
        bookmarks: true,
        ..WatchParams::default()
    };
    let from = match start {
        Start::Behind(version) => version.to_string(),
        Start::Present => String::new(),
    };
    let opened = leases.call(leases.requests.watch(&parameters, &from));
    match tokio::time::timeout(leases.call_timeout, opened).await {
        Ok(opened) => {
            let answer = opened?.map_err(|error| leases.place.watch_refused(error))?;
            Ok(Stream { lines: Lines::of(answer), opened_at: Clock.now() })
        }
        Err(late) => Err(CallError::Transport(kube::Error::Service(Box::new(late)))),
    }
}
