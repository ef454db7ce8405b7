//! The `zookeeper_client` crate against real servers: outcomes of calls, sessions, and connections.

mod credentials;

use crate::rig::{Direction, Ensemble, Flow, Proxy, Settings, connect_string, eventually};
use baton::process::resolver::Resolver;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use uuid::Uuid;
use zookeeper_client::client::{CallError, Client, ConnectionEvent, SessionRequest};
use zookeeper_client::dial::Dialer;
use zookeeper_client::operations::{Access, Create, CreateMode, GetChildren, GetData};
use zookeeper_client::servers::check_path;
use zookeeper_client::wire::{Code, Grant};

const PATIENCE: Duration = Duration::from_secs(20);
/// The session timeout of most tests, which a server with a tick of 500 ms grants.
const T: Duration = Duration::from_secs(8);
/// How long the client gets to read bytes that have arrived.
const SHORT: Duration = Duration::from_millis(20);

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

fn client(servers: &str) -> Client<Resolver> {
    Client::new(
        &servers.parse().unwrap(),
        Dialer { tls: None, credentials: Vec::new() },
        Resolver::default(),
    )
}

/// A client with a new session, and the server's grant.
async fn connected(servers: &str) -> (Client<Resolver>, Grant) {
    let client = client(servers);
    let grant = start_session(&client, T).await;
    (client, grant)
}

async fn start_session(client: &Client<Resolver>, timeout: Duration) -> Grant {
    client.connect(SessionRequest::New, timeout, PATIENCE).await.unwrap().unwrap()
}

/// A top-level path that no other test uses.
fn own_path() -> String {
    format!("/{}", Uuid::new_v4())
}

fn create(path: &str, mode: CreateMode) -> Create {
    Create { path: path.to_owned(), data: b"x".to_vec(), mode, access: Access::Open }
}

fn read(path: &str, watch: bool) -> GetData {
    GetData { path: path.to_owned(), watch }
}

#[test]
fn connect_returns_the_session_and_its_granted_timeout() {
    run(async {
        let mut ensemble = Ensemble::start(Settings::default());
        let (client, first) = connected(&ensemble.connect_string()).await;
        assert_eq!(first.timeout, T);
        ensemble.restart_with(&["maxSessionTimeout=5000"]);
        let again = client.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap().unwrap();
        assert_eq!(
            (again.session, again.timeout),
            (first.session, Duration::from_secs(5)),
            "the new limit applies"
        );
        assert_eq!(
            start_session(&client, Duration::from_millis(1)).await.timeout,
            Duration::from_secs(1),
            "a server grants at least two ticks"
        );
        let short = start_session(&client, Duration::from_secs(1)).await;
        assert_ne!(short.session, first.session);
        let ephemeral = own_path();
        client.call(&create(&ephemeral, CreateMode::Ephemeral)).await.unwrap();
        let admin = ensemble.admin();
        eventually(PATIENCE, "the session expires", || admin.read(&ephemeral).is_err());
        assert!(
            client.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap().is_none(),
            "the expired session cannot be resumed"
        );
    });
}

#[test]
fn session_outlives_its_client_unless_closed() {
    run(async {
        let ensemble = Ensemble::shared();
        let (kept, closed) = (own_path(), own_path());
        let (client, grant) = connected(&ensemble.connect_string()).await;
        client.call(&create(&kept, CreateMode::Ephemeral)).await.unwrap();
        drop(client);
        let (client, _) = connected(&ensemble.connect_string()).await;
        client.call(&create(&closed, CreateMode::Ephemeral)).await.unwrap();
        client.close().await.unwrap();
        assert!(matches!(client.call(&read(&kept, false)).await, Err(CallError::NotSent)));

        let admin = ensemble.admin();
        let owner = admin.read(&kept).unwrap().owner;
        assert_eq!(owner, Some(grant.session), "dropping a client does not close its session");
        assert!(admin.read(&closed).is_err(), "closing a session removes its znode at once");
        eventually(PATIENCE, "the session expires", || admin.read(&kept).is_err());
    });
}

#[test]
fn watch_event_during_a_call_is_delivered_after_its_reply() {
    let ensemble = Ensemble::shared();
    let path = own_path();
    let admin = ensemble.admin();
    admin.create(&path, "x").unwrap();
    let proxy = Proxy::to(ensemble.address(0));
    run(async {
        let (client, _) = connected(&proxy.address().to_string()).await;
        client.call(&read(&path, true)).await.unwrap();
        proxy.set(Direction::Requests, Flow::Hold);
        proxy.set(Direction::Replies, Flow::Hold);
        let request = read("/", false);
        let mut call = pin!(client.call(&request));
        assert!(timeout(SHORT, &mut call).await.is_err(), "the proxy holds the request");
        admin.delete(&path).unwrap();
        eventually(PATIENCE, "the watch event reaches the proxy", || {
            proxy.held(Direction::Replies) > 0
        });
        proxy.set(Direction::Replies, Flow::Pass);
        for _ in 0..20 {
            tokio::select! {
                biased;
                _ = &mut call => panic!("the request was not held"),
                _ = client.next_event() => panic!("the watch event was delivered during a call"),
                () = sleep(SHORT) => {}
            }
        }
        proxy.set(Direction::Requests, Flow::Pass);
        call.await.unwrap();
        let event = timeout(PATIENCE, client.next_event()).await.unwrap();
        assert!(matches!(event, ConnectionEvent::WatchFired), "{event:?}");
    });
}

#[test]
fn abandoned_call_closes_its_connection() {
    run(async {
        let ensemble = Ensemble::shared();
        let proxy = Proxy::to(ensemble.address(0));
        let (client, grant) = connected(&proxy.address().to_string()).await;
        let path = own_path();
        proxy.set(Direction::Requests, Flow::Lose);
        let request = create(&path, CreateMode::Ephemeral);
        assert!(
            timeout(Duration::from_millis(300), client.call(&request)).await.is_err(),
            "the request is lost"
        );
        assert!(matches!(client.call(&request).await, Err(CallError::NotSent)));
        assert!(
            timeout(Duration::from_millis(300), client.next_event()).await.is_err(),
            "abandoning a call is not reported as a loss"
        );

        proxy.set(Direction::Requests, Flow::Pass);
        let again = client.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap().unwrap();
        assert_eq!(again.session, grant.session);
        client.call(&request).await.unwrap();
    });
}

#[test]
fn lost_connection_is_reported_once() {
    run(async {
        let ensemble = Ensemble::shared();
        let proxy = Proxy::to(ensemble.address(0));
        let (client, _) = connected(&proxy.address().to_string()).await;
        proxy.cut();
        assert!(matches!(
            timeout(PATIENCE, client.next_event()).await,
            Ok(ConnectionEvent::Lost(_))
        ));
        assert!(timeout(Duration::from_millis(300), client.next_event()).await.is_err(), "again");
        assert!(matches!(client.call(&read("/", false)).await, Err(CallError::NotSent)));

        client.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap();
        proxy.set(Direction::Replies, Flow::Close);
        assert!(
            matches!(client.call(&read("/", false)).await, Err(CallError::Unknown(_))),
            "the pending call reports the loss"
        );
        assert!(
            timeout(Duration::from_millis(300), client.next_event()).await.is_err(),
            "the loss is not reported again"
        );
    });
}

#[test]
fn dead_or_silent_servers_do_not_block_connecting() {
    run(async {
        let ensemble = Ensemble::shared();
        let silent = Proxy::to(ensemble.address(0));
        silent.set(Direction::Replies, Flow::Hold);
        let closed = SocketAddr::from(([127, 0, 0, 1], 1));
        let servers = connect_string([closed, silent.address(), ensemble.address(0)].into_iter());
        let client = client(&format!("no-such-name.invalid:1,{servers}"));
        for _ in 0..4 {
            client.connect(SessionRequest::New, T, Duration::from_secs(4)).await.unwrap().unwrap();
        }
    });
    run(async {
        let client = client("no-such-name.invalid:1,127.0.0.1:1");
        let error = client.connect(SessionRequest::New, T, PATIENCE).await.unwrap_err().to_string();
        for part in [
            "cannot connect to 127.0.0.1:1: Connection refused",
            "no-such-name.invalid:1 has no address",
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    });
}

#[test]
fn hanging_lookup_is_named_and_does_not_block_other_servers() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        // Lookups need a blocking thread, and the only one is busy until the end of the test.
        let (end, until_end) = channel::<()>();
        let busy = tokio::task::spawn_blocking(move || until_end.recv());
        let servers = Ensemble::shared().connect_string();
        for _ in 0..4 {
            let client = client(&format!("slow-name.invalid:1,{servers}"));
            let connected =
                timeout(PATIENCE, client.connect(SessionRequest::New, T, Duration::from_secs(2)))
                    .await;
            connected.expect("connecting is bounded").unwrap().unwrap();
        }
        let client = client("slow-name.invalid:1");
        let failed =
            timeout(PATIENCE, client.connect(SessionRequest::New, T, Duration::from_secs(1))).await;
        let error = failed.expect("connecting is bounded").unwrap_err().to_string();
        assert!(error.contains("slow-name.invalid:1 has no address"), "{error}");
        assert!(error.contains("no name server has answered yet"), "{error}");
        drop(end);
        busy.await.unwrap().unwrap_err();
    });
}

#[test]
fn check_path_agrees_with_the_servers() {
    let admin = Ensemble::shared().admin();
    let top = own_path();
    admin.create(&top, "x").unwrap();
    for name in [
        "\u{1f}",
        "\u{7f}",
        "\u{9f}",
        "\u{a0}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{f8ff}",
        "\u{f900}",
        "\u{ffef}",
        "\u{fff0}",
        "\u{ffff}",
        "\u{10000}",
        "\u{1f9a6}",
        ".",
        "..",
        "...",
        "a b",
        "選挙",
    ] {
        let path = format!("{top}/{name}");
        let created = admin.create(&path, "x");
        assert!(matches!(created, Ok(_) | Err(Code::BadArguments)), "{name:?}: {created:?}");
        assert_eq!(check_path(&path).is_ok(), created.is_ok(), "{name:?}: {created:?}");
    }
}

#[test]
fn long_reply_is_read_completely() {
    run(async {
        let ensemble = Ensemble::shared();
        let path = own_path();
        let (client, _) = connected(&ensemble.connect_string()).await;
        client.call(&create(&path, CreateMode::Persistent)).await.unwrap();
        let name = "n".repeat(200);
        for _ in 0..500 {
            client
                .call(&create(&format!("{path}/{name}"), CreateMode::EphemeralSequential))
                .await
                .unwrap();
        }
        let names = client.call(&GetChildren { path: path.clone() }).await.unwrap();
        assert_eq!(names.len(), 500);
        assert!(names.iter().all(|child| child.starts_with(&name) && child.len() == 210));
    });
}
