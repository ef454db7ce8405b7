//! etcd's API through the JSON gateway of its members, over HTTP/1.1.
//!
//! Touches sockets and files. Start with [`Gateway`]. A call sends its request once. If it gets no
//! answer, the next call uses the next member, over a new connection. If etcd refuses the token,
//! the call gets another one and sends its request again, because the first was not applied.
//!
//! A write is sent only over a connection whose member has answered a read, so that none reaches
//! another cluster.

use crate::config::{Endpoint, EtcdConfig};
use crate::process::clock::Clock;
use crate::process::resolver::Resolver;
use crate::store::etcd::api::{EtcdApi, Purpose, WatchLines};
use crate::store::etcd::cluster::{Membership, Moves, PinnedCluster};
use crate::store::etcd::connection::{Connection, ConnectionError, HttpAnswer, LineStream};
use crate::store::etcd::files::{EtcdFiles, EtcdFilesError};
use crate::store::etcd::messages::{
    self, Answer, InvalidAnswer, KeyValue, Txn, TxnOutcome, range_answer, range_request,
    txn_answer, watch_request,
};
use crate::store::etcd::refusal::{ConnectionErrors, EtcdError, Failure};
use baton_election::timing::Timing;
use hyper::body::Bytes;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::time::timeout;

const RANGE: &str = "/v3/kv/range";
const TXN: &str = "/v3/kv/txn";

/// The members of one cluster.
pub(crate) struct Gateway {
    endpoints: Vec<Endpoint>,
    files: EtcdFiles,
    resolver: Resolver,
    /// The member to ask next.
    current: Cell<usize>,
    /// A connection, between two calls.
    idle: RefCell<Option<OpenConnection>>,
    authentication: RefCell<Authentication>,
    cluster: RefCell<PinnedCluster>,
    /// How long one member may take to accept a connection.
    connect_timeout: Duration,
}

/// The state of the token that goes with each request.
enum Authentication {
    /// There is no token yet, or it was refused.
    Needed,
    /// No user is configured, or etcd knows none.
    Off,
    /// This token.
    Token(String),
}

/// A connection to the member `at`.
struct OpenConnection {
    at: usize,
    connection: Connection,
    /// Whether that member has answered over it, as one of the pinned cluster.
    has_answered: bool,
}

/// A request with an answer.
struct Request {
    path: &'static str,
    body: Vec<u8>,
    moves: Moves,
}

impl Gateway {
    /// Reads the files of `config`.
    pub(super) async fn open(config: &EtcdConfig, timing: &Timing) -> Result<Self, EtcdFilesError> {
        let files = EtcdFiles::open(config.user_file.clone(), config.tls.clone()).await?;
        let needs_token = files.has_user_file();
        let authentication = if needs_token { Authentication::Needed } else { Authentication::Off };
        Ok(Self {
            endpoints: config.endpoints.clone(),
            files,
            resolver: Resolver::default(),
            current: Cell::new(0),
            idle: RefCell::default(),
            authentication: RefCell::new(authentication),
            cluster: PinnedCluster::new(config.endpoints.len(), timing.lease_duration()).into(),
            connect_timeout: timing.call_timeout() / 3,
        })
    }

    /// Learns the cluster of each endpoint by reading `key`. Fails if two endpoints differ. An
    /// endpoint without an answer within its share of `max_wait` is not compared: members may be
    /// down, and the machine's reads report that.
    pub(super) async fn compare_clusters(
        &self,
        key: &str,
        max_wait: Duration,
    ) -> Result<(), EtcdError> {
        let count = u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX);
        for at in 0..self.endpoints.len() {
            let asked = timeout(max_wait / count, self.ask(at, key)).await;
            if let Ok(Err(error @ EtcdError::OtherCluster { .. })) = asked {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads `key` through this endpoint. Keeps the first connection that carried an answer.
    async fn ask(&self, at: usize, key: &str) -> Result<(), EtcdError> {
        let connection = self.connect(at).await.map_err(EtcdError::NoAnswer)?;
        let open = OpenConnection { at, connection, has_answered: false };
        let request = Request::read_for_write(key);
        let (_, open) = self.exchange(open, request, range_answer).await?;
        self.idle.borrow_mut().get_or_insert(open);
        Ok(())
    }

    /// Sends one request over `open`, and parses its answer. Returns the connection if the answer
    /// is good.
    async fn exchange<T>(
        &self,
        mut open: OpenConnection,
        request: Request,
        parse: impl FnOnce(&[u8]) -> Result<Answer<T>, InvalidAnswer>,
    ) -> Result<(Answer<T>, OpenConnection), EtcdError> {
        let at = open.at;
        // Stays unless the answer is good: the driver may drop this call at any await.
        self.current.set((at + 1) % self.endpoints.len());
        let answer = self.post(&mut open.connection, request.path, request.body).await;
        let endpoint = self.endpoints[at].to_string();
        let body = match answer {
            Ok(body) => body,
            Err(error) => return Err(error.into_error(endpoint)),
        };
        let answer = parse(&body)
            .map_err(|source| EtcdError::NotEtcd { endpoint: endpoint.clone(), source })?;
        let found = answer.cluster_id;
        match self.cluster.borrow_mut().admit(at, found, Clock.now(), request.moves) {
            Membership::Pinned => {}
            Membership::Moved { from } => log_move(from, found),
            Membership::Foreign { pinned } => {
                return Err(EtcdError::OtherCluster { endpoint, pinned, found });
            }
        }
        self.current.set(at);
        Ok((answer, OpenConnection { has_answered: true, ..open }))
    }

    /// Sends one request, and keeps the connection for the next one.
    async fn call<T>(
        &self,
        open: OpenConnection,
        request: Request,
        parse: impl FnOnce(&[u8]) -> Result<Answer<T>, InvalidAnswer>,
    ) -> Result<Answer<T>, EtcdError> {
        let (answer, open) = self.exchange(open, request, parse).await?;
        self.idle.replace(Some(open));
        Ok(answer)
    }

    /// A connection to the current member, or to the next one that accepts a connection. Nothing
    /// has been sent then, so trying another is no second attempt.
    async fn connection(&self) -> Result<OpenConnection, EtcdError> {
        if let Some(mut open) = self.idle.take()
            && open.connection.is_reusable()
        {
            return Ok(open);
        }
        let first = self.current.get();
        let mut failures = Vec::new();
        for at in (0..self.endpoints.len()).map(|step| (first + step) % self.endpoints.len()) {
            self.current.set((at + 1) % self.endpoints.len());
            match self.connect(at).await {
                Ok(connection) => {
                    return Ok(OpenConnection { at, connection, has_answered: false });
                }
                Err(error) => failures.push(error),
            }
        }
        Err(EtcdError::NoMember(ConnectionErrors(failures)))
    }

    async fn connect(&self, at: usize) -> Result<Connection, ConnectionError> {
        let secrets = self.files.reload(self.connect_timeout / 8).await;
        let tls = secrets.tls.as_ref();
        Connection::open(&self.endpoints[at], tls, &self.resolver, self.connect_timeout).await
    }

    /// Sends a request with a token, and once more with a new one if that was refused.
    async fn post(
        &self,
        connection: &mut Connection,
        path: &'static str,
        body: Vec<u8>,
    ) -> Result<Bytes, CallError> {
        let is_new = matches!(*self.authentication.borrow(), Authentication::Needed);
        let token = self.token(connection).await?;
        match accept(connection.post(path, token.as_deref(), body.clone()).await?) {
            Err(Failure::TokenRefused(_)) if self.files.has_user_file() && !is_new => {
                self.forget_token();
                let token = self.token(connection).await?;
                let answer = connection.post(path, token.as_deref(), body).await?;
                accept(answer).map_err(CallError::Failure)
            }
            Err(Failure::TokenRefused(text)) => {
                self.forget_token();
                Err(CallError::Failure(Failure::TokenRefused(text)))
            }
            answer => answer.map_err(CallError::Failure),
        }
    }

    /// The token to send. Gets one, over `connection`, if there is none.
    async fn token(&self, connection: &mut Connection) -> Result<Option<String>, CallError> {
        match &*self.authentication.borrow() {
            Authentication::Off => return Ok(None),
            Authentication::Token(token) => return Ok(Some(token.clone())),
            Authentication::Needed => {}
        }
        let secrets = self.files.reload(self.connect_timeout / 8).await;
        let Some(user) = &secrets.user else { return Ok(None) };
        let request = messages::authenticate_request(&user.name, &user.password);
        match accept(connection.post("/v3/auth/authenticate", None, request).await?) {
            Ok(body) => {
                let token = messages::authenticate_answer(&body).map_err(CallError::Invalid)?;
                self.authentication.replace(Authentication::Token(token.clone()));
                Ok(Some(token))
            }
            Err(Failure::AuthenticationOff) => {
                self.authentication.replace(Authentication::Off);
                Ok(None)
            }
            Err(failure) => Err(CallError::Failure(failure)),
        }
    }
}

impl Request {
    fn read_for_write(key: &str) -> Self {
        Self { path: RANGE, body: range_request(key, None), moves: Moves::Forbidden }
    }
}

impl EtcdApi for Gateway {
    type Lines = LineStream;

    async fn range(
        &self,
        key: &str,
        purpose: Purpose,
    ) -> Result<Answer<Option<KeyValue>>, EtcdError> {
        let (at, moves) = match purpose {
            Purpose::Machine => (None, Moves::Allowed),
            Purpose::Write => (None, Moves::Forbidden),
            Purpose::History(revision) => (Some(revision), Moves::Forbidden),
        };
        let request = Request { path: RANGE, body: range_request(key, at), moves };
        self.call(self.connection().await?, request, range_answer).await
    }

    async fn txn(&self, txn: &Txn<'_>) -> Result<Answer<TxnOutcome>, EtcdError> {
        let mut open = self.connection().await?;
        if !open.has_answered {
            let request = Request::read_for_write(txn.key);
            (_, open) = self.exchange(open, request, range_answer).await?;
        }
        let request = Request { path: TXN, body: txn.request(), moves: Moves::Forbidden };
        self.call(open, request, txn_answer).await
    }

    async fn watch(&self, key: &str, after: u64, attempt: usize) -> Result<LineStream, EtcdError> {
        let at = (self.current.get() + attempt) % self.endpoints.len();
        let opened = async {
            let mut connection = self.connect(at).await?;
            let token = self.token(&mut connection).await?;
            let request = watch_request(key, after);
            let stream = connection.stream("/v3/watch", token.as_deref(), request).await?;
            stream.map_err(|answer| CallError::Failure(Failure::of(answer.status, &answer.body)))
        };
        let error = match opened.await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        if matches!(error, CallError::Failure(Failure::TokenRefused(_))) {
            self.forget_token();
        }
        Err(error.into_error(self.endpoints[at].to_string()))
    }

    fn hears(&self, cluster_id: u64) -> bool {
        self.cluster.borrow_mut().hears(cluster_id)
    }

    fn forget_token(&self) {
        if self.files.has_user_file() {
            self.authentication.replace(Authentication::Needed);
        }
    }

    fn location(&self) -> String {
        self.endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",")
    }
}

impl WatchLines for LineStream {
    async fn next_line(&mut self) -> Option<Vec<u8>> {
        self.next().await.ok()
    }
}

/// Why a member did not do what was asked.
enum CallError {
    Connection(ConnectionError),
    Failure(Failure),
    Invalid(InvalidAnswer),
}

impl CallError {
    fn into_error(self, endpoint: String) -> EtcdError {
        match self {
            Self::Connection(source @ ConnectionError::TooLarge(_)) => EtcdError::TooLarge(source),
            Self::Connection(source) => EtcdError::NoAnswer(source),
            Self::Failure(failure) => failure.into_error(endpoint),
            Self::Invalid(source) => EtcdError::NotEtcd { endpoint, source },
        }
    }
}

impl From<ConnectionError> for CallError {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}

fn log_move(from: u64, to: u64) {
    tracing::warn!(
        event = "cluster_replaced",
        "the endpoints lead to another cluster ({to:x}) than before ({from:x}), for example after a \
         restore: fencing tokens may be smaller than used ones"
    );
}

/// The body of an answer, if it is a good one.
fn accept(answer: HttpAnswer) -> Result<Bytes, Failure> {
    match answer.status {
        200 => Ok(answer.body),
        status => Err(Failure::of(status, &answer.body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_election::timing::Drift;
    use futures_util::FutureExt as _;
    use std::convert::Infallible;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    /// Reads the start of each request, counts it, and closes the connection without an answer.
    async fn drop_requests(member: &TcpListener, requests: &Cell<u32>) -> Infallible {
        loop {
            let (mut connection, _) = member.accept().await.unwrap();
            if connection.read(&mut [0; 64]).await.is_ok_and(|length| length > 0) {
                requests.set(requests.get() + 1);
            }
        }
    }

    /// Listeners in place of this many members, and a gateway to them.
    async fn gateway<const N: usize>() -> ([TcpListener; N], Gateway) {
        let members = std::array::from_fn(|_| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            TcpListener::from_std(listener).unwrap()
        });
        let url = |member: &TcpListener| format!("http://{}", member.local_addr().unwrap());
        let config = EtcdConfig {
            endpoints: members.iter().map(|member| url(member).parse().unwrap()).collect(),
            prefix: "/baton".to_owned(),
            user_file: None,
            tls: None,
        };
        let durations = Timing::suggestion(Duration::from_mins(1), Drift::default());
        let timing = Timing::new(durations, Drift::default()).unwrap();
        let gateway = Gateway::open(&config, &timing).await.unwrap();
        (members, gateway)
    }

    /// Answers a read over `connection`, once it has arrived.
    async fn answer(connection: &mut TcpStream) {
        assert_ne!(connection.read(&mut [0; 4096]).await.unwrap(), 0);
        let body = r#"{"header":{"cluster_id":"7","revision":"6"}}"#;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        connection.write_all((head + body).as_bytes()).await.unwrap();
    }

    /// While a renewal uses the connection, the check of the history connects to the next member.
    #[tokio::test]
    async fn connection_between_two_calls_keeps_its_member() {
        let (members, gateway) = gateway::<3>().await;
        let read = || Box::pin(gateway.range("r", Purpose::Machine));
        let (mut connection, _) = {
            let accepted = async {
                let mut accepted = members[0].accept().await.unwrap();
                answer(&mut accepted.0).await;
                accepted
            };
            tokio::join!(accepted, async { read().await.unwrap() }).0
        };
        let (mut renewal, mut check) = (read(), read());
        assert!(renewal.as_mut().now_or_never().is_none(), "it waits for its answer");
        assert!(check.as_mut().now_or_never().is_none(), "it connects");
        tokio::join!(answer(&mut connection), async { renewal.await.unwrap() });
        tokio::select! {
            _ = check => panic!("the member is silent"),
            accepted = async { members[1].accept().await?.0.read(&mut [0; 64]).await } => {
                assert_ne!(accepted.unwrap(), 0, "its request has arrived");
            }
        }
        let silence = async {
            assert_ne!(connection.read(&mut [0; 64]).await.unwrap(), 0, "it is used again");
            drop(connection);
        };
        let ((), unanswered) = tokio::join!(silence, read());
        assert!(unanswered.is_err());
        assert_eq!(gateway.current.get(), 1, "the member after that one is next");
    }

    /// The request may have been applied, so the machine decides what comes next.
    #[tokio::test]
    async fn request_without_an_answer_is_sent_once() {
        let (members, gateway) = gateway::<2>().await;
        let requests = [Cell::new(0), Cell::new(0)];
        for expected in [[1, 0], [1, 1], [2, 1]] {
            let answer = tokio::select! {
                answer = gateway.range("r", Purpose::Machine) => answer,
                never = drop_requests(&members[0], &requests[0]) => match never {},
                never = drop_requests(&members[1], &requests[1]) => match never {},
            };
            assert!(answer.is_err());
            let counted = [requests[0].get(), requests[1].get()];
            assert_eq!(counted, expected, "the next call asks the next member");
        }
    }
}
