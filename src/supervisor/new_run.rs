//! Opens the configured store, and chooses the state machine that runs over it.
//!
//! Touches the stores. Start with [`NewRun::run`].

use super::history::OpenHistory;
use super::{Candidate, Prepared, refuse};
use crate::config::{Config, StoreConfig};
use crate::driver::leadership::{Publisher, Reader};
use crate::lease_events::LeaseEvents;
use crate::process::ended_run::SavedSession;
use crate::process::exit::Exit;
use crate::process::signals::{Signals, StopOutcome};
use crate::routing::Routing;
use crate::store::Store;
use crate::store::etcd::EtcdStore;
use crate::store::file::FileStore;
use crate::store::kubernetes::{ApiServerError, LeaseStore};
use crate::store::zookeeper::{CredentialFilesError, ZooKeeperStore};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::Election;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::SessionId;
use baton_election::record::RecordElection;
use baton_election::timing::Jitter;
use std::error::Error;

/// A run that has not opened its store yet.
pub(super) struct NewRun<'a> {
    pub(super) config: &'a Config,
    pub(super) identity: Identity,
    pub(super) signals: Signals,
    pub(super) opened: OpenHistory,
    pub(super) publisher: Publisher,
    pub(super) reader: Reader,
}

impl NewRun<'_> {
    /// Opens the configured store and takes part.
    pub(super) async fn run(self) -> Exit {
        let Self { config, .. } = self;
        let timing = &config.timing;
        let (call, retry) = (timing.call_timeout(), timing.retry_period());
        let ended_run = self.opened.history.ended_run();
        let record_election = {
            let ended_run = ended_run.clone();
            |identity, jitter, from| {
                let election = RecordElection::new(identity, *timing, jitter, from)
                    .with_preference(config.preference);
                match ended_run {
                    Some(ended_run) => election.with_ended_run(ended_run),
                    None => election,
                }
            }
        };
        match &config.store {
            StoreConfig::File { directory } => {
                let opening = async { FileStore::open(directory, &config.election, call, retry) };
                Box::pin(self.take_part(opening, record_election)).await
            }
            StoreConfig::ZooKeeper(zookeeper) => {
                let session = self.opened.history.ended_session();
                // The next run releases nothing for an application that may act without asking.
                let asks = config.asks_by_declaration();
                let file = self.opened.history.session_file(&self.identity).filter(|_| asks);
                let ended = session.clone();
                let opening = async {
                    let store = ZooKeeperStore::open(zookeeper, call).await?;
                    Ok::<_, CredentialFilesError>(store.with_sessions(ended, file))
                };
                let queue_election = |identity, jitter, from| {
                    let election = QueueElection::new(identity, zookeeper.timing, jitter, from);
                    match (ended_run, session) {
                        (Some(ended_run), Some(SavedSession { id, timeout, .. })) => {
                            election.with_ended_run(ended_run, SessionId(id), timeout)
                        }
                        (_, None) | (None, _) => election,
                    }
                };
                Box::pin(self.take_part(opening, queue_election)).await
            }
            StoreConfig::Etcd(etcd) => {
                let opening = EtcdStore::open(etcd, &config.election, timing);
                Box::pin(self.take_part(opening, record_election)).await
            }
            StoreConfig::Lease { cluster, namespace } => {
                let (namespace, election) = (namespace.as_deref(), &config.election);
                let opening = async {
                    let store =
                        LeaseStore::connect(cluster, namespace, election, call, retry).await?;
                    Ok::<_, ApiServerError>(store.with_rights(config.rights()))
                };
                Box::pin(self.take_part(opening, record_election)).await
            }
        }
    }

    /// Opens the store with `opening`, and takes part with the state machine that `new_election`
    /// creates from an identity, a jitter, and the start of the campaign. A signal while the store
    /// opens ends the process at once.
    async fn take_part<M: Election, S: Store<M>, E: Error + 'static>(
        mut self,
        opening: impl Future<Output = Result<S, E>>,
        new_election: impl FnOnce(Identity, Jitter, Instant) -> M,
    ) -> Exit {
        let config = self.config;
        let opening = async {
            let store = opening.await?;
            let routing = match &config.routing {
                Some(routing) => {
                    Some(Routing::open(routing, config.rights(), &config.timing).await?)
                }
                None => None,
            };
            Ok((store, routing, LeaseEvents::open(config).await?))
        };
        let opened: Result<_, Box<dyn Error>> = tokio::select! {
            opened = opening => opened,
            () = self.signals.next() => {
                StopOutcome::NothingToRelease.log(Exit::Clean);
                return Exit::Clean;
            }
        };
        let (store, routing, events) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // `refuse` opens the history again, so the lock must be released first.
                drop(self);
                return refuse(config, &*error);
            }
        };
        match Candidate::prepare(self, &store.location(), routing, events, new_election) {
            Ok(Prepared::Candidate(candidate)) => candidate.take_part(&store).await,
            Ok(Prepared::Exit(exit)) => exit,
            Err(error) => {
                // It may hold the state directory, which `refuse` opens again.
                drop(store);
                refuse(config, &*error)
            }
        }
    }
}
