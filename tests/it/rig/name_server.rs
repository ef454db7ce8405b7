//! A DNS server of a test's own: one address for every name, as late as the test wants.
//!
//! It listens at port 53 of an address of the loopback net, for which the test must run as root.

use super::zookeeper::own_address;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How soon it ends.
const TURN: Duration = Duration::from_millis(50);

/// The type of an IPv4 address.
const A: [u8; 2] = [0, 1];

pub(crate) struct NameServer {
    pub(super) ip: IpAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Answers every question for an IPv4 address with `address` after `delay`; never without one.
    pub(crate) fn start(address: Ipv4Addr, delay: Option<Duration>) -> Self {
        let ip = own_address();
        let socket = UdpSocket::bind((ip, 53))
            .expect("the test runs as root, and nobody else has this address");
        socket.set_read_timeout(Some(TURN)).expect("it is no zero");
        let is_over = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_over);
        let thread = thread::spawn(move || serve(&Arc::new(socket), address, delay, &shared));
        Self { ip, is_over, thread: Some(thread) }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("this is the only end").join();
        assert!(ended.is_ok() || thread::panicking(), "the name server panicked");
    }
}

fn serve(
    socket: &Arc<UdpSocket>,
    address: Ipv4Addr,
    delay: Option<Duration>,
    is_over: &AtomicBool,
) {
    let mut question = [0; 512];
    while !is_over.load(Ordering::Relaxed) {
        let (length, from) = match socket.recv_from(&mut question) {
            Ok(received) => received,
            // An answer that came too late for its asker comes back as a refusal.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) =>
            {
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let Some(delay) = delay else { continue };
        let (answer, socket) = (answer(&question[..length], address), Arc::clone(socket));
        thread::spawn(move || {
            thread::sleep(delay);
            // The asker may be gone.
            socket.send_to(&answer, from).ok();
        });
    }
}

/// The answer to a question (RFC 1035, section 4): its own bytes, and an address if it asks for
/// one.
fn answer(question: &[u8], address: Ipv4Addr) -> Vec<u8> {
    let name: usize = question[12..].iter().position(|length| *length == 0).expect("a name ends");
    let end = 12 + name + 5;
    let is_for_address = question[end - 4..end - 2] == A;
    let mut answer = question[..end].to_vec();
    // A response, recursion available; one question, perhaps one answer, nothing else.
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, is_for_address.into(), 0, 0, 0, 0]);
    if is_for_address {
        // The name of the question, type A, class IN, no time to live, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    answer
}
