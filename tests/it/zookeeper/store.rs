//! The store over real servers, asked as the machine asks it, where a process would be too much.

use super::at_last;
use crate::rig::{Authority, Ensemble, Proxy, SECURE_PORT, Settings};
use baton::config::ZooKeeperPlace;
use baton::store::zookeeper::ZooKeeperStore;
use baton::store::{Store as _, StoreError};
use baton_election::identity::Identity;
use baton_election::queue::messages::{QueueEvent, QueueRequest};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Timing};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;
use zookeeper_client::tls::{ClientCertificate, TlsFiles};

const CALL: Duration = Duration::from_secs(20);
const T: Duration = Duration::from_secs(8);

fn place(servers: &str, path: &str, auth_file: Option<PathBuf>) -> ZooKeeperPlace {
    let [renew_deadline, retry_period] = [5, 1].map(Duration::from_secs);
    let durations = Durations {
        lease_duration: T,
        renew_deadline,
        retry_period,
        answer_validity: retry_period,
    };
    let timing = Timing::new(durations, Drift::default()).unwrap();
    let timing = SessionTiming::new(timing, Duration::from_millis(500)).unwrap();
    ZooKeeperPlace {
        servers: servers.parse().unwrap(),
        path: path.to_owned(),
        timing,
        auth_file,
        tls: None,
    }
}

fn join() -> QueueRequest {
    QueueRequest::Join { prefix: "_c_x-latch-".to_owned(), identity: Identity::parse("a").unwrap() }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn credentials_that_are_replaced_are_shown_from_the_next_connection_on() {
    run(async {
        let servers = Ensemble::shared().connect_string();
        let (folder, path) = (TempDir::new().unwrap(), format!("/{}", Uuid::new_v4()));
        let file = folder.path().join("credentials");
        fs::write(&file, "digest:old:secret\n").unwrap();
        let store =
            ZooKeeperStore::open(&place(&servers, &path, Some(file.clone())), CALL).await.unwrap();
        store.perform(QueueRequest::Begin { timeout: T }).await.unwrap();
        assert_eq!(store.perform(QueueRequest::MakePath).await.unwrap(), QueueEvent::Made);

        fs::write(&file, "digest:new:secret\n").unwrap();
        store.perform(QueueRequest::Resume { timeout: T }).await.unwrap();
        let joined = store.perform(join()).await;
        assert!(
            matches!(joined, Err(StoreError::Refused(_))),
            "the path is another's now: {joined:?}"
        );

        fs::write(&file, "what is half written\n").unwrap();
        store.perform(QueueRequest::Resume { timeout: T }).await.unwrap();
        fs::write(&file, "digest:old:secret\n").unwrap();
        store.perform(QueueRequest::Resume { timeout: T }).await.unwrap();
        let joined = store.perform(join()).await.unwrap();
        assert!(matches!(joined, QueueEvent::Joined { .. }), "{joined:?}");
        store.perform(QueueRequest::Close).await.unwrap();
    });
}

/// A server of which nothing is left but its data and its name: its authority, its certificate, and whom it trusts.
#[test]
fn certificates_and_authorities_that_are_replaced_are_used_from_the_next_connection_on() {
    run(async {
        let [theirs, ours] = [(); 2].map(|()| TempDir::new().unwrap());
        let issue = || {
            let authority = Authority::begin(theirs.path());
            authority.client("candidate", "shop");
            Settings::secured(theirs.path(), &authority)
        };
        let take = |names: &[&str]| {
            for name in names {
                fs::copy(theirs.path().join(name), ours.path().join(name)).unwrap();
            }
        };
        let mut ensemble = Ensemble::start(issue());
        let secure = SocketAddr::new(ensemble.address(0).ip(), SECURE_PORT);
        let way = Proxy::to(secure);
        take(&["ca.crt", "candidate.crt", "candidate.key"]);
        let at = |name: &str| ours.path().join(name);
        let own = ClientCertificate { certificate: at("candidate.crt"), key: at("candidate.key") };
        let tls = Some(TlsFiles { authorities: at("ca.crt"), client: Some(own) });
        let servers = format!("localhost:{}", way.address().port());
        let place = ZooKeeperPlace { tls, ..place(&servers, "/orders", None) };
        let store = ZooKeeperStore::open(&place, CALL).await.unwrap();
        let connect = async || store.perform(QueueRequest::Begin { timeout: T }).await;
        at_last(&connect).await;

        issue();
        ensemble.restart();
        at_last(async || match connect().await {
            Err(StoreError::Unreachable(why))
                if format!("{why:?}").contains("InvalidCertificate") =>
            {
                Ok(())
            }
            other => Err(other),
        })
        .await;
        take(&["ca.crt"]);
        let unknown = connect().await;
        assert!(
            matches!(unknown, Err(StoreError::Unreachable(_))),
            "nor does it know ours: {unknown:?}"
        );
        take(&["candidate.crt", "candidate.key"]);
        connect().await.unwrap();
        store.perform(QueueRequest::Close).await.unwrap();
    });
}
