//! A TCP proxy between a candidate and its store, or between two servers.
//!
//! It interprets nothing, so TLS is end to end. A test can hold, drop, or close each direction
//! while connections are open, or hold requests from the first one that contains certain bytes.

mod flow;
mod pump;
mod tests;

use super::lock;
pub(crate) use flow::{Direction, Flow};
use pump::Pump;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a pump waits for bytes before it checks its orders again. Bytes wake it at once.
const POLL: Duration = Duration::from_millis(5);

pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// State that the proxy's threads share.
struct Shared {
    /// One lock for all: no bytes of a cut connection may pass because of a later order.
    orders: Mutex<Orders>,
    held: [AtomicUsize; 2],
    affected: AtomicUsize,
    carried: AtomicUsize,
}

struct Orders {
    target: SocketAddr,
    flows: [Flow; 2],
    cuts: usize,
    /// Whether connections are closed with a reset (RST).
    abrupt: bool,
    /// How often [`Proxy::blackhole`] was called.
    blackholes: usize,
    /// A request with these bytes changes the flow of requests to `Hold`.
    hold_at: Option<Vec<u8>>,
    over: bool,
}

impl Orders {
    /// How many cuts and blackholes there were so far.
    const fn moment(&self) -> (usize, usize) {
        (self.cuts, self.blackholes)
    }

    /// Applies `hold_at` to an incoming request.
    fn apply_hold_at(&mut self, request: &[u8]) {
        let awaited = self
            .hold_at
            .take_if(|awaited| request.windows(awaited.len()).any(|bytes| bytes == awaited));
        if awaited.is_some() {
            self.flows[Direction::Requests as usize] = Flow::Hold;
        }
    }
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1.
    pub(crate) fn to(target: SocketAddr) -> Self {
        Self::on(Ipv4Addr::LOCALHOST.into(), target)
    }

    /// Listens on another address, such as `::1`.
    pub(crate) fn on(address: IpAddr, target: SocketAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let flows = [Flow::Pass; 2];
        let orders = Orders {
            target,
            flows,
            cuts: 0,
            abrupt: false,
            blackholes: 0,
            hold_at: None,
            over: false,
        };
        let orders = Mutex::new(orders);
        let shared = Arc::new(Shared {
            orders,
            held: <_>::default(),
            affected: <_>::default(),
            carried: <_>::default(),
        });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the flow of one direction, for open connections too.
    pub(crate) fn set(&self, direction: Direction, flow: Flow) {
        lock(&self.shared.orders).flows[direction as usize] = flow;
    }

    /// Holds requests from the first one that contains these bytes.
    pub(crate) fn hold_at(&self, bytes: &[u8]) {
        lock(&self.shared.orders).hold_at = Some(bytes.to_owned());
    }

    /// How many bytes are held in this direction. Bytes that only pass are never counted.
    pub(crate) fn held(&self, direction: Direction) -> usize {
        self.shared.held[direction as usize].load(Ordering::Relaxed)
    }

    /// How many bytes and connections were treated in any other way than [`Flow::Pass`].
    pub(crate) fn affected(&self) -> usize {
        self.shared.affected.load(Ordering::Relaxed)
    }

    /// How many bytes both sides have sent.
    pub(crate) fn carried(&self) -> usize {
        self.shared.carried.load(Ordering::Relaxed)
    }

    /// Sends new connections to another server, such as one restarted on another port.
    pub(crate) fn retarget(&self, target: SocketAddr) {
        lock(&self.shared.orders).target = target;
    }

    /// Closes every open connection and drops its waiting bytes.
    pub(crate) fn cut(&self) {
        lock(&self.shared.orders).cuts += 1;
    }

    /// The same, with a reset (RST) to both ends.
    pub(crate) fn reset(&self) {
        let mut orders = lock(&self.shared.orders);
        orders.cuts += 1;
        orders.abrupt = true;
    }

    /// Silently drops everything in the open connections, even their end, like a firewall that has
    /// lost its state.
    pub(crate) fn blackhole(&self) {
        lock(&self.shared.orders).blackholes += 1;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        lock(&self.shared.orders).over = true;
        // A connection wakes the acceptor.
        drop(TcpStream::connect(self.address));
        let acceptor = self.acceptor.take().expect("it is dropped once");
        assert!(acceptor.join().is_ok() || thread::panicking(), "the proxy panicked");
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut pumps = Vec::new();
    for client in listener.incoming() {
        let (target, since) = {
            let orders = lock(&shared.orders);
            if orders.over {
                break;
            }
            (orders.target, orders.moment())
        };
        let client = client.expect("connections can be accepted");
        // If the server does not listen, dropping the client closes it.
        if let Ok(server) = TcpStream::connect(target) {
            pumps.extend(
                connect_pumps(&client, &server, shared, since).expect("sockets can be cloned"),
            );
        }
        pumps.retain(|pump: &JoinHandle<()>| !pump.is_finished());
    }
    for pump in pumps {
        pump.join().expect("the pump has not panicked");
    }
}

fn connect_pumps(
    client: &TcpStream,
    server: &TcpStream,
    shared: &Arc<Shared>,
    since: (usize, usize),
) -> io::Result<[JoinHandle<()>; 2]> {
    for stream in [client, server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(POLL))?;
    }
    let answers = Arc::new(AtomicUsize::new(0));
    let pump = |from: &TcpStream, to: &TcpStream, direction| {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (answers, shared) = (Arc::clone(&answers), Arc::clone(shared));
        io::Result::Ok(Pump {
            from,
            to,
            direction,
            waiting: VecDeque::new(),
            counted: 0,
            answers,
            since,
            shared,
        })
    };
    let pumps =
        [pump(client, server, Direction::Requests)?, pump(server, client, Direction::Replies)?];
    Ok(pumps.map(|pump| thread::spawn(move || pump.run())))
}
