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

mod api;
mod cluster;
mod connection;
mod files;
mod gateway;
pub mod history;
pub mod messages;
pub mod record_value;
pub mod refusal;
pub mod role;
#[cfg(test)]
mod script;
mod watch;

use crate::config::{ElectionName, EtcdConfig};
use crate::process::clock::Clock;
use crate::store::{Store, StoreError, WatchUpdate};
use api::{EtcdApi, Purpose};
use baton_election::instant::Instant;
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Intent, RecordEvent, RecordRequest, Snapshot, Version, Write,
};
use baton_election::timing::Timing;
use files::EtcdFilesError;
use gateway::Gateway;
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
use tokio::time::timeout;
use watch::EtcdWatch;

/// The longest comparison of the endpoints at the start, which delays the listeners.
const MAX_COMPARISON: Duration = Duration::from_secs(3);

/// The pause between two checks whether etcd is compacted.
const HISTORY_CHECK_INTERVAL: Duration = Duration::from_hours(1);

/// An election held in etcd.
pub(crate) struct EtcdStore<A: EtcdApi = Gateway> {
    api: A,
    record_key: String,
    term_key: String,
    /// The newest record that was read, written, or watched.
    latest: RefCell<Option<Rc<KnownRecord>>>,
    watch: EtcdWatch<A>,
    next_history_check: Cell<Instant>,
    timing: Timing,
}

/// A record with the value that holds it.
struct KnownRecord {
    found: KeyValue,
    stored: StoredRecord,
    snapshot: Snapshot,
}

/// Why an election in etcd cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EtcdOpenError {
    /// The user or a certificate cannot be read.
    #[error(transparent)]
    Files(#[from] EtcdFilesError),
    /// The endpoints lead to two clusters, which would hold two elections.
    #[error("cannot use --etcd-endpoints")]
    Clusters(#[source] EtcdError),
}

impl EtcdStore {
    /// Opens the `election` of `config`. The endpoints that answer soon must belong to one cluster.
    pub(crate) async fn open(
        config: &EtcdConfig,
        election: &ElectionName,
        timing: &Timing,
    ) -> Result<Self, EtcdOpenError> {
        let gateway = Gateway::open(config, timing).await?;
        let store = Self::over(gateway, &format!("{}/{election}", config.prefix), timing);
        let max_wait = timing.call_timeout().min(MAX_COMPARISON);
        let compared = store.api.compare_clusters(&store.record_key, max_wait).await;
        compared.map_err(EtcdOpenError::Clusters)?;
        Ok(store)
    }
}

impl<A: EtcdApi> EtcdStore<A> {
    /// The election whose keys are below `prefix`.
    fn over(api: A, prefix: &str, timing: &Timing) -> Self {
        let record_key = format!("{prefix}/record");
        Self {
            api,
            watch: EtcdWatch::new(record_key.clone(), timing),
            record_key,
            term_key: format!("{prefix}/term"),
            latest: RefCell::default(),
            next_history_check: Cell::new(Clock.now()),
            timing: *timing,
        }
    }

    /// Compares the known record with its first version, by the clocks of those who wrote them.
    /// `None` if etcd has compacted that version, if the history is short, or if etcd does not
    /// answer within the time limit of a call.
    pub(crate) async fn uncompacted_history(&self) -> Option<Uncompacted> {
        let latest = self.latest.borrow().clone()?;
        let purpose = Purpose::History(latest.found.create_revision);
        let reading = self.api.range(&self.record_key, purpose);
        let first = timeout(self.timing.call_timeout(), reading).await.ok()?;
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
            let pause = if is_known { HISTORY_CHECK_INTERVAL } else { self.timing.retry_period() };
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

    async fn get(&self, purpose: Purpose) -> Result<Answer<Option<Rc<KnownRecord>>>, EtcdError> {
        let Answer { cluster_id, revision, content } =
            self.api.range(&self.record_key, purpose).await?;
        let content = content.map(|found| self.known(found, cluster_id)).transpose()?;
        Ok(Answer { cluster_id, revision, content })
    }

    async fn read(&self) -> Result<Option<Snapshot>, EtcdError> {
        let known = self.watch.position();
        let Answer { revision, content, .. } = self.get(Purpose::Machine).await?;
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
        let Answer { cluster_id, revision, content } = self.api.txn(&txn).await?;
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
            None => Ok(self.get(Purpose::Write).await?.content.filter(is_at)),
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

impl<A: EtcdApi> Store<RecordElection> for EtcdStore<A> {
    async fn perform(&self, request: RecordRequest) -> Result<RecordEvent, StoreError> {
        Ok(self.try_perform(&request).await?)
    }

    async fn next_event(&self) -> RecordEvent {
        let update = tokio::select! {
            update = self.watch.next(&self.api) => update,
            never = self.warn_uncompacted() => match never {},
        };
        match update {
            WatchUpdate::Changed(Answer { cluster_id, content, .. }) => {
                match self.known(content, cluster_id) {
                    Ok(known) => {
                        let snapshot = known.snapshot.clone();
                        self.latest.replace(Some(known));
                        RecordEvent::WatchEvent(Some(snapshot))
                    }
                    // The read reports the error.
                    Err(_foreign) => RecordEvent::WatchEvent(None),
                }
            }
            WatchUpdate::ReadRequired => RecordEvent::WatchEvent(None),
        }
    }

    fn location(&self) -> String {
        format!("{} of {}", self.record_key, self.api.location())
    }
}

impl<A: EtcdApi> fmt::Debug for EtcdStore<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("key", &self.record_key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_election::identity::Identity;
    use script::{CLUSTER, Script, timing};
    use std::time::UNIX_EPOCH;

    /// A write of `us_1` over this version.
    fn write(over: Option<Version>) -> Write {
        let us = Identity::parse("us_1").unwrap();
        Write { over, ..Write::over(None, Intent::Renew, &us, Duration::from_secs(15)) }
    }

    fn store(found: Option<KeyValue>) -> EtcdStore<Script> {
        EtcdStore::over(Script::with_read(found), "/baton/orders", &timing())
    }

    /// The machine does not see the record that this read returns.
    #[tokio::test]
    async fn read_for_a_write_follows_to_no_other_cluster() {
        let store = store(None);
        let version = Version { uid: format!("{CLUSTER}-2").into(), number: 3 };
        let request = RecordRequest::Write(write(Some(version)));
        let event = store.try_perform(&request).await.unwrap();
        assert!(matches!(event, RecordEvent::Conflict), "{event:?}");
        assert_eq!(*store.api.purposes.borrow(), [Purpose::Write]);
    }

    #[tokio::test]
    async fn silent_member_ends_the_check_of_the_history() {
        let value = StoredRecord::after(None, &write(None), UNIX_EPOCH).to_text();
        let store = store(Some(KeyValue { value, create_revision: 2, mod_revision: 3 }));
        store.try_perform(&RecordRequest::Read).await.unwrap();
        let checking = timeout(Duration::from_secs(10), store.uncompacted_history());
        assert_eq!(checking.await, Ok(None));
        assert_eq!(*store.api.purposes.borrow(), [Purpose::Machine, Purpose::History(2)]);
    }
}
