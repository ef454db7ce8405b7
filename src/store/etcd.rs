//! The etcd store: one key, transactions that compare it, and a watch.
//!
//! Touches etcd through its JSON gateway. It turns the record election's requests into calls and
//! decides nothing: `refusal.rs` interprets errors, and `watch.rs` holds the watch. Start with
//! [`EtcdStore`].
//!
//! There is no etcd lease. A keepalive is no raft write: a member that was stopped may acknowledge
//! one after the cluster has ended the lease. A transaction is ordered with all others.
//!
//! The key `PREFIX/ELECTION/term` is put in the same transaction at an acquisition and at a release,
//! so its `mod_revision` is the token while that term lasts. An application fences writes to the same
//! etcd by comparing it.

mod cluster;
mod connection;
mod files;
mod gateway;
pub mod history;
pub mod messages;
pub mod record_value;
pub mod refusal;
pub mod role;
mod watch;

use crate::config::{ElectionName, EtcdConfig};
use crate::process::clock::Clock;
use crate::store::{Store, StoreError};
use baton_election::instant::Instant;
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Intent, RecordEvent, RecordRequest, Snapshot, Version, Write,
};
use baton_election::timing::Timing;
pub use files::EtcdFilesError;
use gateway::{EtcdApi as _, Gateway};
use history::Uncompacted;
use messages::{Answer, KeyValue, Txn, TxnOutcome};
use record_value::StoredRecord;
use refusal::EtcdError;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;
use watch::{EtcdWatch, WatchUpdate};

/// The pause between two checks whether etcd is compacted.
const HISTORY_CHECK_INTERVAL: Duration = Duration::from_hours(1);

/// An election held in etcd.
pub struct EtcdStore {
    gateway: Gateway,
    record_key: String,
    term_key: String,
    /// The newest record that was read, written, or watched.
    latest: RefCell<Option<Rc<KnownRecord>>>,
    watch: EtcdWatch,
    next_history_check: Cell<Instant>,
    retry_period: Duration,
}

/// A record with the value that holds it.
struct KnownRecord {
    found: KeyValue,
    stored: StoredRecord,
    snapshot: Snapshot,
}

impl EtcdStore {
    /// Opens the `election` of `config`, without a request.
    pub async fn open(
        config: &EtcdConfig,
        election: &ElectionName,
        timing: &Timing,
    ) -> Result<Self, EtcdFilesError> {
        let key = |name| format!("{}/{election}/{name}", config.prefix);
        let record_key = key("record");
        Ok(Self {
            gateway: Gateway::open(config, timing).await?,
            watch: EtcdWatch::new(record_key.clone(), timing),
            record_key,
            term_key: key("term"),
            latest: RefCell::default(),
            next_history_check: Cell::new(Clock.now()),
            retry_period: timing.retry_period(),
        })
    }

    /// Compares the known record with its first version, by the clocks of those who wrote them.
    /// `None` if etcd has compacted that version, or if the history is short.
    pub async fn uncompacted_history(&self) -> Option<Uncompacted> {
        let latest = self.latest.borrow().clone()?;
        let first = self.gateway.range(&self.record_key, Some(latest.found.create_revision)).await;
        let Answer { cluster_id, content, .. } = first.ok()?;
        let first = self.known(content?, cluster_id).ok()?;
        let kept = latest.stored.renewed_at()?.duration_since(first.stored.renewed_at()?);
        Uncompacted::if_long(kept.ok()?)
    }

    /// Warns once if etcd is not compacted. Checks as soon as there is a record, and then hourly.
    async fn warn_uncompacted(&self) -> Infallible {
        loop {
            Clock.sleep_until(self.next_history_check.get()).await;
            let is_known = self.latest.borrow().is_some();
            let pause = if is_known { HISTORY_CHECK_INTERVAL } else { self.retry_period };
            self.next_history_check.set(Clock.now() + pause);
            if let Some(found) = self.uncompacted_history().await {
                tracing::warn!(event = "history_uncompacted", "{found}");
                return pending().await;
            }
        }
    }

    async fn try_perform(&self, request: &RecordRequest) -> Result<RecordEvent, EtcdError> {
        match request {
            RecordRequest::Read => Ok(RecordEvent::Read(self.read().await?)),
            RecordRequest::Write(write) => self.write(write).await,
        }
    }

    async fn get(&self) -> Result<Answer<Option<Rc<KnownRecord>>>, EtcdError> {
        let Answer { cluster_id, revision, content } =
            self.gateway.range(&self.record_key, None).await?;
        let content = content.map(|found| self.known(found, cluster_id)).transpose()?;
        Ok(Answer { cluster_id, revision, content })
    }

    async fn read(&self) -> Result<Option<Snapshot>, EtcdError> {
        let known = self.watch.position();
        let Answer { revision, content, .. } = self.get().await?;
        let snapshot = content.as_ref().map(|known| known.snapshot.clone());
        let record_revision = content.as_ref().map_or(0, |known| known.found.mod_revision);
        self.watch.note_read(revision, record_revision, known);
        self.latest.replace(content);
        Ok(snapshot)
    }

    async fn write(&self, write: &Write) -> Result<RecordEvent, EtcdError> {
        let base = match &write.over {
            None => None,
            Some(over) => match self.record_at(over).await? {
                Some(base) => Some(base),
                None => return Ok(RecordEvent::Conflict),
            },
        };
        let stored =
            StoredRecord::after(base.as_ref().map(|base| &base.stored), write, Clock.wall());
        let value = stored.to_text();
        let holder = write.holder.as_ref().map(ToString::to_string).unwrap_or_default();
        let puts = [(&*self.record_key, &*value), (&*self.term_key, holder.as_bytes())];
        let puts = match write.intent {
            Intent::Acquire | Intent::Release => &puts[..],
            Intent::Renew => &puts[..1],
        };
        let expected = base.as_ref().map(|base| &base.found);
        let txn = Txn { key: &self.record_key, expected, puts };
        let Answer { cluster_id, revision, content } = self.gateway.txn(&txn).await?;
        match content {
            TxnOutcome::Conflict => Ok(RecordEvent::Conflict),
            TxnOutcome::Applied => {
                let create_revision = expected.map_or(revision, |base| base.create_revision);
                let found = KeyValue { value, create_revision, mod_revision: revision };
                let known = self.known(found, cluster_id)?;
                let applied = known.snapshot.clone();
                self.latest.replace(Some(known));
                self.watch.note_write(revision);
                Ok(RecordEvent::Applied(applied))
            }
        }
    }

    /// The record of this version, with the value that a write compares. Reads the key if a watch
    /// event or a late reply has replaced the known record; `None` if etcd holds another version by
    /// then. The machine does not see this read, so the watch still reports that version.
    async fn record_at(&self, version: &Version) -> Result<Option<Rc<KnownRecord>>, EtcdError> {
        let is_at = |known: &Rc<KnownRecord>| known.snapshot.version == *version;
        let latest = self.latest.borrow().clone().filter(is_at);
        match latest {
            Some(known) => Ok(Some(known)),
            None => Ok(self.get().await?.content.filter(is_at)),
        }
    }

    /// The record in this value. Its uid names the cluster too: after a move to another cluster, a
    /// follower waits out the lease there from its first read.
    fn known(&self, found: KeyValue, cluster_id: u64) -> Result<Rc<KnownRecord>, EtcdError> {
        match StoredRecord::parse(&found) {
            Ok((stored, mut snapshot)) => {
                snapshot.version.uid = format!("{cluster_id:x}-{}", snapshot.version.uid).into();
                Ok(Rc::new(KnownRecord { found, stored, snapshot }))
            }
            Err(source) => Err(EtcdError::Foreign { key: self.record_key.clone(), source }),
        }
    }
}

impl Store<RecordElection> for EtcdStore {
    async fn perform(&self, request: RecordRequest) -> Result<RecordEvent, StoreError> {
        Ok(self.try_perform(&request).await?)
    }

    async fn next_event(&self) -> RecordEvent {
        let update = tokio::select! {
            update = self.watch.next(&self.gateway) => update,
            never = self.warn_uncompacted() => match never {},
        };
        match update {
            WatchUpdate::Changed { found, cluster_id } => match self.known(found, cluster_id) {
                Ok(known) => {
                    let snapshot = known.snapshot.clone();
                    self.latest.replace(Some(known));
                    RecordEvent::WatchEvent(Some(snapshot))
                }
                // The read reports the error.
                Err(_foreign) => RecordEvent::WatchEvent(None),
            },
            WatchUpdate::ReadRequired => RecordEvent::WatchEvent(None),
        }
    }

    fn location(&self) -> String {
        format!("{} of {}", self.record_key, self.gateway.location())
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("key", &self.record_key).finish_non_exhaustive()
    }
}
