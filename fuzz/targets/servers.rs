//! Output of a ZooKeeper server over a real connection, compared with a decoding frame by frame.
//!
//! The first byte selects when the server sends the rest: at the connect, during authentication, or
//! after a request.

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

/// A first frame that grants a session.
const WELCOME: &[u8] =
    b"\0\0\0\x25\0\0\0\0\0\0\x3a\x98\0\0\0\0\0\0\0\x07\0\0\0\x10pppppppppppppppp\0";
/// The requested session timeout.
const SESSION_TIMEOUT: Duration = Duration::from_secs(15);
/// The frame limit until a session is granted.
const MAX_FIRST_FRAME_BYTES: usize = 64 << 10;
/// The frame limit after that.
const MAX_FRAME_BYTES: usize = 4 << 20;
/// Far longer than a local server needs to send everything.
const CONNECT_TIMEOUT: Duration = Duration::from_mins(1);

thread_local! {
    static ENSEMBLE: Ensemble = Ensemble::new();
}

/// One server with scripted output.
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
            .expect("the listener has an address")
            .to_string()
            .parse()
            .expect("an address is a server list");
        Self { runtime, listener, servers }
    }

    /// Runs `talk` against a server that sends `output` and then closes its side.
    fn run<T>(
        &self,
        output: &[u8],
        credentials: Vec<Credential>,
        talk: &impl AsyncFn(&Client<Resolver>) -> T,
    ) -> T {
        let client =
            Client::new(&self.servers, Dialer { tls: None, credentials }, Resolver::default());
        self.runtime.block_on(async {
            let serve = async {
                let (mut socket, _) = self.listener.accept().await.expect("the listener accepts");
                // A client that receives nonsense may disconnect early. Wait for one that does not.
                drop(socket.write_all(output).await);
                drop(socket.shutdown().await);
                drop(socket.read_to_end(&mut Vec::new()).await);
            };
            let talk = async {
                let result = talk(&client).await;
                drop(client);
                result
            };
            tokio::join!(serve, talk).1
        })
    }
}

pub(super) fn read(bytes: &[u8]) {
    let Some((phase, output)) = bytes.split_first() else { return };
    ENSEMBLE.with(|ensemble| match phase % 3 {
        0 => fuzz_connect(ensemble, output),
        1 => fuzz_authentication(ensemble, &[WELCOME, output].concat()),
        _ => fuzz_reply(ensemble, output),
    });
}

/// A session is granted if the first frame grants one and the second accepts the credentials.
fn fuzz_connect(ensemble: &Ensemble, output: &[u8]) {
    let mut frames = frames(output, MAX_FIRST_FRAME_BYTES);
    let expected = frames
        .next()
        .and_then(|first| wire::parse_connect_response(first).ok())
        .and_then(|granted| {
            let Some(grant) = granted else { return Some(None) };
            let (second, _) = wire::parse_message(frames.next()?).ok()?;
            matches!(second, ServerMessage::Reply(_, Ok(_))).then_some(Some(grant))
        });
    let digest = Credential::parse_all("digest:shop:secret").expect("a valid credential");
    let granted = ensemble.run(output, digest, &async |client: &Client<Resolver>| {
        client.connect(SessionRequest::New, SESSION_TIMEOUT, CONNECT_TIMEOUT).await
    });
    assert_eq!(granted.as_ref().ok(), expected.as_ref(), "{granted:?}");
}

/// Random bytes never prove knowledge of the password.
fn fuzz_authentication(ensemble: &Ensemble, output: &[u8]) {
    let sasl = Credential::parse_all("sasl:shop:secret").expect("a valid credential");
    let granted = ensemble.run(output, sasl, &async |client: &Client<Resolver>| {
        client.connect(SessionRequest::New, SESSION_TIMEOUT, CONNECT_TIMEOUT).await
    });
    assert!(granted.is_err(), "{granted:?}");
}

/// The reply to the first request is the first frame that is not a watch event, if it has the
/// request's number. Watch events before and after it are delivered.
fn fuzz_reply(ensemble: &Ensemble, output: &[u8]) {
    let children = GetChildren { path: "/o".to_owned() };
    let mut frames = frames(output, MAX_FRAME_BYTES);
    let mut fired = 0;
    let expected = frames.by_ref().map(wire::parse_message).find_map(|received| match received {
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
    // Any other unsolicited frame breaks the connection.
    fired += frames
        .take_while(|frame| {
            matches!(wire::parse_message(frame), Ok((ServerMessage::WatchFired, _)))
        })
        .count();
    ensemble.run(&[WELCOME, output].concat(), Vec::new(), &async |client: &Client<Resolver>| {
        let granted = client
            .connect(SessionRequest::New, SESSION_TIMEOUT, CONNECT_TIMEOUT)
            .await
            .expect("the server grants a session");
        assert_eq!(granted.map(|grant| grant.session), Some(7));
        let answer = client.call(&children).await;
        match (&expected, answer) {
            (Some(Ok(names)), Ok(reply)) => assert_eq!(*names, reply),
            (Some(Err(code)), Err(CallError::Refused(refusal))) => assert_eq!(*code, refusal),
            (None, Err(CallError::Unknown(_))) => {
                let again = client.call(&children).await;
                return assert!(
                    matches!(again, Err(CallError::NotSent)),
                    "a malformed reply must break the connection"
                );
            }
            (_, other) => panic!("expected {expected:?}, got {other:?}"),
        }
        let mut delivered = 0;
        while let ConnectionEvent::WatchFired = client.next_event().await {
            delivered += 1;
        }
        assert!(delivered <= fired, "delivered {delivered} of {fired} watch events");
        assert!(fired == 0 || delivered > 0, "delivered none of {fired} watch events");
    });
}

/// The complete frames at the beginning of `bytes`.
fn frames(mut bytes: &[u8], max_length: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, body) = bytes.split_first_chunk()?;
        let length = usize::try_from(i32::from_be_bytes(*length))
            .ok()
            .filter(|length| *length <= max_length)?;
        let (frame, rest) = body.split_at_checked(length)?;
        bytes = rest;
        Some(frame)
    })
}
