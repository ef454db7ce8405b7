//! What a ZooKeeper server says on a real connection: to our first words, to credentials, to requests. Judged by what the
//! frames say one by one.
//!
//! The first byte says how far the conversation has come when the rest is said.

use baton::process::resolver::Resolver;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use zookeeper_client::client::{CallError, Client, ConnectionEvent, SessionRequest};
use zookeeper_client::credentials::Credential;
use zookeeper_client::dial::Dialer;
use zookeeper_client::jute::Decoder;
use zookeeper_client::operations::GetChildren;
use zookeeper_client::servers::Servers;
use zookeeper_client::wire;
use zookeeper_client::wire::{Code, Operation as _, ServerMessage};

/// A session that was granted: the server's first frame.
const WELCOME: &[u8] =
    b"\0\0\0\x25\0\0\0\0\0\0\x3a\x98\0\0\0\0\0\0\0\x07\0\0\0\x10pppppppppppppppp\0";
/// The session time-out that is asked for.
const ASKED: Duration = Duration::from_secs(15);
/// The longest frames before the session is granted, and from then on.
const LONGEST_FIRST_FRAME: usize = 64 << 10;
const LONGEST_FRAME: usize = 4 << 20;
/// Longer than a server on this machine takes that says all at once.
const WITHIN: Duration = Duration::from_mins(1);

thread_local! {
    static ENSEMBLE: Ensemble = Ensemble::new();
}

/// One server, which says what it is told to say.
struct Ensemble {
    runtime: Runtime,
    listener: TcpListener,
    servers: Servers,
}

impl Ensemble {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let servers = listener
            .local_addr()
            .expect("it is bound")
            .to_string()
            .parse()
            .expect("an address is a server");
        Self { runtime, listener, servers }
    }

    /// What `talk` comes to with a server that says `said` and no more.
    fn meet<T>(
        &self,
        said: &[u8],
        credentials: Vec<Credential>,
        talk: &impl AsyncFn(&Client<Resolver>) -> T,
    ) -> T {
        let client =
            Client::new(&self.servers, Dialer { tls: None, credentials }, Resolver::default());
        self.runtime.block_on(async {
            let serve = async {
                let (mut socket, _) = self.listener.accept().await.expect("it listens");
                // A client that hears nonsense may be gone before all is said. One that stays is waited for.
                drop(socket.write_all(said).await);
                drop(socket.shutdown().await);
                drop(socket.read_to_end(&mut Vec::new()).await);
            };
            let talk = async {
                let told = talk(&client).await;
                drop(client);
                told
            };
            tokio::join!(serve, talk).1
        })
    }
}

pub(super) fn read(bytes: &[u8]) {
    let Some((stage, said)) = bytes.split_first() else { return };
    ENSEMBLE.with(|ensemble| match stage % 3 {
        0 => introduced(ensemble, said),
        1 => challenged(ensemble, &[WELCOME, said].concat()),
        _ => asked(ensemble, said),
    });
}

/// A session is granted where the first frame grants one, and the second accepts what we show.
fn introduced(ensemble: &Ensemble, said: &[u8]) {
    let mut frames = frames(said, LONGEST_FIRST_FRAME);
    let expected = frames
        .next()
        .and_then(|first| wire::parse_connect_response(first).ok())
        .and_then(|granted| {
            let Some(grant) = granted else { return Some(None) };
            let (second, _) = wire::parse_message(frames.next()?).ok()?;
            matches!(second, ServerMessage::Reply(_, Ok(_))).then_some(Some(grant))
        });
    let digest = Credential::parse_all("digest:shop:secret").expect("it is one");
    let granted = ensemble.meet(said, digest, &async |client: &Client<Resolver>| {
        client.connect(SessionRequest::New, ASKED, WITHIN).await
    });
    assert_eq!(granted.as_ref().ok(), expected.as_ref(), "{granted:?}");
}

/// Nobody proves by chance that he knows our password.
fn challenged(ensemble: &Ensemble, said: &[u8]) {
    let sasl = Credential::parse_all("sasl:shop:secret").expect("it is one");
    let granted = ensemble.meet(said, sasl, &async |client: &Client<Resolver>| {
        client.connect(SessionRequest::New, ASKED, WITHIN).await
    });
    assert!(granted.is_err(), "{granted:?}");
}

/// The answer to our first request is the first frame with its number, news aside; what stands behind it is heard as news.
fn asked(ensemble: &Ensemble, said: &[u8]) {
    let children = GetChildren { path: "/o".to_owned() };
    let mut behind = frames(said, LONGEST_FRAME);
    let mut fired = 0;
    let expected = behind.by_ref().map(wire::parse_message).find_map(|received| match received {
        Ok((ServerMessage::WatchFired, _)) => {
            fired += 1;
            None
        }
        Ok((ServerMessage::Reply(1, answer), _)) => Some(Some(answer)),
        Ok((ServerMessage::Reply(..), _)) | Err(_) => Some(None),
    });
    let expected = match expected.flatten() {
        Some(Ok(body)) => children.decode(&mut Decoder::new(body)).ok().map(Ok),
        Some(Err(Code::SessionMoved | Code::Other(_))) | None => None,
        Some(Err(code)) => Some(Err(code)),
    };
    // Whatever else comes unasked breaks the connection.
    fired += behind
        .take_while(|frame| {
            matches!(wire::parse_message(frame), Ok((ServerMessage::WatchFired, _)))
        })
        .count();
    ensemble.meet(&[WELCOME, said].concat(), Vec::new(), &async |client: &Client<Resolver>| {
        let granted =
            client.connect(SessionRequest::New, ASKED, WITHIN).await.expect("it was granted");
        assert_eq!(granted.map(|grant| grant.session), Some(7));
        let answer = client.call(&children).await;
        match (&expected, answer) {
            (Some(Ok(names)), Ok(told)) => assert_eq!(*names, told),
            (Some(Err(code)), Err(CallError::Refused(told))) => assert_eq!(*code, told),
            (None, Err(CallError::Unknown(_))) => {
                let again = client.call(&children).await;
                return assert!(
                    matches!(again, Err(CallError::NotSent)),
                    "what is not understood takes the connection along"
                );
            }
            (_, other) => panic!("{expected:?} was said, and heard is {other:?}"),
        }
        let mut heard = 0;
        while let ConnectionEvent::WatchFired = client.next_event().await {
            heard += 1;
        }
        assert!(heard <= fired, "{heard} watches fired, of {fired}");
        assert!(fired == 0 || heard > 0, "none of {fired} watches was heard");
    });
}

/// The whole frames at the beginning of `bytes`.
fn frames(mut bytes: &[u8], longest: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (told, behind) = bytes.split_first_chunk()?;
        let length =
            usize::try_from(i32::from_be_bytes(*told)).ok().filter(|length| *length <= longest)?;
        let (frame, rest) = behind.split_at_checked(length)?;
        bytes = rest;
        Some(frame)
    })
}
