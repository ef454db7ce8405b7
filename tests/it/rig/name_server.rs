//! A DNS server for one test: one address for every name, with a chosen delay.
//!
//! It listens on port 53 of an address in 127.0.0.0/8, so the test must run as root.

use super::zookeeper::own_address;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the server checks whether it must stop.
const POLL: Duration = Duration::from_millis(50);

/// The type of a query for an IPv4 address.
const A: [u8; 2] = [0, 1];

pub(crate) struct NameServer {
    pub(super) ip: IpAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Answers every query for an IPv4 address with `address` after `delay`; `None` never answers.
    pub(crate) fn start(address: Ipv4Addr, delay: Option<Duration>) -> Self {
        let ip = own_address();
        let socket =
            UdpSocket::bind((ip, 53)).expect("the test runs as root, and this address is its own");
        socket.set_read_timeout(Some(POLL)).expect("the timeout is not zero");
        let is_over = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_over);
        let thread = thread::spawn(move || serve(&Arc::new(socket), address, delay, &shared));
        Self { ip, is_over, thread: Some(thread) }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("it is dropped once").join();
        assert!(ended.is_ok() || thread::panicking(), "the name server panicked");
    }
}

fn serve(
    socket: &Arc<UdpSocket>,
    address: Ipv4Addr,
    delay: Option<Duration>,
    is_over: &AtomicBool,
) {
    let mut query = [0; 512];
    while !is_over.load(Ordering::Relaxed) {
        let (length, from) = match socket.recv_from(&mut query) {
            Ok(received) => received,
            // A late answer to a closed socket comes back as a refusal.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) =>
            {
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let Some(delay) = delay else { continue };
        let (answer, socket) = (answer(&query[..length], address), Arc::clone(socket));
        thread::spawn(move || {
            thread::sleep(delay);
            // The client may be gone.
            socket.send_to(&answer, from).ok();
        });
    }
}

/// The response to a query (RFC 1035, section 4): the query's own bytes, and an address if it asks
/// for one.
fn answer(query: &[u8], address: Ipv4Addr) -> Vec<u8> {
    let name: usize = query[12..].iter().position(|length| *length == 0).expect("a name ends");
    let end = 12 + name + 5;
    let is_for_address = query[end - 4..end - 2] == A;
    let mut answer = query[..end].to_vec();
    // A response with recursion available: one query, at most one answer.
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, is_for_address.into(), 0, 0, 0, 0]);
    if is_for_address {
        // The name in the query, type A, class IN, a TTL of zero, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    answer
}
