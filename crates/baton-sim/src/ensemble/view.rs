//! The visible state of an ensemble: the committed queue, the watches, and the serving servers.
//!
//! Pure. Start with [`Ensemble::store_view`].

use crate::ensemble::server::Server;
use crate::ensemble::{Client, Ensemble};
use crate::world::{StoreView, ZnodeView};

impl Ensemble {
    /// The queue as committed.
    pub(super) fn store_view(&self) -> StoreView {
        let znodes = self.committed.znodes().map(|(sequence, znode)| {
            let is_owner = |client: &Client| client.session == Some(znode.owner);
            let owner = self.clients.iter().position(is_owner);
            ZnodeView {
                sequence,
                name: znode.name.clone(),
                identity: znode.identity.clone(),
                owner,
            }
        });
        let watches = self.servers.iter().flat_map(|server| &server.watches);
        let is_current = |from: usize, connection| self.clients[from].connection == connection;
        StoreView::Queue {
            znodes: znodes.collect(),
            watches: watches
                .filter(|(_, from, connection)| is_current(*from, *connection))
                .map(|(name, from, _)| (*from, name.clone()))
                .collect(),
            serving: self.servers.iter().map(Server::serves).collect(),
        }
    }
}
