//! The answers that a rig has observed so far, for a test that judges it before the end.

use super::{Answer, Moment, Rig, Store, lock};

/// An answer "leading".
pub(crate) struct Promise {
    pub(crate) identity: String,
    pub(crate) token: String,
    pub(crate) until: Moment,
}

impl<S: Store> Rig<S> {
    /// Every answer so far.
    pub(crate) fn answers(&self) -> Vec<Answer> {
        lock(&self.journal.answers).clone()
    }

    /// The latest promise of an election.
    pub(crate) fn latest_promise(&self, election: &str) -> Option<Promise> {
        let answers = lock(&self.journal.answers);
        let latest = answers.iter().rev().find(|answer| answer.leads_in(election))?;
        Some(Promise {
            identity: latest.identity()?.clone(),
            token: latest.token()?.to_owned(),
            until: latest.promised_until()?,
        })
    }

    /// Records an action of the test.
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.journal.note("test", what);
    }
}
