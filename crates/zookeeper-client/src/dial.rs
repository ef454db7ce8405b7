//! From an address to a granted session: TCP, TLS, the first words, credentials.
//!
//! Touches sockets. One attempt reaches one address; the caller decides how often. What is read
//! here is read to the byte, so that the stream can be handed on.

use crate::credentials::Credential;
use crate::digest_md5::{Exchange, SaslError};
use crate::jute::{Malformed, Reader};
use crate::requests::Sasl;
use crate::resolve::LookupError;
use crate::servers::Host;
use crate::tls::Tls;
use crate::wire;
use crate::wire::{Code, Grant, Received, Request as _};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;

/// The longest frame that anything before the first request can need.
const LONGEST_FIRST_FRAME: i32 = 64 << 10;

/// A connection, with TLS or without.
pub type Stream = Box<dyn Duplex>;

/// Both directions of a connection.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// What to say to every server.
#[derive(Debug)]
pub struct Dialer {
    /// How TLS is spoken, where it is.
    pub tls: Option<Tls>,
    /// What to show.
    pub credentials: Vec<Credential>,
}

/// The session to ask for.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// The one that was granted before; none for a new one.
    pub before: Option<&'a Grant>,
    /// The time-out to ask for.
    pub timeout: Duration,
    /// The last transaction that we know of.
    pub last_zxid: i64,
}

/// Why an attempt brought no session.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name has no address.
    #[error("{0} has no address: see whether the name is right and the resolver answers")]
    Resolve(Host, #[source] LookupError),
    /// Nobody there.
    #[error("{0} cannot be connected to")]
    Connect(Host, #[source] io::Error),
    /// No TLS with this server.
    #[error(
        "{0} and we cannot agree on TLS: its port must be the secure one, and its certificate must name {name:?} and come \
         from the authority in --zookeeper-ca-file",
        name = .0.name
    )]
    Tls(Host, #[source] io::Error),
    /// The server listens and grants nothing.
    #[error(
        "{0} grants no session: it may be without a quorum, speak TLS only (--zookeeper-ca-file), want a certificate of ours \
         (--zookeeper-cert-file), or know less than we do"
    )]
    Ungranted(Host, #[source] io::Error),
    /// The server took too long.
    #[error("{0} did not grant a session within {1:?}")]
    Slow(Host, Duration),
    /// The server is something else.
    #[error("{0} does not speak ZooKeeper's protocol")]
    Protocol(Host, #[source] Malformed),
    /// The credentials are not accepted.
    #[error("{host} refuses the {scheme} credentials of --zookeeper-auth-file")]
    Refused {
        /// The server.
        host: Host,
        /// The scheme of the credentials.
        scheme: String,
        /// Why.
        source: Refused,
    },
}

/// Why credentials are not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The server says so.
    #[error(transparent)]
    Server(Code),
    /// The exchange failed.
    #[error(transparent)]
    Sasl(#[from] SaslError),
}

/// What can go wrong on an open connection.
enum Broken {
    Io(io::Error),
    Malformed(Malformed),
    Refused(String, Refused),
}

impl Dialer {
    /// Asks the server at `address`, which `host` stands for, for a session; `None` when the one asked for is over.
    pub async fn dial(
        &self,
        host: &Host,
        address: SocketAddr,
        wish: Wish<'_>,
        within: Duration,
    ) -> Result<Option<(Stream, Grant)>, DialError> {
        timeout(within, self.attempt(host, address, wish)).await.unwrap_or_else(|_elapsed| {
            Err(DialError::Slow(host.clone(), whole_milliseconds(within)))
        })
    }

    async fn attempt(
        &self,
        host: &Host,
        address: SocketAddr,
        wish: Wish<'_>,
    ) -> Result<Option<(Stream, Grant)>, DialError> {
        let socket = TcpStream::connect(address)
            .await
            .map_err(|error| DialError::Connect(host.clone(), error))?;
        // What has not gone out when a connection is given up must not go out later, when nobody waits for it.
        socket
            .set_nodelay(true)
            .and_then(|()| socket.set_zero_linger())
            .map_err(|error| DialError::Connect(host.clone(), error))?;
        let mut stream: Stream = match &self.tls {
            None => Box::new(socket),
            Some(tls) => {
                let secured = tls.secure(&host.name, socket).await;
                Box::new(secured.map_err(|error| DialError::Tls(host.clone(), error))?)
            }
        };
        let granted = self.introduce(&mut stream, wish).await.map_err(|broken| match broken {
            Broken::Io(error) => DialError::Ungranted(host.clone(), error),
            Broken::Malformed(error) => DialError::Protocol(host.clone(), error),
            Broken::Refused(scheme, source) => {
                DialError::Refused { host: host.clone(), scheme, source }
            }
        })?;
        Ok(granted.map(|grant| (stream, grant)))
    }

    /// The first words: the session, then credentials, before anything that they are needed for.
    async fn introduce(
        &self,
        stream: &mut Stream,
        wish: Wish<'_>,
    ) -> Result<Option<Grant>, Broken> {
        send(stream, &wire::hello(wish.before, wish.timeout, wish.last_zxid)).await?;
        let Some(grant) = wire::welcome(&receive(stream).await?)? else {
            return Ok(None);
        };
        for credential in &self.credentials {
            let refused =
                |refused: Refused| Broken::Refused(credential.scheme().to_owned(), refused);
            match credential {
                Credential::Plain { scheme, secret } => {
                    send(stream, &wire::auth(scheme, secret)).await?;
                    answer(&receive(stream).await?)?
                        .map_err(|code| refused(Refused::Server(code)))?;
                }
                Credential::Sasl { user, password } => {
                    let challenge = sasl(stream, Vec::new())
                        .await?
                        .map_err(|code| refused(Refused::Server(code)))?;
                    let nonce = Uuid::new_v4().simple().to_string();
                    let exchange = Exchange::respond(user, password, &challenge, &nonce);
                    let exchange = exchange.map_err(|error| refused(error.into()))?;
                    let last = sasl(stream, exchange.response.clone().into_bytes()).await?;
                    let last = last.map_err(|code| refused(Refused::Server(code)))?;
                    exchange.verify(&last).map_err(|error| refused(error.into()))?;
                }
            }
        }
        Ok(Some(grant))
    }
}

/// For people: an attempt's share of the time has digits down to the nanosecond.
fn whole_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// One step of SASL, and the server's.
async fn sasl(stream: &mut Stream, token: Vec<u8>) -> Result<Result<Vec<u8>, Code>, Broken> {
    let step = Sasl(token);
    send(stream, &wire::ask(0, &step)).await?;
    let body = receive(stream).await?;
    match answer(&body)? {
        Ok(reply) => Ok(Ok(step.decode(&mut Reader::new(reply))?)),
        Err(code) => Ok(Err(code)),
    }
}

/// The body of an answer, or why there is none.
fn answer(body: &[u8]) -> Result<Result<&[u8], Code>, Broken> {
    match wire::received(body)? {
        (Received::Reply(_, result), _) => Ok(result),
        (Received::Fired, _) => Err(Malformed::Unasked(0).into()),
    }
}

async fn send(stream: &mut Stream, frame: &[u8]) -> Result<(), Broken> {
    stream.write_all(frame).await?;
    Ok(stream.flush().await?)
}

async fn receive(stream: &mut Stream) -> Result<Vec<u8>, Broken> {
    let told = stream.read_i32().await?;
    let length = u64::try_from(told)
        .ok()
        .filter(|_| told <= LONGEST_FIRST_FRAME)
        .ok_or(Malformed::Length(told))?;
    // Nothing is set aside for a length that was merely told.
    let mut body = Vec::new();
    let came = stream.take(length).read_to_end(&mut body).await?;
    if u64::try_from(came) == Ok(length) {
        Ok(body)
    } else {
        Err(io::Error::from(ErrorKind::UnexpectedEof).into())
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for Broken {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}
