//! Keeps strangers out of an election that is held with credentials.
//!
//! Touches `zookeeper::client`, through the store. Start with
//! [`ZooKeeperStore::keep_strangers_out`]. The right to delete a znode is one on its parent. So two
//! lists protect a leader: that of the election's path, below which candidates stand, and that of
//! the path's parent, below which the leader is acknowledged.
//!
//! * An open path is closed if it holds only our candidates. Others could never join again, so where
//!   they are, the path is refused and an operator decides.
//! * An open parent is refused. Other elections may stand below it, and a candidate without
//!   credentials at the head of a queue could no longer acknowledge itself, so the
//!   election would have no leader.
//! * The root and `/baton` belong to all teams, so they may be open.

use crate::store::zookeeper::{Failed, StoreError, ZooKeeperStore};
use baton_election::queue::messages::QueueEvent;
use zookeeper_client::access::{AccessList, ReadAccess, SetAccess};
use zookeeper_client::client::CallError;
use zookeeper_client::requests::{Access, Children};
use zookeeper_client::wire::Code;

/// The znode that default paths share, below the chroot.
const SHARED: &str = "/baton";

/// How often a list is read again because another client has just set it.
const TRIES: usize = 3;

/// A version that no list has.
const NO_VERSION: i32 = i32::MAX;

/// A znode where strangers could take leadership away from us.
#[derive(Debug, thiserror::Error)]
#[error(
    "strangers may create or delete below {path}, and so remove a leader: in zkCli, after addauth with {login}, run \
     `setAcl {path} {closed}`{when}{losers}{hidden}"
)]
struct OpenToStrangers {
    path: String,
    closed: AccessList,
    login: &'static str,
    when: &'static str,
    losers: String,
    hidden: String,
}

impl OpenToStrangers {
    /// The command that closes `list`, to be run by somebody who may, and `when` that is right.
    fn new(path: &str, list: &AccessList, may_close: bool, when: &'static str) -> Self {
        let closed = list.closed();
        let login = if may_close && list.hidden().is_empty() {
            "the credentials of --zookeeper-auth-file"
        } else {
            "an administrator's credentials (ours lack the right a) and those of --zookeeper-auth-file"
        };
        let losers = phrase("; unless they are our own, it takes rights from", &list.deprived(&[]));
        let hidden = phrase(
            "; it lacks them because the servers hide these entries from us:",
            &closed.hidden(),
        );
        Self { path: path.to_owned(), closed, login, when, losers, hidden }
    }
}

/// A phrase before names, or nothing where there are none.
fn phrase(before: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("{before} {}", names.join(", ")) }
}

/// Why the check did not finish.
enum Unchecked {
    Call(Failed),
    Open(OpenToStrangers),
}

impl ZooKeeperStore {
    /// Closes the election's path to strangers, or refuses to join. Without credentials it does
    /// nothing. Returns the event that ended the check early, if one did.
    pub(super) async fn keep_strangers_out(&self) -> Result<Option<QueueEvent>, StoreError> {
        match self.access.get() {
            Access::Open => return Ok(None),
            Access::Creator => {}
        }
        let checked = match self.check_parent().await {
            Ok(()) => self.close_path().await,
            Err(unchecked) => Err(unchecked),
        };
        match checked {
            Ok(()) => Ok(None),
            Err(Unchecked::Call(failed)) => self.judge(failed).map(Some),
            Err(Unchecked::Open(error)) => Err(StoreError::Refused(Box::new(error))),
        }
    }

    /// The rights on an ancestor of the election's path that is made now.
    pub(super) fn access_of(&self, path: &str) -> Access {
        if self.is_shared(path) && path != self.path { Access::Open } else { self.access.get() }
    }

    async fn check_parent(&self) -> Result<(), Unchecked> {
        let parent = self
            .path
            .rsplit_once('/')
            .map(|(parent, _)| parent)
            .filter(|parent| !parent.is_empty());
        let parent = parent.unwrap_or("/");
        let is_shared = self.is_shared(parent);
        let list = match self.read_access(parent).await {
            // A list that we may not even read keeps strangers out too.
            Err(Failed { error: CallError::Refused(Code::NoAuth), .. }) if is_shared => {
                return Ok(());
            }
            list => list.map_err(Unchecked::Call)?,
        };
        match list.filter(AccessList::is_open) {
            None => Ok(()),
            Some(_) if is_shared => {
                self.warn_shared(parent);
                Ok(())
            }
            Some(list) => {
                let when = " once every candidate below it has credentials, or choose another --zookeeper-path";
                Err(Unchecked::Open(OpenToStrangers::new(parent, &list, true, when)))
            }
        }
    }

    async fn close_path(&self) -> Result<(), Unchecked> {
        for _ in 0..TRIES {
            let list = self.read_access(&self.path).await.map_err(Unchecked::Call)?;
            let Some(list) = list.filter(AccessList::is_open) else { return Ok(()) };
            if !self.is_ours_alone().await.map_err(Unchecked::Call)? {
                let when = " (candidates without these credentials are there: they stay in line and can lead, but \
                            cannot join again)";
                return Err(Unchecked::Open(OpenToStrangers::new(&self.path, &list, true, when)));
            }
            let set = SetAccess { path: self.path.clone(), list: list.closed() };
            match self.call("set the access list of", &self.path, &set).await {
                Ok(()) => {
                    self.report_closed(&list).await;
                    return Ok(());
                }
                // Another candidate was faster, or an operator.
                Err(Failed { error: CallError::Refused(Code::BadVersion), .. }) => {}
                Err(Failed { error: CallError::Refused(Code::NoNode), .. }) => return Ok(()),
                Err(Failed { error: CallError::Refused(Code::NoAuth), .. }) => {
                    return Err(Unchecked::Open(OpenToStrangers::new(
                        &self.path, &list, false, "",
                    )));
                }
                Err(failed) => return Err(Unchecked::Call(failed)),
            }
        }
        let error = CallError::Refused(Code::BadVersion);
        Err(Unchecked::Call(Failed {
            doing: "set the access list of",
            path: self.path.clone(),
            error,
        }))
    }

    /// Says who loses rights with the list that was just replaced.
    async fn report_closed(&self, before: &AccessList) {
        // The servers replaced `auth` by our identities, which alone have these rights now.
        let now = self.read_access(&self.path).await.ok().flatten();
        let losers = before.deprived(now.as_ref().map_or(&[], |now| &now.entries));
        tracing::warn!(
            event = "access_list_closed",
            "strangers could delete the leader's znode below {}: from now on only our credentials can, and candidates \
             without them can no longer join{}",
            self.path,
            phrase("; these lost their rights:", &losers)
        );
    }

    /// Whether every child of the path is ours: we may administer it, and strangers may not.
    async fn is_ours_alone(&self) -> Result<bool, Failed> {
        let names = match self
            .call("list the candidates of", &self.path, &Children { path: self.path.clone() })
            .await
        {
            Err(Failed { error: CallError::Refused(Code::NoNode), .. }) => Vec::new(),
            names => names?,
        };
        for name in names {
            match self.is_ours(&self.child(&name)).await {
                Ok(true) | Err(Failed { error: CallError::Refused(Code::NoNode), .. }) => {}
                Ok(false) | Err(Failed { error: CallError::Refused(Code::NoAuth), .. }) => {
                    return Ok(false);
                }
                Err(failed) => return Err(failed),
            }
        }
        Ok(true)
    }

    /// Asks the servers, which know by what names access lists call us. They compare a version only
    /// after they have found the right to set the list.
    async fn is_ours(&self, path: &str) -> Result<bool, Failed> {
        let list = self
            .call("read the access list of", path, &ReadAccess { path: path.to_owned() })
            .await?;
        if list.is_open() {
            return Ok(false);
        }
        let set =
            SetAccess { path: path.to_owned(), list: AccessList { version: NO_VERSION, ..list } };
        match self.call("try to set the access list of", path, &set).await {
            Ok(()) | Err(Failed { error: CallError::Refused(Code::BadVersion), .. }) => Ok(true),
            Err(failed) => Err(failed),
        }
    }

    /// Names, once, the identities beside ours that can decide the election. The list of our own
    /// znode shows by what names the servers know us.
    pub(super) async fn warn_other_administrators(&self, own: &str) -> Result<(), Failed> {
        if self.searched_list.get() || matches!(self.access.get(), Access::Open) {
            return Ok(());
        }
        let (Some(own), Some(list)) =
            (self.read_access(own).await?, self.read_access(&self.path).await?)
        else {
            return Ok(());
        };
        self.searched_list.set(true);
        let others = list.deciders(&own.entries);
        if !others.is_empty() {
            tracing::warn!(
                event = "other_administrators",
                "beside our credentials, these can create or delete below {}, or grant themselves the right, and so \
                 remove a leader: {}",
                self.path,
                others.join(", ")
            );
        }
        Ok(())
    }

    /// The access list of a znode, if it is there.
    async fn read_access(&self, path: &str) -> Result<Option<AccessList>, Failed> {
        match self
            .call("read the access list of", path, &ReadAccess { path: path.to_owned() })
            .await
        {
            Ok(list) => Ok(Some(list)),
            Err(Failed { error: CallError::Refused(Code::NoNode), .. }) => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// Warns once about what strangers can do beside a path whose parent all teams share.
    fn warn_shared(&self, parent: &str) {
        if !self.warned_shared.replace(true) {
            tracing::warn!(
                event = "shared_parent",
                "{parent} is open to everybody who reaches the servers, so strangers can delete or forge {}_leader, \
                 where followers read who leads: choose a --zookeeper-path whose parent is your own",
                self.path
            );
        }
    }

    /// Whether a znode belongs to all teams.
    fn is_shared(&self, path: &str) -> bool {
        path == "/" || path.strip_prefix(&self.chroot) == Some(SHARED)
    }
}
