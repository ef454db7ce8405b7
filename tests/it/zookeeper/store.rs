//! The store over real servers, asked as the machine asks it, where a process would be too much.

use crate::rig::Ensemble;
use baton::backend::zookeeper::ZooKeeperStore;
use baton::backend::{Store as _, StoreError};
use baton::config::ZooKeeperPlace;
use baton::election::timing::{Drift, Durations, Timing};
use baton::election::zookeeper::timing::SessionTiming;
use baton::election::zookeeper::words::{ZooKeeperEvent, ZooKeeperRequest};
use baton::identity::Identity;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

const CALL: Duration = Duration::from_secs(20);
const T: Duration = Duration::from_secs(8);

fn place(servers: &str, path: &str, auth_file: Option<PathBuf>) -> ZooKeeperPlace {
    let [renew_deadline, retry_period] = [5, 1].map(Duration::from_secs);
    let durations = Durations { lease_duration: T, renew_deadline, retry_period, answer_validity: retry_period };
    let timing = Timing::new(durations, Drift::default()).unwrap();
    let timing = SessionTiming::new(timing, Duration::from_millis(500)).unwrap();
    ZooKeeperPlace { servers: servers.parse().unwrap(), path: path.to_owned(), timing, auth_file, tls: None }
}

fn join() -> ZooKeeperRequest {
    ZooKeeperRequest::Join { prefix: "_c_x-latch-".to_owned(), identity: Identity::parse("a").unwrap() }
}

#[test]
fn credentials_that_are_replaced_are_shown_from_the_next_connection_on() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let servers = Ensemble::shared().connect_string();
        let (folder, path) = (TempDir::new().unwrap(), format!("/{}", Uuid::new_v4()));
        let file = folder.path().join("credentials");
        fs::write(&file, "digest:old:secret\n").unwrap();
        let store = ZooKeeperStore::open(&place(&servers, &path, Some(file.clone())), CALL).unwrap();
        store.perform(ZooKeeperRequest::Begin { timeout: T }).await.unwrap();
        assert_eq!(store.perform(ZooKeeperRequest::MakePath).await.unwrap(), ZooKeeperEvent::Made);

        fs::write(&file, "digest:new:secret\n").unwrap();
        store.perform(ZooKeeperRequest::Resume { timeout: T }).await.unwrap();
        let joined = store.perform(join()).await;
        assert!(matches!(joined, Err(StoreError::Refused(_))), "the path is another's now: {joined:?}");

        fs::write(&file, "what is half written\n").unwrap();
        store.perform(ZooKeeperRequest::Resume { timeout: T }).await.unwrap();
        fs::write(&file, "digest:old:secret\n").unwrap();
        store.perform(ZooKeeperRequest::Resume { timeout: T }).await.unwrap();
        let joined = store.perform(join()).await.unwrap();
        assert!(matches!(joined, ZooKeeperEvent::Joined { .. }), "{joined:?}");
        store.perform(ZooKeeperRequest::Close).await.unwrap();
    });
}
