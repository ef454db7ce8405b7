//! Keeps strangers out of an election whose candidates have credentials.
//!
//! Touches ZooKeeper, through the store. Start with [`ZooKeeperStore::keep_strangers_out`].
//! Strangers are clients without these credentials. Deleting a znode takes a right on its parent,
//! so two access lists protect a leader. The children of the election's path are the candidates,
//! and a child of the path's parent names the leader.
//!
//! * An open path is closed if all its candidates are ours. Other candidates could not join again,
//!   so if there are any, the path is refused and an operator decides.
//! * An open parent is refused. Closing it could leave another election below it without a leader:
//!   a candidate without credentials, first in its queue, could no longer create the leader's
//!   znode.
//! * The root and `/baton` are shared by all teams, so they may be open.

use crate::store::zookeeper::errors::FailedCall;
use crate::store::zookeeper::{StoreError, ZooKeeperStore};
use baton_election::queue::messages::QueueEvent;
use zookeeper_client::access::{AccessList, GetAcl, SetAcl};
use zookeeper_client::client::CallError;
use zookeeper_client::operations::{Access, GetChildren};
use zookeeper_client::wire::Code;

/// The shared parent of default paths, below the chroot.
const SHARED: &str = "/baton";

/// How often to try to close a list that other clients change.
const MAX_ATTEMPTS: usize = 3;

/// A version that no list has.
const NO_VERSION: i32 = i32::MAX;

/// An access list that lets strangers remove a leader.
#[derive(Debug, thiserror::Error)]
#[error(
    "strangers can create or delete znodes below {path}, and so remove a leader: in zkCli, after \
     addauth with {login}, run `setAcl {path} {closed}`{condition}{deprived}{masked}"
)]
struct OpenAccessList {
    path: String,
    closed: AccessList,
    login: &'static str,
    condition: &'static str,
    deprived: String,
    masked: String,
}

impl OpenAccessList {
    /// `may_close` says whether our credentials suffice for the command that closes `list`, and
    /// `condition` when to run it.
    fn new(path: &str, list: &AccessList, may_close: bool, condition: &'static str) -> Self {
        let closed = list.closed();
        let login = if may_close && list.masked().is_empty() {
            "the credentials of --zookeeper-auth-file"
        } else {
            "an administrator's credentials (ours lack the right a) and those of \
             --zookeeper-auth-file"
        };
        let deprived = phrase("; unless they are ours, it takes rights from", &list.deprived(&[]));
        let masked = phrase(
            "; the command lacks these entries, which the servers hide from us:",
            &closed.masked(),
        );
        Self { path: path.to_owned(), closed, login, condition, deprived, masked }
    }
}

/// `before` and the names, or nothing without names.
fn phrase(before: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("{before} {}", names.join(", ")) }
}

/// Why the election is not known to be closed to strangers.
enum CheckError {
    Call(FailedCall),
    Open(OpenAccessList),
}

impl ZooKeeperStore {
    /// Closes the election's path to strangers, or refuses to join. Does nothing without
    /// credentials. Returns the event that ended the check early, if any.
    pub(super) async fn keep_strangers_out(&self) -> Result<Option<QueueEvent>, StoreError> {
        match self.access.get() {
            Access::Open => return Ok(None),
            Access::Creator => {}
        }
        let result = match self.check_parent().await {
            Ok(()) => self.close_path().await,
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => Ok(None),
            Err(CheckError::Call(failed)) => self.explain(failed).map(Some),
            Err(CheckError::Open(error)) => Err(StoreError::Refused(Box::new(error))),
        }
    }

    /// The access list for a new ancestor of the election's path.
    pub(super) fn access_of(&self, path: &str) -> Access {
        if self.is_shared(path) && path != self.path { Access::Open } else { self.access.get() }
    }

    async fn check_parent(&self) -> Result<(), CheckError> {
        let parent = self
            .path
            .rsplit_once('/')
            .map(|(parent, _)| parent)
            .filter(|parent| !parent.is_empty());
        let parent = parent.unwrap_or("/");
        let is_shared = self.is_shared(parent);
        let list = match self.read_access(parent).await {
            // A list that we may not read is closed to strangers too.
            Err(FailedCall { error: CallError::Refused(Code::NoAuth), .. }) if is_shared => {
                return Ok(());
            }
            list => list.map_err(CheckError::Call)?,
        };
        match list.filter(AccessList::is_open) {
            None => Ok(()),
            Some(_) if is_shared => {
                self.warn_shared(parent);
                Ok(())
            }
            Some(list) => {
                let condition = " once every candidate below it has credentials, or choose another \
                                 --zookeeper-path";
                Err(CheckError::Open(OpenAccessList::new(parent, &list, true, condition)))
            }
        }
    }

    async fn close_path(&self) -> Result<(), CheckError> {
        for _ in 0..MAX_ATTEMPTS {
            let list = self.read_access(&self.path).await.map_err(CheckError::Call)?;
            let Some(list) = list.filter(AccessList::is_open) else { return Ok(()) };
            if !self.has_only_our_candidates().await.map_err(CheckError::Call)? {
                let condition = " (there are candidates without these credentials: they keep their \
                                 place in the queue and can lead, but cannot join again)";
                return Err(CheckError::Open(OpenAccessList::new(
                    &self.path, &list, true, condition,
                )));
            }
            let set = SetAcl { path: self.path.clone(), list: list.closed() };
            match self.call("set the access list of", &self.path, &set).await {
                Ok(()) => {
                    self.report_closed(&list).await;
                    return Ok(());
                }
                // Another candidate, or an operator, set it first.
                Err(FailedCall { error: CallError::Refused(Code::BadVersion), .. }) => {}
                Err(FailedCall { error: CallError::Refused(Code::NoNode), .. }) => return Ok(()),
                Err(FailedCall { error: CallError::Refused(Code::NoAuth), .. }) => {
                    return Err(CheckError::Open(OpenAccessList::new(
                        &self.path, &list, false, "",
                    )));
                }
                Err(failed) => return Err(CheckError::Call(failed)),
            }
        }
        let error = CallError::Refused(Code::BadVersion);
        Err(CheckError::Call(FailedCall {
            action: "set the access list of",
            path: self.path.clone(),
            error,
        }))
    }

    /// Logs which identities lost rights when `before` was replaced.
    async fn report_closed(&self, before: &AccessList) {
        // The servers replaced `auth` with our identities, which alone have these rights now.
        let now = self.read_access(&self.path).await.ok().flatten();
        let deprived = before.deprived(now.as_ref().map_or(&[], |now| &now.entries));
        tracing::warn!(
            event = "access_list_closed",
            "strangers could delete the leader's znode below {}: access is now limited to our \
             credentials, and candidates without them can no longer join{}",
            self.path,
            phrase("; these lost rights:", &deprived)
        );
    }

    /// Whether every child of the path [is ours](Self::is_ours).
    async fn has_only_our_candidates(&self) -> Result<bool, FailedCall> {
        let names = match self
            .call("list the candidates of", &self.path, &GetChildren { path: self.path.clone() })
            .await
        {
            Err(FailedCall { error: CallError::Refused(Code::NoNode), .. }) => Vec::new(),
            names => names?,
        };
        for name in names {
            match self.is_ours(&self.child(&name)).await {
                Ok(true) | Err(FailedCall { error: CallError::Refused(Code::NoNode), .. }) => {}
                Ok(false) | Err(FailedCall { error: CallError::Refused(Code::NoAuth), .. }) => {
                    return Ok(false);
                }
                Err(failed) => return Err(failed),
            }
        }
        Ok(true)
    }

    /// Whether our credentials administer a znode and strangers do not.
    ///
    /// Only the servers know which identities are ours, so this tries to set the list with a
    /// version that never matches. The servers check the right before they compare versions.
    async fn is_ours(&self, path: &str) -> Result<bool, FailedCall> {
        let list =
            self.call("read the access list of", path, &GetAcl { path: path.to_owned() }).await?;
        if list.is_open() {
            return Ok(false);
        }
        let set =
            SetAcl { path: path.to_owned(), list: AccessList { version: NO_VERSION, ..list } };
        match self.call("try to set the access list of", path, &set).await {
            Ok(()) | Err(FailedCall { error: CallError::Refused(Code::BadVersion), .. }) => {
                Ok(true)
            }
            Err(failed) => Err(failed),
        }
    }

    /// Warns once about other identities that can control the election. The list of our own znode,
    /// `own`, shows the names that the servers have for ours.
    pub(super) async fn warn_other_administrators(&self, own: &str) -> Result<(), FailedCall> {
        if self.has_searched_list.get() || matches!(self.access.get(), Access::Open) {
            return Ok(());
        }
        let (Some(own), Some(list)) =
            (self.read_access(own).await?, self.read_access(&self.path).await?)
        else {
            return Ok(());
        };
        self.has_searched_list.set(true);
        let others = list.controllers(&own.entries);
        if !others.is_empty() {
            tracing::warn!(
                event = "other_administrators",
                "besides our credentials, these can create or delete below {}, or grant themselves \
                 the right, and so remove a leader: {}",
                self.path,
                others.join(", ")
            );
        }
        Ok(())
    }

    /// Reads the access list of a znode; `None` if the znode does not exist.
    async fn read_access(&self, path: &str) -> Result<Option<AccessList>, FailedCall> {
        match self.call("read the access list of", path, &GetAcl { path: path.to_owned() }).await {
            Ok(list) => Ok(Some(list)),
            Err(FailedCall { error: CallError::Refused(Code::NoNode), .. }) => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// Warns once that the shared parent of the path is open to strangers.
    fn warn_shared(&self, parent: &str) {
        if !self.has_warned_shared.replace(true) {
            tracing::warn!(
                event = "shared_parent",
                "{parent} is open to anyone who reaches the servers, so strangers can delete or \
                 forge {}_leader, where followers read the leader's name: choose a \
                 --zookeeper-path whose parent is yours",
                self.path
            );
        }
    }

    /// Whether a znode is shared by all teams.
    fn is_shared(&self, path: &str) -> bool {
        path == "/" || path.strip_prefix(&self.chroot) == Some(SHARED)
    }
}
