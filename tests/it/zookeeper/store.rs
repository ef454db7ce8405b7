//! The ZooKeeper store over real servers, with the requests of a state machine.

use super::retry_until_ok;
use crate::rig::{Authority, Ensemble, Proxy, SECURE_PORT, Settings};
use baton::config::ZooKeeperConfig;
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

fn config(servers: &str, path: &str, auth_file: Option<PathBuf>) -> ZooKeeperConfig {
    let [renew_deadline, retry_period] = [5, 1].map(Duration::from_secs);
    let durations = Durations {
        lease_duration: T,
        renew_deadline,
        retry_period,
        answer_validity: retry_period,
    };
    let timing = Timing::new(durations, Drift::default()).unwrap();
    let timing = SessionTiming::new(timing, Duration::from_millis(500)).unwrap();
    ZooKeeperConfig {
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
fn replaced_credentials_apply_to_the_next_connection() {
    run(async {
        let servers = Ensemble::shared().connect_string();
        let (folder, path) = (TempDir::new().unwrap(), format!("/{}", Uuid::new_v4()));
        let file = folder.path().join("credentials");
        fs::write(&file, "digest:old:secret\n").unwrap();
        let store =
            ZooKeeperStore::open(&config(&servers, &path, Some(file.clone())), CALL).await.unwrap();
        store.perform(QueueRequest::Begin { timeout: T }).await.unwrap();
        assert_eq!(store.perform(QueueRequest::MakePath).await.unwrap(), QueueEvent::Made);

        fs::write(&file, "digest:new:secret\n").unwrap();
        store.perform(QueueRequest::Resume { timeout: T }).await.unwrap();
        let joined = store.perform(join()).await;
        assert!(
            matches!(joined, Err(StoreError::Refused(_))),
            "the path belongs to the old credentials: {joined:?}"
        );

        fs::write(&file, "half-written\n").unwrap();
        store.perform(QueueRequest::Resume { timeout: T }).await.unwrap();
        fs::write(&file, "digest:old:secret\n").unwrap();
        store.perform(QueueRequest::Resume { timeout: T }).await.unwrap();
        let joined = store.perform(join()).await.unwrap();
        assert!(matches!(joined, QueueEvent::Joined { .. }), "{joined:?}");
        store.perform(QueueRequest::Close).await.unwrap();
    });
}

/// The server keeps its data and its name, and gets another authority, another certificate, and
/// other trusted clients.
#[test]
fn replaced_certificates_apply_to_the_next_connection() {
    run(async {
        let [server_folder, client_folder] = [(); 2].map(|()| TempDir::new().unwrap());
        let issue = || {
            let authority = Authority::begin(server_folder.path());
            authority.client("candidate", "shop");
            Settings::secured(server_folder.path(), &authority)
        };
        let take = |names: &[&str]| {
            for name in names {
                fs::copy(server_folder.path().join(name), client_folder.path().join(name)).unwrap();
            }
        };
        let mut ensemble = Ensemble::start(issue());
        let secure = SocketAddr::new(ensemble.address(0).ip(), SECURE_PORT);
        let proxy = Proxy::to(secure);
        take(&["ca.crt", "candidate.crt", "candidate.key"]);
        let at = |name: &str| client_folder.path().join(name);
        let own = ClientCertificate { certificate: at("candidate.crt"), key: at("candidate.key") };
        let tls = Some(TlsFiles { authorities: at("ca.crt"), client: Some(own) });
        let servers = format!("localhost:{}", proxy.address().port());
        let config = ZooKeeperConfig { tls, ..config(&servers, "/orders", None) };
        let store = ZooKeeperStore::open(&config, CALL).await.unwrap();
        let connect = async || store.perform(QueueRequest::Begin { timeout: T }).await;
        retry_until_ok(&connect).await;

        issue();
        ensemble.restart();
        retry_until_ok(async || match connect().await {
            Err(StoreError::Unreachable(error))
                if format!("{error:?}").contains("InvalidCertificate") =>
            {
                Ok(())
            }
            other => Err(other),
        })
        .await;
        take(&["ca.crt"]);
        let distrusted = connect().await;
        assert!(
            matches!(distrusted, Err(StoreError::Unreachable(_))),
            "the server does not trust the old certificate: {distrusted:?}"
        );
        take(&["candidate.crt", "candidate.key"]);
        connect().await.unwrap();
        store.perform(QueueRequest::Close).await.unwrap();
    });
}
