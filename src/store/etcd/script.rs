//! A scripted etcd for unit tests of the store and its watch.
//!
//! Pure. Start with [`Script`]. Tests of whole candidates meet a real etcd: `tests/it/etcd`.

use crate::store::etcd::api::{EtcdApi, Purpose, WatchLines};
use crate::store::etcd::messages::{Answer, KeyValue, Txn, TxnOutcome};
use crate::store::etcd::refusal::EtcdError;
use baton_election::timing::{Drift, Timing};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::pending;
use std::time::Duration;

/// The cluster that answers, and the only one whose watches count.
pub(super) const CLUSTER: u64 = 1;

/// The answers of etcd, and the requests that it got.
#[derive(Default)]
pub(super) struct Script {
    reads: RefCell<VecDeque<Answer<Option<KeyValue>>>>,
    /// The purpose of each read.
    pub(super) purposes: RefCell<Vec<Purpose>>,
    watches: RefCell<VecDeque<ScriptedLines>>,
    opened: RefCell<Vec<(u64, usize)>>,
}

/// The lines of one watch, which then stays open.
pub(super) struct ScriptedLines(VecDeque<String>);

impl Script {
    /// Answers one read with `content`, and no other.
    pub(super) fn with_read(content: Option<KeyValue>) -> Self {
        let answer = Answer { cluster_id: CLUSTER, revision: 5, content };
        Self { reads: RefCell::new([answer].into()), ..Self::default() }
    }

    /// Opens these watches in order, each with its lines, and no other.
    pub(super) fn with_watches<const N: usize>(watches: [Vec<String>; N]) -> Self {
        let watches = watches.map(|lines| ScriptedLines(lines.into()));
        Self { watches: RefCell::new(watches.into()), ..Self::default() }
    }

    /// For each opened watch, the revision after which it starts, and the attempt.
    pub(super) fn opened(&self) -> Vec<(u64, usize)> {
        self.opened.borrow().clone()
    }
}

impl EtcdApi for Script {
    type Lines = ScriptedLines;

    async fn range(
        &self,
        _key: &str,
        purpose: Purpose,
    ) -> Result<Answer<Option<KeyValue>>, EtcdError> {
        self.purposes.borrow_mut().push(purpose);
        let answer = self.reads.borrow_mut().pop_front();
        match answer {
            Some(answer) => Ok(answer),
            None => pending().await,
        }
    }

    async fn txn(&self, _txn: &Txn<'_>) -> Result<Answer<TxnOutcome>, EtcdError> {
        pending().await
    }

    async fn watch(
        &self,
        _key: &str,
        after: u64,
        attempt: usize,
    ) -> Result<ScriptedLines, EtcdError> {
        let lines = self.watches.borrow_mut().pop_front().expect("the script has another watch");
        self.opened.borrow_mut().push((after, attempt));
        Ok(lines)
    }

    fn hears(&self, cluster_id: u64) -> bool {
        cluster_id == CLUSTER
    }

    fn forget_token(&self) {}

    fn location(&self) -> String {
        "a script".to_owned()
    }
}

impl WatchLines for ScriptedLines {
    async fn next_line(&mut self) -> Option<Vec<u8>> {
        match self.0.pop_front() {
            Some(line) => Some(line.into_bytes()),
            None => pending().await,
        }
    }
}

/// Short durations: a pause takes as long as a retry period.
pub(super) fn timing() -> Timing {
    let durations = Timing::suggestion(Duration::from_millis(600), Drift::default());
    Timing::new(durations, Drift::default()).expect("a suggestion is valid")
}

/// A watch message without events, at this revision.
pub(super) fn idle(revision: u64) -> String {
    message(CLUSTER, revision, "")
}

/// The end of a watch whose start is compacted up to this revision.
pub(super) fn compacted(revision: u64) -> String {
    let rest = format!(r#","canceled":true,"compact_revision":"{revision}""#);
    message(CLUSTER, revision, &rest)
}

/// A put of the key at this revision of a cluster.
pub(super) fn put(cluster: u64, revision: u64) -> String {
    let event = format!(r#"{{"kv":{{"create_revision":"2","mod_revision":"{revision}"}}}}"#);
    message(cluster, revision, &format!(r#","events":[{event}]"#))
}

fn message(cluster: u64, revision: u64, rest: &str) -> String {
    let header = format!(r#""header":{{"cluster_id":"{cluster}","revision":"{revision}"}}"#);
    format!(r#"{{"result":{{{header}{rest}}}}}"#)
}
