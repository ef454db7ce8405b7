//! One HTTP/1.1 connection to one member.
//!
//! Touches sockets and the resolver. Start with [`Connection::open`]. A connection has no task of
//! its own: it makes progress only while a request or a read of its stream is awaited. So dropping
//! the future of a request and the connection abandons both.

use crate::config::Endpoint;
use crate::process::clock::Clock;
use crate::process::resolver::{LookupError, Resolver};
use crate::store::etcd::refusal::MAX_ANSWER_BYTES;
use crate::store::line_buffer::LineBuffer;
use baton_election::instant::Instant;
use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::consume_budget;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use uuid::Uuid;

/// Ends a watch with an error when its member loses the leader.
const HAS_LEADER: &str = "grpc-metadata-hasleader";

/// A socket, with or without TLS.
trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

type Driver = http1::Connection<TokioIo<Box<dyn Socket>>, Full<Bytes>>;

/// An open connection.
pub(super) struct Connection {
    endpoint: Endpoint,
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<Pin<Box<Driver>>>,
}

/// An answer.
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// An answer whose lines arrive over time.
pub(crate) struct LineStream {
    connection: Connection,
    body: Incoming,
    buffer: LineBuffer,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("{0} has no address: check the name and the resolver")]
    Resolve(Endpoint, #[source] LookupError),
    #[error("cannot connect to {0}")]
    Connect(Endpoint, #[source] io::Error),
    #[error(
        "TLS handshake with {0} failed: its certificate must name that host and be signed by an \
         authority in --etcd-ca-file, and it may require --etcd-cert-file"
    )]
    Tls(Endpoint, #[source] io::Error),
    #[error("{0} did not accept a connection within {1:?}")]
    Timeout(Endpoint, Duration),
    #[error(
        "{0} does not answer in HTTP/1.1: if etcd has --listen-client-http-urls, name that URL; if \
         it uses TLS, write https://"
    )]
    NotHttp(Endpoint, #[source] hyper::Error),
    #[error("the connection to {0} broke")]
    Http(Endpoint, #[source] hyper::Error),
    #[error("the connection to {0} broke")]
    Body(Endpoint, #[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(
        "the answer of {0} exceeds {max} bytes: delete the key, or pass another --etcd-prefix",
        max = MAX_ANSWER_BYTES
    )]
    TooLarge(Endpoint),
    #[error("{0} ended the stream")]
    Ended(Endpoint),
}

impl Connection {
    /// Connects to an address of `endpoint` within `max_wait`.
    pub(super) async fn open(
        endpoint: &Endpoint,
        tls: Option<&TlsConnector>,
        resolver: &Resolver,
        max_wait: Duration,
    ) -> Result<Self, ConnectionError> {
        let deadline = Clock.now() + max_wait;
        let mut addresses = resolver
            .look_up(&endpoint.host, max_wait)
            .await
            .map_err(|error| ConnectionError::Resolve(endpoint.clone(), error))?;
        // The first address of a name may be that of a member without power, for days.
        addresses.sort_by_cached_key(|_| Uuid::new_v4());
        Self::try_addresses(endpoint, &addresses, tls, deadline).await
    }

    /// Connects to the first of `addresses` that accepts a connection. Each but the last may take
    /// half of the time that is left. The error is that of the last one.
    async fn try_addresses(
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
        tls: Option<&TlsConnector>,
        deadline: Instant,
    ) -> Result<Self, ConnectionError> {
        let mut tried = Err(ConnectionError::Timeout(endpoint.clone(), Duration::ZERO));
        for (index, address) in addresses.iter().enumerate() {
            let left = deadline.since(Clock.now());
            let max_wait = if index + 1 < addresses.len() { left / 2 } else { left };
            let address = SocketAddr::new(address.ip(), endpoint.port);
            tried = match timeout(max_wait, Self::connect(endpoint, address, tls)).await {
                Ok(connected) => connected,
                Err(_elapsed) => Err(ConnectionError::Timeout(endpoint.clone(), max_wait)),
            };
            if tried.is_ok() {
                break;
            }
        }
        tried
    }

    async fn connect(
        endpoint: &Endpoint,
        address: SocketAddr,
        tls: Option<&TlsConnector>,
    ) -> Result<Self, ConnectionError> {
        let failed = |error| ConnectionError::Connect(endpoint.clone(), error);
        let tcp = TcpStream::connect(address).await.map_err(failed)?;
        // A request is one small write, which must not wait for an acknowledgement.
        tcp.set_nodelay(true).map_err(failed)?;
        SockRef::from(&tcp).set_tcp_keepalive(&keepalive()).map_err(failed)?;
        let socket: Box<dyn Socket> = match tls {
            None => Box::new(tcp),
            Some(tls) => {
                let failed = |error| ConnectionError::Tls(endpoint.clone(), error);
                let name = ServerName::try_from(endpoint.host.clone())
                    .map_err(|error| failed(io::Error::other(error)))?;
                Box::new(tls.connect(name, tcp).await.map_err(failed)?)
            }
        };
        let (sender, driver) = http1::handshake(TokioIo::new(socket))
            .await
            .map_err(|error| ConnectionError::Http(endpoint.clone(), error))?;
        Ok(Self { endpoint: endpoint.clone(), sender, driver: Some(Box::pin(driver)) })
    }

    /// Whether another request can be sent. Notices if the member has closed the connection.
    pub(super) fn is_reusable(&mut self) -> bool {
        let has_ended = match &mut self.driver {
            Some(driver) => driver.as_mut().now_or_never().is_some(),
            None => true,
        };
        if has_ended {
            self.driver = None;
        }
        !has_ended && self.sender.is_ready()
    }

    /// Sends one request and reads its whole answer.
    pub(super) async fn post(
        &mut self,
        path: &'static str,
        token: Option<&str>,
        body: Vec<u8>,
    ) -> Result<HttpAnswer, ConnectionError> {
        let request = self.request(path, token, body);
        let response = self.send(request).await?;
        let status = response.status().as_u16();
        let endpoint = self.endpoint.clone();
        let collecting = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect();
        match drive(&mut self.driver, collecting).await {
            Ok(body) => Ok(HttpAnswer { status, body: body.to_bytes() }),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(ConnectionError::TooLarge(endpoint))
            }
            Err(error) => Err(ConnectionError::Body(endpoint, error)),
        }
    }

    /// Sends one request whose answer is a stream of lines. An answer other than 200 is read whole.
    pub(super) async fn stream(
        mut self,
        path: &'static str,
        token: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Result<LineStream, HttpAnswer>, ConnectionError> {
        let mut request = self.request(path, token, body);
        request.headers_mut().insert(HAS_LEADER, "true".parse().expect("it is ASCII"));
        let response = self.send(request).await?;
        let status = response.status();
        let mut stream = LineStream {
            connection: self,
            body: response.into_body(),
            buffer: LineBuffer::default(),
        };
        if status.is_success() {
            return Ok(Ok(stream));
        }
        let mut body = Vec::new();
        while let Ok(line) = stream.next().await {
            body.extend(line);
            if body.len() > MAX_ANSWER_BYTES {
                break;
            }
        }
        body.extend(stream.buffer.take_rest());
        Ok(Err(HttpAnswer { status: status.as_u16(), body: body.into() }))
    }

    fn request(
        &self,
        path: &'static str,
        token: Option<&str>,
        body: Vec<u8>,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::post(path)
            .header(HOST, self.endpoint.authority())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .expect("the path and the host of a URL are valid in a request");
        // etcd's tokens are printable. Without a valid one, etcd refuses the request.
        if let Some(token) = token.and_then(|token| token.parse().ok()) {
            request.headers_mut().insert(AUTHORIZATION, token);
        }
        request
    }

    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ConnectionError> {
        let endpoint = &self.endpoint;
        drive(&mut self.driver, self.sender.send_request(request)).await.map_err(|error| {
            if error.is_parse() {
                ConnectionError::NotHttp(endpoint.clone(), error)
            } else {
                ConnectionError::Http(endpoint.clone(), error)
            }
        })
    }
}

impl LineStream {
    /// The next line. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, ConnectionError> {
        let endpoint = &self.connection.endpoint;
        // Many lines may arrive at once, and other tasks must run between them.
        consume_budget().await;
        loop {
            if let Some(line) = self.buffer.take_line() {
                return Ok(line);
            }
            if self.buffer.len() > MAX_ANSWER_BYTES {
                return Err(ConnectionError::TooLarge(endpoint.clone()));
            }
            let frame = self.body.frame().map(Option::transpose);
            match drive(&mut self.connection.driver, frame).await {
                Ok(Some(frame)) => self.buffer.extend(&frame.into_data().unwrap_or_default()),
                Ok(None) => return Err(ConnectionError::Ended(endpoint.clone())),
                Err(error) => return Err(ConnectionError::Http(endpoint.clone(), error)),
            }
        }
    }
}

/// The kernel's probes of a silent peer. A follower's connection may be silent for days: without
/// probes, a firewall forgets it, and a release finds it dead.
fn keepalive() -> TcpKeepalive {
    let (idle, interval) = (Duration::from_secs(10), Duration::from_secs(5));
    TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(3)
}

/// Awaits `work` while the connection makes progress.
async fn drive<T>(driver: &mut Option<Pin<Box<Driver>>>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Some(open) = driver {
        tokio::select! {
            biased;
            done = &mut work => return done,
            // The connection's error, if any, is also the result of the work.
            _ended = open => {}
        }
        *driver = None;
    }
    work.await
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket as RawSocket, Type};
    use std::net::{Ipv4Addr, TcpListener, TcpStream as StdTcpStream};

    /// An address that never accepts a connection: its queue is full.
    fn silent_address() -> (RawSocket, SocketAddr, Vec<StdTcpStream>) {
        let listener = RawSocket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let fill = || StdTcpStream::connect_timeout(&address, Duration::from_millis(100));
        let queued = std::iter::from_fn(|| fill().ok()).collect();
        (listener, address, queued)
    }

    #[tokio::test]
    async fn silent_address_leaves_time_for_the_others_of_a_name() {
        // The same port on another address of this machine.
        let (_listener, silent, _queued) = silent_address();
        let member = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), silent.port())).unwrap();
        let endpoint: Endpoint = format!("http://etcd:{}", silent.port()).parse().unwrap();
        let addresses = [silent, member.local_addr().unwrap()];
        let deadline = Clock.now() + Duration::from_secs(2);
        let connected = Connection::try_addresses(&endpoint, &addresses, None, deadline).await;
        assert!(connected.is_ok(), "{:?}", connected.err());
        assert!(Clock.now() < deadline, "the silent address took all the time");
    }

    #[tokio::test]
    async fn many_lines_at_once_do_not_delay_other_tasks() {
        let member = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = member.local_addr().unwrap().port();
        let endpoint: Endpoint = format!("http://127.0.0.1:{port}").parse().unwrap();
        let serve = async {
            let (mut socket, _) = member.accept().await.unwrap();
            let body = "{\"result\":{}}\n".repeat(30_000);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let answer = head + &body;
            tokio::io::AsyncWriteExt::write_all(&mut socket, answer.as_bytes()).await.unwrap();
            socket
        };
        let read = async {
            let (resolver, max_wait) = (Resolver::default(), Duration::from_secs(10));
            let open = Connection::open(&endpoint, None, &resolver, max_wait).await;
            let stream = open.unwrap().stream("/v3/watch", None, Vec::new()).await.unwrap();
            let Ok(mut stream) = stream else { panic!("the status is 200") };
            let mut polls = 0_u32;
            let reading = async { while stream.next().await.is_ok() {} };
            let mut reading = pin!(reading);
            std::future::poll_fn(|context| {
                polls += 1;
                reading.as_mut().poll(context)
            })
            .await;
            polls
        };
        let (_socket, polls) = tokio::join!(serve, read);
        assert!(polls > 100, "30,000 lines were read in {polls} polls");
    }
}
