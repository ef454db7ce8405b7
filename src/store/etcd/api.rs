//! The requests that the store sends to etcd.
//!
//! Touches nothing. Start with [`EtcdApi`]. `gateway.rs` implements it over HTTP, and `script.rs`
//! for unit tests.

use crate::store::etcd::messages::{Answer, KeyValue, Txn, TxnOutcome};
use crate::store::etcd::refusal::EtcdError;

/// etcd, as the store sees it.
pub(crate) trait EtcdApi {
    /// The lines of a watch.
    type Lines: WatchLines;

    /// Reads `key`, linearizably: a serializable read may be older than a read before it.
    fn range(
        &self,
        key: &str,
        purpose: Purpose,
    ) -> impl Future<Output = Result<Answer<Option<KeyValue>>, EtcdError>>;

    /// Puts keys if the comparison of another key succeeds.
    fn txn(&self, txn: &Txn<'_>) -> impl Future<Output = Result<Answer<TxnOutcome>, EtcdError>>;

    /// Watches `key` from the first revision after `after`, over a connection of its own.
    /// `attempt` selects the member, and grows by one after each failure.
    fn watch(
        &self,
        key: &str,
        after: u64,
        attempt: usize,
    ) -> impl Future<Output = Result<Self::Lines, EtcdError>>;

    /// Whether this is the cluster of the election, so that its watch messages count.
    fn hears(&self, cluster_id: u64) -> bool;

    /// Discards the token, because a watch was refused with it.
    fn forget_token(&self);

    /// The members, for logs and errors.
    fn location(&self) -> String;
}

/// The lines of a watch, as they arrive.
pub(crate) trait WatchLines {
    /// The next line; `None` once the watch has ended. Cancel-safe.
    fn next_line(&mut self) -> impl Future<Output = Option<Vec<u8>>>;
}

/// The purpose of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The machine learns the record. Only such a read may follow the endpoints to another cluster.
    Machine,
    /// A write needs the key's present content for its comparison.
    Write,
    /// The check of the history reads the key's content at this revision.
    History(u64),
}
