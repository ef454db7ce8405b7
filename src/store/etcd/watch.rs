//! A watch of the record's key, reopened whenever it ends.
//!
//! Touches etcd and the clock. Start with [`EtcdWatch::next`]. A watch may stay open and
//! deliver nothing: its start was compacted, or lies ahead of a restored store, or its member is
//! stopped. So every answer reports its revision ([`EtcdWatch::note_read`]), and a watch behind or
//! ahead of it is reopened.
//!
//! It starts after the newest revision at which the record is known, which need not be a revision of
//! the record: that one may be compacted. A failing watch is opened at most once per retry period,
//! each time at the next member.

use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::store::etcd::api::{EtcdApi, WatchLines as _};
use crate::store::etcd::messages::{Answer, Header, KeyValue, WatchLine, WatchMessage};
use crate::store::etcd::refusal::{EtcdError, Failure};
use crate::store::{StoreError, WatchUpdate};
use baton_election::instant::Instant;
use baton_election::timing::Timing;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// The watch and its position.
pub(super) struct EtcdWatch<A: EtcdApi> {
    key: String,
    call_timeout: Duration,
    retry_period: Duration,
    stream: RefCell<Option<EtcdStream<A::Lines>>>,
    /// The revision up to which the record is known; absent until the first read.
    position: Cell<Option<u64>>,
    /// A read or a write moved the position. Only current waiters wake: a watch opened later starts there.
    moved: Notify,
    /// How many watches in a row have failed.
    failures: Cell<usize>,
    has_logged_refusal: Cell<bool>,
    /// Whether no event has arrived since a watch was compacted.
    was_compacted: Cell<bool>,
}

/// An open watch.
struct EtcdStream<L> {
    lines: L,
    opened_at: Instant,
}

/// A report of the watch: the record's key at some moment.
pub(super) type EtcdUpdate = WatchUpdate<Answer<KeyValue>>;

/// Why an open watch ended.
enum EtcdStreamEnd {
    /// A read returned a newer record, or the store went back.
    Overtaken,
    /// The position is compacted.
    Compacted,
    /// The member or the network ended it.
    Ended,
    /// etcd refused it.
    Refused(Failure),
}

impl<A: EtcdApi> EtcdWatch<A> {
    pub(super) fn new(key: String, timing: &Timing) -> Self {
        Self {
            key,
            call_timeout: timing.call_timeout(),
            retry_period: timing.retry_period(),
            stream: RefCell::default(),
            position: Cell::new(None),
            moved: Notify::new(),
            failures: Cell::new(0),
            has_logged_refusal: Cell::new(false),
            was_compacted: Cell::new(false),
        }
    }

    /// The revision up to which the record is known.
    pub(super) fn position(&self) -> Option<u64> {
        self.position.get()
    }

    /// Notes that a read at `revision` returned the record as of `record_revision`, 0 if there is
    /// none. The position was `known` when the read was sent.
    pub(super) fn note_read(&self, revision: u64, record_revision: u64, known: Option<u64>) {
        // A linearizable read returns what was known before it, except from a restored store.
        let went_back = known.is_some_and(|known| revision < known);
        let position = self.position.get();
        self.position.set(Some(if went_back {
            revision
        } else {
            revision.max(position.unwrap_or(0))
        }));
        if went_back || position.is_none_or(|position| position < record_revision) {
            self.moved.notify_waiters();
        }
    }

    /// Notes that a write of ours was applied at `revision`.
    pub(super) fn note_write(&self, revision: u64) {
        let position = self.position.get();
        self.position.set(position.max(Some(revision)));
        if position.is_none() {
            self.moved.notify_waiters();
        }
    }

    /// The next update. Waits until the record has been read once.
    pub(super) async fn next(&self, api: &A) -> EtcdUpdate {
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
                    Err(EtcdStreamEnd::Overtaken) => {}
                    Err(EtcdStreamEnd::Compacted) => {
                        self.position.set(None);
                        if self.was_compacted.replace(true) {
                            self.pause(stream.opened_at).await;
                        }
                        return WatchUpdate::ReadRequired;
                    }
                    Err(EtcdStreamEnd::Ended) => self.pause(stream.opened_at).await,
                    Err(EtcdStreamEnd::Refused(failure)) => {
                        self.refused(api, failure);
                        self.pause(stream.opened_at).await;
                    }
                },
                (None, Some(position)) => self.open(api, position).await,
                (None, None) => self.moved.notified().await,
            }
        }
    }

    async fn open(&self, api: &A, position: u64) {
        let opening_at = Clock.now();
        let opening = api.watch(&self.key, position, self.failures.get());
        match timeout(self.call_timeout, opening).await {
            Ok(Ok(lines)) => {
                self.stream.replace(Some(EtcdStream { lines, opened_at: Clock.now() }));
            }
            Ok(Err(error)) => {
                self.log_refusal(error);
                self.pause(opening_at).await;
            }
            Err(_elapsed) => self.pause(opening_at).await,
        }
    }

    /// The next line of a watch; `None` if it brings nothing new.
    async fn next_line(
        &self,
        stream: &mut EtcdStream<A::Lines>,
        api: &A,
    ) -> Result<Option<EtcdUpdate>, EtcdStreamEnd> {
        let line = tokio::select! {
            // No report: without watch events, the machine sends a read, whose error is reported.
            line = stream.lines.next_line() => line.ok_or(EtcdStreamEnd::Ended)?,
            () = self.moved.notified() => return Err(EtcdStreamEnd::Overtaken),
        };
        let message = WatchMessage::parse(&line).map_err(|_| EtcdStreamEnd::Ended)?;
        // The watch may have reached an endpoint of another cluster than that of the reads.
        if message.header.is_some_and(|header| !api.hears(header.cluster_id)) {
            return Err(EtcdStreamEnd::Ended);
        }
        let Header { cluster_id, revision } = message.header.unwrap_or_default();
        let (revision, update) = match message.line {
            WatchLine::Idle => {
                self.failures.set(0);
                self.has_logged_refusal.set(false);
                // This watch hears nothing before its start, which lies ahead of the store: the
                // store was restored, or this member lags.
                let is_ahead = self.position.get().is_some_and(|position| revision < position);
                return Ok(is_ahead.then_some(WatchUpdate::ReadRequired));
            }
            WatchLine::Put(content) => {
                let found = Answer { cluster_id, revision, content };
                (found.content.mod_revision, WatchUpdate::Changed(found))
            }
            WatchLine::Deleted(revision) => (revision, WatchUpdate::ReadRequired),
            WatchLine::Compacted => return Err(EtcdStreamEnd::Compacted),
            WatchLine::Ended(reason) => {
                return Err(EtcdStreamEnd::Refused(Failure::of_watch(&reason)));
            }
        };
        if self.position.get().is_some_and(|position| revision <= position) {
            return Ok(None);
        }
        self.position.set(Some(revision));
        self.was_compacted.set(false);
        Ok(Some(update))
    }

    /// Waits after a failure, until a retry period has passed since `opened_at`, or until a read
    /// moves the position: etcd answers again then. The next watch asks another member.
    async fn pause(&self, opened_at: Instant) {
        self.failures.set(self.failures.get().wrapping_add(1));
        tokio::select! {
            () = Clock.sleep_until(opened_at + self.retry_period) => {}
            () = self.moved.notified() => {}
        }
    }

    /// Notes that etcd ended the watch with an error.
    fn refused(&self, api: &A, failure: Failure) {
        if matches!(failure, Failure::TokenRefused(_)) {
            return api.forget_token();
        }
        self.log_refusal(failure.into_error("the watch".to_owned()));
    }

    /// Logs once if etcd refuses the watch, since it may still allow reads. An unreachable member is
    /// reported by the machine's next read.
    fn log_refusal(&self, error: EtcdError) {
        match error.into() {
            StoreError::Refused(error) if !self.has_logged_refusal.replace(true) => {
                let key = &self.key;
                let chain = ErrorChain(&*error);
                tracing::error!(
                    event = "store_refuses",
                    "cannot watch {key}, so changes are noticed late: {chain}"
                );
            }
            StoreError::Refused(_) | StoreError::Unusable(_) | StoreError::Unreachable(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::etcd::script::{CLUSTER, Script, compacted, idle, put, timing};
    use std::pin::pin;

    fn watch() -> EtcdWatch<Script> {
        EtcdWatch::new("r".to_owned(), &timing())
    }

    async fn report(watch: &EtcdWatch<Script>, script: &Script) -> EtcdUpdate {
        timeout(Duration::from_secs(10), watch.next(script)).await.expect("it reports an update")
    }

    /// Runs the watch until it waits, and requires that it reports nothing.
    async fn run_in_silence(watch: &EtcdWatch<Script>, script: &Script, opened: &[(u64, usize)]) {
        let mut next = pin!(watch.next(script));
        let deadline = Clock.now() + Duration::from_secs(10);
        while script.opened() != opened {
            assert!(Clock.now() < deadline, "opened {:?}", script.opened());
            let waited = timeout(Duration::from_millis(1), next.as_mut()).await;
            assert!(waited.is_err(), "it reports an update");
        }
    }

    /// A member or proxy may cancel each watch at once.
    #[tokio::test]
    async fn second_compacted_watch_is_followed_by_a_pause() {
        let script = Script::with_watches([vec![compacted(9)], vec![compacted(9)]]);
        let watch = watch();
        for waits in [false, true] {
            watch.note_read(5, 3, watch.position());
            let began = Clock.now();
            assert!(matches!(report(&watch, &script).await, WatchUpdate::ReadRequired));
            assert_eq!(Clock.now().since(began) >= watch.retry_period, waits, "it has paused");
        }
        assert_eq!(script.opened(), [(5, 0), (5, 0)]);
    }

    /// The start of a leader's watch is compacted. A renewal is applied, so no read follows.
    #[tokio::test]
    async fn applied_write_opens_a_watch_after_a_compaction() {
        let script = Script::with_watches([vec![compacted(9)], vec![]]);
        let watch = watch();
        watch.note_read(5, 3, None);
        assert!(matches!(report(&watch, &script).await, WatchUpdate::ReadRequired));
        let mut next = pin!(watch.next(&script));
        assert!(timeout(Duration::from_millis(1), next.as_mut()).await.is_err());
        assert_eq!(script.opened(), [(5, 0)], "no position is known");
        watch.note_write(9);
        assert!(timeout(Duration::from_millis(1), next.as_mut()).await.is_err());
        assert_eq!(script.opened(), [(5, 0), (9, 0)]);
    }

    /// The next endpoint may lead to another cluster, whose record is not this one.
    #[tokio::test]
    async fn watch_of_another_cluster_ends() {
        let script = Script::with_watches([vec![put(CLUSTER + 1, 40)], vec![]]);
        let watch = watch();
        watch.note_read(5, 3, None);
        run_in_silence(&watch, &script, &[(5, 0), (5, 1)]).await;
        assert_eq!(watch.position(), Some(5), "a revision of the other cluster does not count");
    }

    /// A restored store has not reached the watch's start yet, so the watch would get no events.
    #[tokio::test]
    async fn watch_that_starts_in_the_future_requires_a_read() {
        let script = Script::with_watches([vec![idle(7)]]);
        let watch = watch();
        watch.note_read(20, 5, None);
        assert!(matches!(report(&watch, &script).await, WatchUpdate::ReadRequired));
        watch.note_read(7, 5, watch.position());
        assert_eq!(watch.position(), Some(7));
    }

    /// The record's own revision may be compacted, while that of the answer is not.
    #[test]
    fn watch_starts_after_the_newest_answer() {
        let watch = watch();
        watch.note_read(20, 5, None);
        assert_eq!(watch.position.get(), Some(20));
        watch.note_write(23);
        watch.note_read(24, 23, Some(23));
        assert_eq!(watch.position.get(), Some(24));
        watch.note_read(18, 5, Some(24));
        assert_eq!(watch.position.get(), Some(18), "the store was set back");
    }
}
