//! Keeps strangers out of an election that is held with credentials.
//!
//! Touches `zookeeper::client`, through the store. Start with
//! [`ZooKeeperStore::keep_strangers_out`]. The right to delete a znode is one on its parent. So two
//! lists protect a leader: that of the election's path, below which candidates stand, and that of
//! the path's parent, below which the leader is acknowledged.
//!
//! * An open path is closed: candidates without credentials that are already in the queue lead and
//!   release as before, but cannot join again.
//! * An open parent is refused. Other elections may stand below it, and a candidate without
//!   credentials at the head of a queue could no longer acknowledge itself, so the
//!   election would have no leader.
//! * The root and `/baton` belong to all teams, so they may be open.

use super::{Failed, StoreError, ZooKeeperStore};
use crate::election::zookeeper::words::ZooKeeperEvent;
use crate::zookeeper::access::{AccessList, ReadAccess, SetAccess};
use crate::zookeeper::client::CallError;
use crate::zookeeper::requests::Access;
use crate::zookeeper::wire::Code;

/// The znode that default paths share, below the chroot.
const SHARED: &str = "/baton";

/// How often a list is read again because another client has just set it.
const TRIES: usize = 3;

/// A znode where strangers could take leadership away from us.
#[derive(Debug, thiserror::Error)]
#[error(
    "everybody who reaches the servers may create or delete below {path}, and so remove a leader: in zkCli, after \
     addauth with the credentials of --zookeeper-auth-file, run `setAcl {path} {list}`{advice}"
)]
struct OpenToStrangers {
    path: String,
    list: AccessList,
    advice: &'static str,
}

/// Why the check did not finish.
enum Unchecked {
    Call(Failed),
    Open(OpenToStrangers),
}

impl ZooKeeperStore {
    /// Closes the election's path to strangers, or refuses to join. Without credentials it does
    /// nothing. Returns the event that ended the check early, if one did.
    pub(super) async fn keep_strangers_out(&self) -> Result<Option<ZooKeeperEvent>, StoreError> {
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
        let parent = self.path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty());
        let parent = parent.unwrap_or("/");
        let is_shared = self.is_shared(parent);
        let list = match self.read_access(parent).await {
            // A list that we may not even read keeps strangers out too.
            Err(Failed { error: CallError::Refused(Code::NoAuth), .. }) if is_shared => return Ok(()),
            list => list.map_err(Unchecked::Call)?,
        };
        match list.filter(AccessList::is_open) {
            None => Ok(()),
            Some(_) if is_shared => {
                self.warn_shared(parent);
                Ok(())
            }
            Some(list) => Err(Unchecked::Open(OpenToStrangers {
                path: parent.to_owned(),
                list: list.closed(),
                advice: " once every candidate below it has credentials, or choose another --zookeeper-path",
            })),
        }
    }

    async fn close_path(&self) -> Result<(), Unchecked> {
        for _ in 0..TRIES {
            let list = self.read_access(&self.path).await.map_err(Unchecked::Call)?;
            let Some(list) = list.filter(AccessList::is_open) else { return Ok(()) };
            let list = list.closed();
            let set = SetAccess { path: self.path.clone(), list };
            match self.call("set the access list of", &self.path, &set).await {
                Ok(()) => {
                    tracing::warn!(
                        event = "access_list_closed",
                        "everybody who reaches the servers could delete the leader's znode below {}: from now on only \
                         our credentials can, and candidates without them can no longer join",
                        self.path
                    );
                    return Ok(());
                }
                // Another candidate was faster, or an operator.
                Err(Failed { error: CallError::Refused(Code::BadVersion), .. }) => {}
                Err(Failed { error: CallError::Refused(Code::NoNode), .. }) => return Ok(()),
                Err(Failed { error: CallError::Refused(Code::NoAuth), .. }) => {
                    let advice = " as an identity with the right a (ADMIN) on it, which we lack";
                    let open = OpenToStrangers { path: self.path.clone(), list: set.list, advice };
                    return Err(Unchecked::Open(open));
                }
                Err(failed) => return Err(Unchecked::Call(failed)),
            }
        }
        let error = CallError::Refused(Code::BadVersion);
        Err(Unchecked::Call(Failed { doing: "set the access list of", path: self.path.clone(), error }))
    }

    /// The access list of a znode, if it is there.
    async fn read_access(&self, path: &str) -> Result<Option<AccessList>, Failed> {
        match self.call("read the access list of", path, &ReadAccess { path: path.to_owned() }).await {
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
