//! The client of `zookeeper_client` against real servers: what each outcome tells, and what goes with a connection.

mod credentials;

use crate::rig::{Ensemble, Flow, Proxy, Settings, Way, connect_string, eventually};
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
/// The session time-out that most of these ask for, which a server with a tick of 500 ms grants.
const T: Duration = Duration::from_secs(8);
/// How long the client is given to read what has come.
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

/// A client with a session.
async fn connected(servers: &str) -> (Client<Resolver>, Grant) {
    let client = client(servers);
    let grant = begin(&client, T).await;
    (client, grant)
}

async fn begin(client: &Client<Resolver>, timeout: Duration) -> Grant {
    client.connect(SessionRequest::New, timeout, PATIENCE).await.unwrap().unwrap()
}

/// A znode at the top that no other test uses.
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
fn every_answer_to_a_connect_tells_the_session_and_its_time_out() {
    run(async {
        let mut ensemble = Ensemble::start(Settings::default());
        let (client, first) = connected(&ensemble.connect_string()).await;
        assert_eq!(first.timeout, T);
        ensemble.restart_with(&["maxSessionTimeout=5000"]);
        let again = client.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap().unwrap();
        assert_eq!(
            (again.session, again.timeout),
            (first.session, Duration::from_secs(5)),
            "other limits"
        );
        assert_eq!(
            begin(&client, Duration::from_millis(1)).await.timeout,
            Duration::from_secs(1),
            "two ticks at least"
        );
        let short = begin(&client, Duration::from_secs(1)).await;
        assert_ne!(short.session, first.session);
        let lives = own_path();
        client.call(&create(&lives, CreateMode::Ephemeral)).await.unwrap();
        let admin = ensemble.admin();
        eventually(PATIENCE, "the session runs out", || admin.read(&lives).is_err());
        assert!(
            client.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap().is_none(),
            "it has run out"
        );
    });
}

#[test]
fn a_session_outlives_its_client_unless_it_is_closed() {
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
        assert_eq!(admin.read(&kept).unwrap().owner, Some(grant.session), "dropped, not closed");
        assert!(admin.read(&closed).is_err(), "gone with its session, at once");
        eventually(PATIENCE, "it runs out", || admin.read(&kept).is_err());
    });
}

#[test]
fn news_that_come_during_a_call_are_told_behind_its_reply() {
    let ensemble = Ensemble::shared();
    let path = own_path();
    let admin = ensemble.admin();
    admin.create(&path, "x").unwrap();
    let proxy = Proxy::to(ensemble.address(0));
    run(async {
        let (client, _) = connected(&proxy.address().to_string()).await;
        client.call(&read(&path, true)).await.unwrap();
        proxy.set(Way::Requests, Flow::Hold);
        proxy.set(Way::Replies, Flow::Hold);
        let request = read("/", false);
        let mut call = pin!(client.call(&request));
        assert!(timeout(SHORT, &mut call).await.is_err(), "its request is held");
        admin.delete(&path).unwrap();
        eventually(PATIENCE, "the news are on their way", || proxy.held(Way::Replies) > 0);
        proxy.set(Way::Replies, Flow::Pass);
        for _ in 0..20 {
            tokio::select! {
                biased;
                _ = &mut call => panic!("the request was not held"),
                _ = client.next_event() => panic!("the news were told in the middle of a call"),
                () = sleep(SHORT) => {}
            }
        }
        proxy.set(Way::Requests, Flow::Pass);
        call.await.unwrap();
        let news = timeout(PATIENCE, client.next_event()).await.unwrap();
        assert!(matches!(news, ConnectionEvent::WatchFired), "{news:?}");
    });
}

#[test]
fn a_call_that_is_given_up_takes_its_connection_with_it() {
    run(async {
        let ensemble = Ensemble::shared();
        let proxy = Proxy::to(ensemble.address(0));
        let (client, grant) = connected(&proxy.address().to_string()).await;
        let path = own_path();
        proxy.set(Way::Requests, Flow::Lose);
        let request = create(&path, CreateMode::Ephemeral);
        assert!(
            timeout(Duration::from_millis(300), client.call(&request)).await.is_err(),
            "nobody answers"
        );
        assert!(matches!(client.call(&request).await, Err(CallError::NotSent)));
        assert!(
            timeout(Duration::from_millis(300), client.next_event()).await.is_err(),
            "who gave up knows it"
        );

        proxy.set(Way::Requests, Flow::Pass);
        let again = client.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap().unwrap();
        assert_eq!(again.session, grant.session);
        client.call(&request).await.unwrap();
    });
}

#[test]
fn a_connection_that_breaks_is_told_once() {
    run(async {
        let ensemble = Ensemble::shared();
        let proxy = Proxy::to(ensemble.address(0));
        let (client, _) = connected(&proxy.address().to_string()).await;
        proxy.cut();
        assert!(matches!(
            timeout(PATIENCE, client.next_event()).await,
            Ok(ConnectionEvent::Lost(_))
        ));
        assert!(timeout(Duration::from_millis(300), client.next_event()).await.is_err(), "once");
        assert!(matches!(client.call(&read("/", false)).await, Err(CallError::NotSent)));

        client.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap();
        proxy.set(Way::Replies, Flow::Close);
        assert!(
            matches!(client.call(&read("/", false)).await, Err(CallError::Unknown(_))),
            "who calls is told"
        );
        assert!(
            timeout(Duration::from_millis(300), client.next_event()).await.is_err(),
            "and nobody else"
        );
    });
}

#[test]
fn servers_that_are_away_or_silent_leave_the_others_a_chance() {
    run(async {
        let ensemble = Ensemble::shared();
        let silent = Proxy::to(ensemble.address(0));
        silent.set(Way::Replies, Flow::Hold);
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        let servers = connect_string([nobody, silent.address(), ensemble.address(0)].into_iter());
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
fn a_resolver_that_hangs_leaves_the_other_servers_a_chance_and_is_named() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        // Names are looked up by a thread that may wait, and the only one is busy until this test is over.
        let (over, until_over) = channel::<()>();
        let busy = tokio::task::spawn_blocking(move || until_over.recv());
        let servers = Ensemble::shared().connect_string();
        for _ in 0..4 {
            let client = client(&format!("slow-name.invalid:1,{servers}"));
            let connected =
                timeout(PATIENCE, client.connect(SessionRequest::New, T, Duration::from_secs(2)))
                    .await;
            connected.expect("the whole of it is bounded").unwrap().unwrap();
        }
        let client = client("slow-name.invalid:1");
        let failed =
            timeout(PATIENCE, client.connect(SessionRequest::New, T, Duration::from_secs(1))).await;
        let error = failed.expect("the whole of it is bounded").unwrap_err().to_string();
        assert!(error.contains("slow-name.invalid:1 has no address"), "{error}");
        assert!(error.contains("no name server has answered yet"), "{error}");
        drop(over);
        busy.await.unwrap().unwrap_err();
    });
}

#[test]
fn paths_are_refused_exactly_where_servers_refuse_them() {
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
fn long_replies_are_read_whole() {
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
