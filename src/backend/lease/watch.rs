//! The watch of one Lease: opened behind the newest version that is known, and again whenever it ends.
//!
//! Touches kube's client and the clock. A watch may end without a word, or live on and be deaf: behind a version that
//! the server has not come to, as after a restore of etcd. Reads tell it where the Lease is ([`Watch::read_shows`]),
//! and one that is behind them, or ahead, is opened anew.

use super::Leases;
use super::refusal::CallError;
use crate::backend::StoreError;
use crate::backend::lease_object::snapshot;
use crate::clock::{Clock, Instant};
use crate::election::record::Snapshot;
use crate::report::Chain;
use futures_util::stream::{BoxStream, StreamExt};
use kube::api::{DynamicObject, WatchEvent, WatchParams};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::sync::Notify;

/// How long one watch lasts, in seconds, by the server's timer. Ours adds one call to it: the end that a dead
/// connection never brings.
const WATCH_SECONDS: u32 = 60;

/// What was heard of the Lease, and what may come of it.
#[derive(Default)]
pub(super) struct Watch {
    stream: RefCell<Option<Stream>>,
    /// The version that the watch has come to; absent while a read has to come first.
    position: Cell<Option<u128>>,
    /// A read has moved the position. It wakes who waits now, and nobody later: a watch that is opened afterwards
    /// begins there.
    moved: Notify,
    told_refusal: Cell<bool>,
}

/// An open watch.
struct Stream {
    events: BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>,
    opened_at: Instant,
}

/// What a watch brings.
pub(super) enum News {
    /// The Lease as it was at some moment.
    Seen(Snapshot, Box<DynamicObject>),
    /// It is gone, or nobody knows: it has to be read.
    Suspected,
}

/// Why an open watch brings nothing more.
enum Over {
    /// A read knows more.
    Overtaken,
    Ended,
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
    }

    /// The next news. It pends while nobody has read the Lease.
    pub(super) async fn next(&self, leases: &Leases) -> News {
        loop {
            // Taken out while it is waited for: a borrow must not be held over an await.
            let stream = self.stream.take();
            match (stream, self.position.get()) {
                (Some(mut stream), _) => match self.next_of(&mut stream, leases.call_timeout).await {
                    Ok(event) => {
                        self.stream.replace(Some(stream));
                        if let Some(news) = self.news(event) {
                            return news;
                        }
                    }
                    Err(Over::Overtaken) => {}
                    // A server that closes every watch at once must not be asked without pause.
                    Err(Over::Ended) => self.pause_until(stream.opened_at + leases.retry_period).await,
                },
                (None, Some(from)) => match open(leases, from).await {
                    Ok(stream) => {
                        self.told_refusal.set(false);
                        self.stream.replace(Some(stream));
                    }
                    Err(CallError::Status { code: 410, .. }) => return self.lose_position(),
                    Err(error) => {
                        self.tell(leases, error.into());
                        self.pause_until(Clock.now() + leases.retry_period).await;
                    }
                },
                (None, None) => self.moved.notified().await,
            }
        }
    }

    async fn next_of(&self, stream: &mut Stream, call_timeout: Duration) -> Result<WatchEvent<DynamicObject>, Over> {
        let ends_at = stream.opened_at + Duration::from_secs(WATCH_SECONDS.into()) + call_timeout;
        tokio::select! {
            event = stream.events.next() => event.and_then(Result::ok).ok_or(Over::Ended),
            () = self.moved.notified() => Err(Over::Overtaken),
            () = Clock.sleep_until(ends_at) => Err(Over::Ended),
        }
    }

    /// What an event says; `None` for what is no news.
    fn news(&self, event: WatchEvent<DynamicObject>) -> Option<News> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let seen = snapshot(&object).ok()?;
                if self.position.get().is_some_and(|position| seen.version.number <= position) {
                    return None;
                }
                self.position.set(Some(seen.version.number));
                Some(News::Seen(seen, Box::new(object)))
            }
            WatchEvent::Deleted(_) => Some(News::Suspected),
            WatchEvent::Bookmark(bookmark) => {
                let version = bookmark.metadata.resource_version.parse().ok()?;
                self.position.set(self.position.get().max(Some(version)));
                None
            }
            WatchEvent::Error(_) => Some(self.lose_position()),
        }
    }

    /// 410: the version is too old to watch from. Only a read says where to begin again.
    fn lose_position(&self) -> News {
        self.position.set(None);
        News::Suspected
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
                let told = Chain(&*error);
                tracing::error!(event = "store_refuses", "{place} cannot be watched, so changes are seen late: {told}");
            }
            StoreError::Refused(_) | StoreError::Unreachable(_) => {}
        }
    }
}

/// Opens a watch behind `from`, the newest version that is known.
async fn open(leases: &Leases, from: u128) -> Result<Stream, CallError> {
    let parameters = WatchParams {
        field_selector: Some(format!("metadata.name={}", leases.place.name)),
        timeout: Some(WATCH_SECONDS),
        bookmarks: true,
        ..WatchParams::default()
    };
    // Without a Lease there is no version to begin at: an empty one means the present.
    let from = if from == 0 { String::new() } else { from.to_string() };
    let opened = leases.call(async |api| api.watch(&parameters, &from).await.map(StreamExt::boxed));
    match tokio::time::timeout(leases.call_timeout, opened).await {
        Ok(opened) => {
            let events = opened?.map_err(|error| leases.place.watch_refused(error))?;
            Ok(Stream { events, opened_at: Clock.now() })
        }
        Err(late) => Err(CallError::Transport(kube::Error::Service(Box::new(late)))),
    }
}
