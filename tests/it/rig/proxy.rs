//! A TCP proxy between a candidate and its store, or between two servers of one. It understands nothing of what it passes,
//! so TLS reaches from end to end, and each direction can be held, emptied or closed while connections are open. Where a
//! test says which bytes it waits for, requests are held from there on.

mod tests;

use super::lock;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem::take;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a pump waits for bytes before it looks at its orders again. Bytes themselves wake it at once.
const LOOK: Duration = Duration::from_millis(5);

/// How many looks the server may take to answer what was delivered late.
const LOOKS_FOR_AN_ANSWER: u32 = 1_000;

/// How the record begins by which TLS 1.3 announces the end, and how long it is as a whole.
const FAREWELL: (&[u8], usize) = (&[0x17, 3, 3, 0, 19], 24);

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Pass,
    /// They wait here, also after their sender is gone, and are delivered once they may pass: a late write.
    Hold,
    /// They vanish: replies to what was applied. A connection that lost some is closed once they may pass again.
    Lose,
    /// Each connection, old or new, is closed, and what waits in it is gone.
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Requests,
    Replies,
}

pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// What its threads share.
struct Shared {
    /// One lock for all: nothing that was cut may pass by an order that was given after the cut.
    orders: Mutex<Orders>,
    held: [AtomicUsize; 2],
}

struct Orders {
    target: SocketAddr,
    flows: [Flow; 2],
    cuts: usize,
    /// Whether what is closed is closed without a farewell (RST).
    abrupt: bool,
    /// How often the connections of the moment were forgotten.
    lapses: usize,
    /// With these bytes in a request, requests begin to be held.
    hold_at: Option<Vec<u8>>,
    over: bool,
}

impl Orders {
    /// How many cuts and lapses there were until now.
    const fn moment(&self) -> (usize, usize) {
        (self.cuts, self.lapses)
    }

    /// Looks at a request that has come in.
    fn hold_if_awaited(&mut self, request: &[u8]) {
        let awaited = self
            .hold_at
            .take_if(|awaited| request.windows(awaited.len()).any(|bytes| bytes == awaited));
        if awaited.is_some() {
            self.flows[Way::Requests as usize] = Flow::Hold;
        }
    }
}

impl Proxy {
    /// On a free port of 127.0.0.1.
    pub(crate) fn to(target: SocketAddr) -> Self {
        Self::on(Ipv4Addr::LOCALHOST.into(), target)
    }

    /// On another address: `::1`.
    pub(crate) fn on(address: IpAddr, target: SocketAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let flows = [Flow::Pass; 2];
        let orders =
            Orders { target, flows, cuts: 0, abrupt: false, lapses: 0, hold_at: None, over: false };
        let shared = Arc::new(Shared { orders: Mutex::new(orders), held: Default::default() });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, for open connections too.
    pub(crate) fn set(&self, way: Way, flow: Flow) {
        lock(&self.shared.orders).flows[way as usize] = flow;
    }

    /// Holds requests from the first one on that has these bytes in it.
    pub(crate) fn hold_at(&self, bytes: &[u8]) {
        lock(&self.shared.orders).hold_at = Some(bytes.to_owned());
    }

    /// How many bytes are held in this direction. What only passes is never among them.
    pub(crate) fn held(&self, way: Way) -> usize {
        self.shared.held[way as usize].load(Ordering::Relaxed)
    }

    /// Where new connections go: to a server that was restarted elsewhere.
    pub(crate) fn aim(&self, target: SocketAddr) {
        lock(&self.shared.orders).target = target;
    }

    /// Closes every connection that is open now, and what waits in it is gone.
    pub(crate) fn cut(&self) {
        lock(&self.shared.orders).cuts += 1;
    }

    /// The same, and both ends are told that there is no such connection (RST).
    pub(crate) fn reset(&self) {
        let mut orders = lock(&self.shared.orders);
        orders.cuts += 1;
        orders.abrupt = true;
    }

    /// Passes nothing more in the connections that are open now, not even their end: as a firewall does that has forgotten
    /// them.
    pub(crate) fn forget(&self) {
        lock(&self.shared.orders).lapses += 1;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        lock(&self.shared.orders).over = true;
        // A connection wakes the acceptor.
        drop(TcpStream::connect(self.address));
        let acceptor = self.acceptor.take().expect("it is dropped once");
        assert!(acceptor.join().is_ok() || thread::panicking(), "a proxy does not panic");
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
        // Where nobody listens, the client is closed as it is dropped.
        if let Ok(server) = TcpStream::connect(target) {
            pumps.extend(join_up(&client, &server, shared, since).expect("sockets can be cloned"));
        }
        pumps.retain(|pump: &JoinHandle<()>| !pump.is_finished());
    }
    for pump in pumps {
        pump.join().expect("a pump does not panic");
    }
}

fn join_up(
    client: &TcpStream,
    server: &TcpStream,
    shared: &Arc<Shared>,
    since: (usize, usize),
) -> io::Result<[JoinHandle<()>; 2]> {
    for stream in [client, server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
    }
    let answers = Arc::new(AtomicUsize::new(0));
    let pump = |from: &TcpStream, to: &TcpStream, way| {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (answers, shared) = (Arc::clone(&answers), Arc::clone(shared));
        io::Result::Ok(Pump {
            from,
            to,
            way,
            waiting: VecDeque::new(),
            told: 0,
            answers,
            since,
            shared,
        })
    };
    let pumps = [pump(client, server, Way::Requests)?, pump(server, client, Way::Replies)?];
    Ok(pumps.map(|pump| thread::spawn(move || pump.run())))
}

/// One direction of one connection.
struct Pump {
    from: TcpStream,
    to: TcpStream,
    way: Way,
    /// As they were read; an empty one is the end.
    waiting: VecDeque<Vec<u8>>,
    /// How many bytes of it are told to be held.
    told: usize,
    /// How often the server has answered in this connection.
    answers: Arc<AtomicUsize>,
    /// How many cuts and lapses there were before this connection.
    since: (usize, usize),
    shared: Arc<Shared>,
}

impl Pump {
    fn run(mut self) {
        if !matches!(self.pass_until_the_end(), Ok(true)) {
            let abrupt = lock(&self.shared.orders).abrupt;
            for stream in [&self.from, &self.to] {
                // They may be closed already. The kernel resets what is closed without patience.
                if abrupt {
                    SockRef::from(stream).set_linger(Some(Duration::ZERO)).ok();
                } else {
                    stream.shutdown(Shutdown::Both).ok();
                }
            }
        }
        while self.pop().is_some() {}
    }

    /// Returns whether the other direction may go on without this one.
    fn pass_until_the_end(&mut self) -> io::Result<bool> {
        let (mut ended, mut late, mut lost) = (false, false, false);
        loop {
            if ended {
                thread::sleep(LOOK);
            } else if let Some(bytes) = self.read() {
                ended = bytes.is_empty();
                if self.way == Way::Requests {
                    lock(&self.shared.orders).hold_if_awaited(&bytes);
                }
                self.waiting.push_back(bytes);
            }
            match self.order() {
                Flow::Hold => {
                    self.tell_held();
                    late = true;
                }
                Flow::Lose => {
                    while self.pop().is_some() {
                        lost = true;
                    }
                }
                Flow::Close => return Ok(false),
                Flow::Pass if lost => return Ok(false),
                Flow::Pass => {
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

    /// A request that comes late comes as if its sender were still there. A server drops what it does for a client
    /// whose connection ends, so where it has ended, that and the record by which TLS announces it wait for an answer.
    fn deliver(&mut self, late: bool) -> io::Result<()> {
        let answers = self.answers.load(Ordering::Relaxed);
        let mut is_asked = false;
        while self.order() == Flow::Pass
            && let Some(bytes) = self.pop()
        {
            let (request, farewell) = bytes.split_at(farewell_in(&bytes));
            self.to.write_all(request)?;
            is_asked |= !request.is_empty();
            let is_over = bytes.is_empty() || !farewell.is_empty();
            if late && self.way == Way::Requests && is_over && take(&mut is_asked) {
                self.await_more_than(answers);
            }
            self.to.write_all(farewell)?;
        }
        Ok(())
    }

    fn await_more_than(&self, answers: usize) {
        for _ in 0..LOOKS_FOR_AN_ANSWER {
            if self.answers.load(Ordering::Relaxed) > answers || self.order() == Flow::Close {
                return;
            }
            thread::sleep(LOOK);
        }
    }

    fn order(&self) -> Flow {
        let orders = lock(&self.shared.orders);
        let (cuts, lapses) = self.since;
        if orders.over || orders.cuts != cuts {
            Flow::Close
        } else if orders.lapses != lapses {
            Flow::Lose
        } else {
            orders.flows[self.way as usize]
        }
    }

    fn read(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 16 * 1024];
        match self.from.read(&mut buffer) {
            Ok(length) => {
                self.answers.fetch_add((self.way == Way::Replies).into(), Ordering::Relaxed);
                Some(buffer[..length].to_vec())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                None
            }
            Err(_) => Some(Vec::new()), // whoever sent has gone, in whatever way
        }
    }

    fn tell_held(&mut self) {
        let waiting = self.waiting.iter().map(Vec::len).sum::<usize>();
        self.shared.held[self.way as usize].fetch_add(waiting - self.told, Ordering::Relaxed);
        self.told = waiting;
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let bytes = self.waiting.pop_front()?;
        // What is told is the front of what waits, so these bytes are among it as a whole or not at all.
        if self.told > 0 {
            self.told -= bytes.len();
            self.shared.held[self.way as usize].fetch_sub(bytes.len(), Ordering::Relaxed);
        }
        Some(bytes)
    }
}

/// Where in these bytes, as they came, the farewell begins; their end where there is none.
fn farewell_in(bytes: &[u8]) -> usize {
    let (begins, length) = FAREWELL;
    let at = bytes.len().saturating_sub(length);
    if bytes[at..].len() == length && bytes[at..].starts_with(begins) { at } else { bytes.len() }
}
