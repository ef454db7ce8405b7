//! A watch of one Lease, reopened whenever it ends.
//!
//! Touches kube's client and the clock. Start with [`LeaseWatch::next`]. A watch may end silently,
//! or stay open and deliver nothing: it may wait for a version that the server has not reached, as
//! after a restore of etcd. So reads report the Lease's version ([`LeaseWatch::note_read`]), and a
//! watch behind or ahead of it is reopened.
//!
//! A server has no history from before its start, so it may refuse the version of a quiet Lease
//! forever (410). The watch then starts at the current state, and a read follows, since the Lease
//! may have changed in between. A failing watch is opened at most once per retry period.

use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::store::kubernetes::LeaseApi;
use crate::store::kubernetes::bodies::BodyLines;
use crate::store::kubernetes::lease_object::{LeaseObject, version_number};
use crate::store::kubernetes::refusal::LeaseError;
use crate::store::{StoreError, WatchUpdate};
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

/// How long the server keeps a watch open, in seconds. A client-side limit adds one call's timeout,
/// since a dead connection never reports the end.
const WATCH_SECONDS: u32 = 60;

/// The watch and its position.
#[derive(Default)]
pub(super) struct LeaseWatch {
    stream: RefCell<Option<LeaseStream>>,
    /// The version up to which the Lease is known; absent until the first read.
    position: Cell<Option<u128>>,
    /// The newest position from which the server refused to watch.
    refused_position: Cell<Option<u128>>,
    /// A read moved the position. Only current waiters wake: a watch opened later starts there.
    moved: Notify,
    has_logged_refusal: Cell<bool>,
    has_logged_failure: Cell<bool>,
}

/// An open watch.
struct LeaseStream {
    lines: BodyLines,
    opened_at: Instant,
}

/// A report of the watch: the Lease at some moment.
type LeaseUpdate = WatchUpdate<Rc<LeaseObject>>;

/// Where a watch starts.
#[derive(Clone, Copy)]
enum WatchStart {
    /// With the first change after this version.
    After(u128),
    /// With the current Lease, if any. An earlier deletion is not reported.
    Now,
}

/// Why an open watch ended.
enum LeaseStreamEnd {
    /// A read returned a newer version, or the store went back.
    Overtaken,
    /// The server or the network ended it, or it has lasted too long.
    Ended,
    /// The server reported an error.
    Failed(String),
}

/// A line of a watch.
#[derive(Deserialize)]
struct LeaseLine<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The fields that are read from a bookmark.
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
struct WatchFailure {
    code: u16,
    message: String,
}

impl LeaseWatch {
    /// Notes that a read returned this version, 0 if there is no Lease; `known` is the newest
    /// version seen before.
    pub(super) fn note_read(&self, number: u128, known: Option<u128>) {
        let position = self.position.get();
        // The position may be ahead of the Lease, by versions of other objects. But the Lease's own
        // version decreases only if the whole store was set back.
        let went_back = known.is_some_and(|known| number < known);
        if went_back || position.is_none_or(|position| position < number) {
            self.position.set(Some(number));
            self.moved.notify_waiters();
        }
        if went_back {
            self.refused_position.set(None);
        }
    }

    /// The next update. Waits until the Lease has been read once.
    pub(super) async fn next(&self, api: &LeaseApi) -> LeaseUpdate {
        loop {
            // Take it out: a borrow must not be held across an await.
            let stream = self.stream.take();
            match (stream, self.position.get()) {
                (Some(mut stream), _) => match self.next_line(&mut stream, api).await {
                    Ok(update) => {
                        self.stream.replace(Some(stream));
                        if let Some(update) = update {
                            return update;
                        }
                    }
                    Err(LeaseStreamEnd::Overtaken) => {}
                    // Do not flood a server that closes every watch at once.
                    Err(LeaseStreamEnd::Ended) => {
                        self.pause_until(stream.opened_at + api.retry_period).await;
                    }
                    Err(LeaseStreamEnd::Failed(reason)) => {
                        self.fail(api, &reason, stream.opened_at).await;
                    }
                },
                (None, Some(position)) => {
                    if let Some(update) = self.open(api, position).await {
                        return update;
                    }
                }
                (None, None) => self.moved.notified().await,
            }
        }
    }

    /// Opens a watch after `position`, or at the current state if the server has refused
    /// `position`.
    async fn open(&self, api: &LeaseApi, position: u128) -> Option<LeaseUpdate> {
        let is_refused = self.refused_position.get().is_some_and(|refused| position <= refused);
        // Without a Lease there is no version to start after.
        let start =
            if position == 0 || is_refused { WatchStart::Now } else { WatchStart::After(position) };
        let opening_at = Clock.now();
        match open(api, start).await {
            Ok(stream) => {
                self.has_logged_refusal.set(false);
                self.stream.replace(Some(stream));
                return is_refused.then_some(WatchUpdate::ReadRequired);
            }
            Err(LeaseError::Status { code: 410, message }) => {
                self.fail(api, &message, opening_at).await;
            }
            Err(error) => {
                self.log_refusal(api, error.into());
                self.pause_until(Clock.now() + api.retry_period).await;
            }
        }
        None
    }

    /// The next line of a watch; `None` if it brings nothing new.
    async fn next_line(
        &self,
        stream: &mut LeaseStream,
        api: &LeaseApi,
    ) -> Result<Option<LeaseUpdate>, LeaseStreamEnd> {
        let ends_at =
            stream.opened_at + Duration::from_secs(WATCH_SECONDS.into()) + api.call_timeout;
        let line = tokio::select! {
            // No report: without watch events, the machine sends a read, whose error is reported.
            line = stream.lines.next() => line.ok().flatten().ok_or(LeaseStreamEnd::Ended)?,
            () = self.moved.notified() => return Err(LeaseStreamEnd::Overtaken),
            () = Clock.sleep_until(ends_at) => return Err(LeaseStreamEnd::Ended),
        };
        let LeaseLine { r#type, object } =
            serde_json::from_slice(&line).map_err(|_| LeaseStreamEnd::Ended)?;
        match &*r#type {
            "ADDED" | "MODIFIED" => Ok(self.changed(object, &api.lease.name)),
            "DELETED" => Ok(Some(WatchUpdate::ReadRequired)),
            "BOOKMARK" => {
                self.bookmarked(object);
                Ok(None)
            }
            "ERROR" => {
                let WatchFailure { code, message } =
                    serde_json::from_str(object.get()).unwrap_or_default();
                Err(LeaseStreamEnd::Failed(format!("{code}: {message}")))
            }
            _ => Ok(None),
        }
    }

    fn changed(&self, object: &RawValue, name: &str) -> Option<LeaseUpdate> {
        let object = LeaseObject::parse(object.get().as_bytes(), name).ok()?;
        self.has_logged_failure.set(false);
        let number = object.snapshot.version.number;
        if self.position.get().is_some_and(|position| number <= position) {
            return None;
        }
        self.position.set(Some(number));
        Some(WatchUpdate::Changed(Rc::new(object)))
    }

    fn bookmarked(&self, bookmark: &RawValue) {
        let Bookmark { metadata } = serde_json::from_str(bookmark.get()).unwrap_or_default();
        if let Some(version) = version_number(&metadata.resource_version) {
            self.has_logged_failure.set(false);
            self.position.set(self.position.get().max(Some(version)));
        }
    }

    /// Notes that the server refused the position of a watch opened at `opened_at`, and waits. A
    /// read does not shorten the wait, since it does not make the refused version any newer.
    async fn fail(&self, api: &LeaseApi, reason: &str, opened_at: Instant) {
        self.refused_position.set(self.position.get());
        if !self.has_logged_failure.replace(true) {
            let (lease, reason) = (&api.lease, one_line(reason));
            tracing::warn!(
                event = "watch_failed",
                "the watch of {lease} failed, so it restarts at the current state: {reason}"
            );
        }
        Clock.sleep_until(opened_at + api.retry_period).await;
    }

    /// Waits until `instant`, or until a read moves the position: the server answers again then.
    async fn pause_until(&self, instant: Instant) {
        tokio::select! {
            () = Clock.sleep_until(instant) => {}
            () = self.moved.notified() => {}
        }
    }

    /// Logs once if the server refuses the watch, since it may still allow reads. An unreachable
    /// API server is reported by the machine's next read.
    fn log_refusal(&self, api: &LeaseApi, error: StoreError) {
        match error {
            StoreError::Refused(error) if !self.has_logged_refusal.replace(true) => {
                let lease = &api.lease;
                let chain = ErrorChain(&*error);
                tracing::error!(
                    event = "store_refuses",
                    "cannot watch {lease}, so changes are noticed late: {chain}"
                );
            }
            StoreError::Refused(_) | StoreError::Unusable(_) | StoreError::Unreachable(_) => {}
        }
    }
}

async fn open(api: &LeaseApi, start: WatchStart) -> Result<LeaseStream, LeaseError> {
    let parameters = WatchParams {
        field_selector: Some(format!("metadata.name={}", api.lease.name)),
        timeout: Some(WATCH_SECONDS),
        bookmarks: true,
        ..WatchParams::default()
    };
    let version = match start {
        WatchStart::After(version) => version.to_string(),
        WatchStart::Now => String::new(),
    };
    let opened = api.server.call(api.requests.watch(&parameters, &version));
    match tokio::time::timeout(api.call_timeout, opened).await {
        Ok(opened) => {
            let response = opened?.map_err(|error| api.lease.watch_refused(error))?;
            Ok(LeaseStream { lines: BodyLines::new(response), opened_at: Clock.now() })
        }
        Err(elapsed) => Err(LeaseError::Transport(kube::Error::Service(Box::new(elapsed)))),
    }
}
