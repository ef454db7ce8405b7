//! A TCP proxy between a candidate and its store, or between two servers.
//!
//! It interprets nothing, so TLS is end to end. A test can hold, drop, or close each direction
//! while connections are open, or hold requests from the first one that contains certain bytes.

mod flow;
mod tests;

use super::lock;
pub(crate) use flow::{Direction, Flow};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem::take;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a pump waits for bytes before it checks its orders again. Bytes wake it at once.
const POLL: Duration = Duration::from_millis(5);

/// How late bytes are under [`Flow::Delay`], at least: less than a call may take.
const DELAY: Duration = Duration::from_millis(150);

/// How often a pump checks for the server's answer to a late request.
const ANSWER_POLLS: u32 = 1_000;

/// The record that announces the end of TLS 1.3: its first bytes, and its length.
const CLOSE_NOTIFY: (&[u8], usize) = (&[0x17, 3, 3, 0, 19], 24);

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
        let shared = Arc::new(Shared { orders, held: <_>::default(), affected: <_>::default() });
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

/// One direction of one connection.
struct Pump {
    from: TcpStream,
    to: TcpStream,
    direction: Direction,
    /// The chunks in the order read; an empty one is the end of the stream.
    waiting: VecDeque<Vec<u8>>,
    /// How many of its bytes are counted as held.
    counted: usize,
    /// How often the server has answered on this connection.
    answers: Arc<AtomicUsize>,
    /// How many cuts and blackholes there were before this connection.
    since: (usize, usize),
    shared: Arc<Shared>,
}

impl Pump {
    fn run(mut self) {
        if !matches!(self.pass_until_the_end(), Ok(true)) {
            let abrupt = lock(&self.shared.orders).abrupt;
            for stream in [&self.from, &self.to] {
                // The sockets may be closed already. Closing with a zero linger sends a reset.
                if abrupt {
                    SockRef::from(stream).set_linger(Some(Duration::ZERO)).ok();
                } else {
                    stream.shutdown(Shutdown::Both).ok();
                }
            }
        }
        while self.pop().is_some() {}
    }

    /// Returns whether the other direction may continue without this one.
    fn pass_until_the_end(&mut self) -> io::Result<bool> {
        let (mut ended, mut late, mut lost) = (false, false, false);
        loop {
            if ended {
                thread::sleep(POLL);
            } else if let Some(bytes) = self.read() {
                ended = bytes.is_empty();
                if self.direction == Direction::Requests {
                    lock(&self.shared.orders).apply_hold_at(&bytes);
                }
                self.waiting.push_back(bytes);
            }
            match self.order() {
                Flow::Hold => {
                    self.count_held();
                    late = true;
                }
                Flow::Lose => {
                    while self.pop().is_some() {
                        lost = true;
                        self.count_affected(1);
                    }
                }
                Flow::Close => {
                    self.count_affected(1);
                    return Ok(false);
                }
                Flow::Truncate => {
                    if let Some(bytes) = self.pop() {
                        self.count_affected(1);
                        self.to.write_all(&bytes[..bytes.len() / 2])?;
                        return Ok(false);
                    }
                }
                Flow::Pass | Flow::Delay if lost => return Ok(false),
                flow @ (Flow::Pass | Flow::Delay) => {
                    if flow == Flow::Delay && !self.waiting.is_empty() {
                        self.count_affected(1);
                        thread::sleep(DELAY);
                    }
                    self.deliver(late)?;
                    late = false;
                    if ended && self.waiting.is_empty() {
                        self.to.shutdown(Shutdown::Write)?;
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Delivers a late request as if its sender were still there. A server abandons a request whose
    /// connection ends, so the end of the stream, and the TLS record that announces it, wait for an
    /// answer.
    fn deliver(&mut self, late: bool) -> io::Result<()> {
        let answers = self.answers.load(Ordering::Relaxed);
        let mut has_request = false;
        while matches!(self.order(), Flow::Pass | Flow::Delay)
            && let Some(bytes) = self.pop()
        {
            let (request, close_notify) = bytes.split_at(close_notify_in(&bytes));
            self.to.write_all(request)?;
            has_request |= !request.is_empty();
            let is_over = bytes.is_empty() || !close_notify.is_empty();
            if late && self.direction == Direction::Requests && is_over && take(&mut has_request) {
                self.await_more_than(answers);
            }
            self.to.write_all(close_notify)?;
        }
        Ok(())
    }

    fn await_more_than(&self, answers: usize) {
        for _ in 0..ANSWER_POLLS {
            if self.answers.load(Ordering::Relaxed) > answers || self.order() == Flow::Close {
                return;
            }
            thread::sleep(POLL);
        }
    }

    fn order(&self) -> Flow {
        let orders = lock(&self.shared.orders);
        let (cuts, blackholes) = self.since;
        if orders.over || orders.cuts != cuts {
            Flow::Close
        } else if orders.blackholes != blackholes {
            Flow::Lose
        } else {
            orders.flows[self.direction as usize]
        }
    }

    fn read(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 16 * 1024];
        match self.from.read(&mut buffer) {
            Ok(length) => {
                self.answers
                    .fetch_add((self.direction == Direction::Replies).into(), Ordering::Relaxed);
                Some(buffer[..length].to_vec())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                None
            }
            Err(_) => Some(Vec::new()), // the sender has gone, for whatever reason
        }
    }

    fn count_held(&mut self) {
        let waiting = self.waiting.iter().map(Vec::len).sum::<usize>();
        self.shared.held[self.direction as usize]
            .fetch_add(waiting - self.counted, Ordering::Relaxed);
        self.count_affected(waiting - self.counted);
        self.counted = waiting;
    }

    fn count_affected(&self, count: usize) {
        self.shared.affected.fetch_add(count, Ordering::Relaxed);
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let bytes = self.waiting.pop_front()?;
        // The counted bytes are at the front of the queue, so a chunk is counted entirely or not at
        // all.
        if self.counted > 0 {
            self.counted -= bytes.len();
            self.shared.held[self.direction as usize].fetch_sub(bytes.len(), Ordering::Relaxed);
        }
        Some(bytes)
    }
}

/// The index of the closing record at the end of these bytes; their length if there is none.
fn close_notify_in(bytes: &[u8]) -> usize {
    let (begins, length) = CLOSE_NOTIFY;
    let at = bytes.len().saturating_sub(length);
    if bytes[at..].len() == length && bytes[at..].starts_with(begins) { at } else { bytes.len() }
}
