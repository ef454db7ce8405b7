//! One attempt to connect to one address: TCP, TLS, session, credentials.
//!
//! Touches sockets. Start with [`Dialer::dial`]. It reads no byte beyond the handshake, so the
//! caller can read the connection from there.

use crate::credentials::Credential;
use crate::digest_md5::{Exchange, SaslError};
use crate::jute::{Decoder, Malformed};
use crate::operations::Sasl;
use crate::resolve::ResolveError;
use crate::servers::Host;
use crate::tls::Tls;
use crate::wire;
use crate::wire::{Code, Grant, Operation as _, ServerMessage};
use std::collections::BTreeSet;
use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;

/// The longest frame accepted during the handshake, in bytes.
const MAX_HANDSHAKE_FRAME_BYTES: i32 = 64 << 10;

/// A connection, with or without TLS.
pub type Transport = Box<dyn Duplex>;

/// A bidirectional stream.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// How to connect to any server of the ensemble.
#[derive(Debug)]
pub struct Dialer {
    /// The TLS configuration; none for plain TCP.
    pub tls: Option<Tls>,
    /// The credentials to present, in this order.
    pub credentials: Vec<Credential>,
}

/// The session to request.
#[derive(Debug, Clone, Copy)]
pub struct ConnectRequest<'a> {
    /// The session to resume; none for a new one.
    pub before: Option<&'a Grant>,
    /// The session timeout to request.
    pub timeout: Duration,
    /// The last transaction that the client knows of.
    pub last_zxid: i64,
}

/// Why an attempt to connect failed.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The lookup of the host name failed.
    #[error("{0} has no address: check the name and the resolver")]
    Resolve(Host, #[source] ResolveError),
    /// The TCP connection failed.
    #[error("cannot connect to {0}")]
    Connect(Host, #[source] io::Error),
    /// The TLS handshake failed.
    #[error(
        "TLS handshake with {0} failed: its port must be the secure one, and its certificate must \
         name {name:?} and be signed by a trusted authority",
        name = .0.name
    )]
    Tls(Host, #[source] io::Error),
    /// The server closed the connection during the handshake.
    #[error(
        "{0} granted no session: it may have no quorum, accept only TLS, require a client \
         certificate, or lag behind another server"
    )]
    NotGranted(Host, #[source] io::Error),
    /// The attempt took too long.
    #[error("{0} did not grant a session within {1:?}")]
    Timeout(Host, Duration),
    /// The server sent a malformed message.
    #[error("{0} does not speak ZooKeeper's protocol")]
    Protocol(Host, #[source] Malformed),
    /// The server refused the credentials, or did not prove that it knows them.
    #[error("{host} refused the {scheme} credentials")]
    Refused {
        /// The server.
        host: Host,
        /// The scheme of the credentials.
        scheme: String,
        /// The cause.
        source: AuthError,
    },
}

/// Why an authentication failed.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The server refused the credentials.
    #[error(transparent)]
    Server(Code),
    /// The SASL exchange failed.
    #[error(transparent)]
    Sasl(#[from] SaslError),
}

/// No server granted a session. `Display` lists why, each reason once, in a stable order.
#[derive(Debug, thiserror::Error)]
#[error("no server granted a session: {}", reasons(.0))]
pub struct ConnectError(Vec<DialError>);

fn reasons(failures: &[DialError]) -> String {
    let reasons: BTreeSet<String> = failures.iter().map(DialError::with_causes).collect();
    reasons.into_iter().collect::<Vec<_>>().join("; ")
}

/// Why a handshake failed.
enum HandshakeError {
    Io(io::Error),
    Malformed(Malformed),
    Refused(String, AuthError),
}

impl ConnectError {
    pub(super) const fn new(failures: Vec<DialError>) -> Self {
        Self(failures)
    }

    /// Why each attempt failed.
    pub fn failures(&self) -> &[DialError] {
        &self.0
    }

    /// Whether a server refused the client's credentials, so that retrying is futile.
    pub fn is_refusal(&self) -> bool {
        self.0.iter().any(|failure| matches!(failure, DialError::Refused { .. }))
    }
}

impl DialError {
    /// This error and its causes, on one line.
    pub(super) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let part = error.to_string();
            // Some errors of other crates repeat their cause.
            if !text.contains(&part) {
                text = format!("{text}: {part}");
            }
            cause = error.source();
        }
        text
    }
}

impl Dialer {
    /// Requests a session from the server at `address`; `None` if the one to resume has expired.
    ///
    /// `host` is the server's name for TLS and errors. `within` bounds the attempt.
    pub async fn dial(
        &self,
        host: &Host,
        address: SocketAddr,
        request: ConnectRequest<'_>,
        within: Duration,
    ) -> Result<Option<(Transport, Grant)>, DialError> {
        timeout(within, self.attempt(host, address, request)).await.unwrap_or_else(|_elapsed| {
            Err(DialError::Timeout(host.clone(), whole_milliseconds(within)))
        })
    }

    async fn attempt(
        &self,
        host: &Host,
        address: SocketAddr,
        request: ConnectRequest<'_>,
    ) -> Result<Option<(Transport, Grant)>, DialError> {
        let socket = TcpStream::connect(address)
            .await
            .map_err(|error| DialError::Connect(host.clone(), error))?;
        // Discard unsent bytes on close: a request must not be sent after its call was dropped.
        socket
            .set_nodelay(true)
            .and_then(|()| socket.set_zero_linger())
            .map_err(|error| DialError::Connect(host.clone(), error))?;
        let mut stream: Transport = match &self.tls {
            None => Box::new(socket),
            Some(tls) => {
                let secured = tls.secure(&host.name, socket).await;
                Box::new(secured.map_err(|error| DialError::Tls(host.clone(), error))?)
            }
        };
        let granted = self.handshake(&mut stream, request).await.map_err(|error| match error {
            HandshakeError::Io(error) => DialError::NotGranted(host.clone(), error),
            HandshakeError::Malformed(error) => DialError::Protocol(host.clone(), error),
            HandshakeError::Refused(scheme, source) => {
                DialError::Refused { host: host.clone(), scheme, source }
            }
        })?;
        Ok(granted.map(|grant| (stream, grant)))
    }

    /// Requests the session, then presents the credentials.
    async fn handshake(
        &self,
        stream: &mut Transport,
        request: ConnectRequest<'_>,
    ) -> Result<Option<Grant>, HandshakeError> {
        send(stream, &wire::connect_request(request.before, request.timeout, request.last_zxid))
            .await?;
        let Some(grant) = wire::parse_connect_response(&receive(stream).await?)? else {
            return Ok(None);
        };
        for credential in &self.credentials {
            let refused =
                |source: AuthError| HandshakeError::Refused(credential.scheme().to_owned(), source);
            match credential {
                Credential::Plain { scheme, secret } => {
                    send(stream, &wire::auth_request(scheme, secret)).await?;
                    reply(&receive(stream).await?)?
                        .map_err(|code| refused(AuthError::Server(code)))?;
                }
                Credential::Sasl { user, password } => {
                    let challenge = sasl(stream, Vec::new())
                        .await?
                        .map_err(|code| refused(AuthError::Server(code)))?;
                    let nonce = Uuid::new_v4().simple().to_string();
                    let exchange = Exchange::respond(user, password, &challenge, &nonce);
                    let exchange = exchange.map_err(|error| refused(error.into()))?;
                    let last = sasl(stream, exchange.response.clone().into_bytes()).await?;
                    let last = last.map_err(|code| refused(AuthError::Server(code)))?;
                    exchange.verify(&last).map_err(|error| refused(error.into()))?;
                }
            }
        }
        Ok(Some(grant))
    }
}

/// Rounds down a timeout for display.
fn whole_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Sends one SASL token and returns the server's.
async fn sasl(
    stream: &mut Transport,
    token: Vec<u8>,
) -> Result<Result<Vec<u8>, Code>, HandshakeError> {
    let step = Sasl(token);
    send(stream, &wire::request(0, &step)).await?;
    let body = receive(stream).await?;
    match reply(&body)? {
        Ok(reply) => Ok(Ok(step.decode(&mut Decoder::new(reply))?)),
        Err(code) => Ok(Err(code)),
    }
}

/// The body of a reply, or its error.
fn reply(body: &[u8]) -> Result<Result<&[u8], Code>, HandshakeError> {
    match wire::parse_message(body)? {
        (ServerMessage::Reply(_, result), _) => Ok(result),
        (ServerMessage::WatchFired, _) => Err(Malformed::UnexpectedReply(0).into()),
    }
}

async fn send(stream: &mut Transport, frame: &[u8]) -> Result<(), HandshakeError> {
    stream.write_all(frame).await?;
    Ok(stream.flush().await?)
}

async fn receive(stream: &mut Transport) -> Result<Vec<u8>, HandshakeError> {
    let announced = stream.read_i32().await?;
    let length = u64::try_from(announced)
        .ok()
        .filter(|_| announced <= MAX_HANDSHAKE_FRAME_BYTES)
        .ok_or(Malformed::Length(announced))?;
    // The announced length is untrusted, so nothing is allocated for it.
    let mut body = Vec::new();
    let received = stream.take(length).read_to_end(&mut body).await?;
    if u64::try_from(received) == Ok(length) {
        Ok(body)
    } else {
        Err(io::Error::from(ErrorKind::UnexpectedEof).into())
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for HandshakeError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}
