//! The network between etcd's members, in which one can be cut off from all others.
//!
//! Every member reaches another one through the same proxy. So a proxy tells its clients apart by
//! the header `X-Server-From` of their first request, which etcd's peers send.

use super::super::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long a pump waits for bytes before it checks the links again.
const POLL: Duration = Duration::from_millis(5);

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 8192;

/// Which members are cut off.
#[derive(Default)]
pub(super) struct Links {
    isolated: Mutex<BTreeSet<usize>>,
    /// The index of each member by its id in hexadecimal.
    indexes: Mutex<BTreeMap<String, usize>>,
}

impl Links {
    pub(super) fn cut_off(&self, at: usize) {
        lock(&self.isolated).insert(at);
    }

    pub(super) fn heal(&self, at: usize) {
        lock(&self.isolated).remove(&at);
    }

    pub(super) fn learn(&self, ids: BTreeMap<usize, u64>) {
        *lock(&self.indexes) = ids.into_iter().map(|(at, id)| (format!("{id:x}"), at)).collect();
    }

    /// Whether bytes pass between the member `target` and the one with the id `source`.
    fn passes(&self, target: usize, source: Option<&str>) -> bool {
        let isolated = lock(&self.isolated);
        let source = source.and_then(|id| lock(&self.indexes).get(id).copied());
        !isolated.contains(&target) && !source.is_some_and(|source| isolated.contains(&source))
    }
}

/// In front of a member's peer port.
pub(super) struct PeerProxy {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl PeerProxy {
    pub(super) fn start(at: usize, target: SocketAddr, links: Arc<Links>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        drop(thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let link =
                    Link { target: at, links: Arc::clone(&links), is_over: Arc::clone(&over) };
                drop(thread::spawn(move || link.serve(client, target)));
            }
        }));
        Self { address, is_over }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PeerProxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the acceptor.
        drop(TcpStream::connect(self.address));
    }
}

/// One connection between two members.
struct Link {
    target: usize,
    links: Arc<Links>,
    is_over: Arc<AtomicBool>,
}

impl Link {
    fn serve(self, mut client: TcpStream, target: SocketAddr) {
        let Ok(mut server) = TcpStream::connect(target) else { return };
        for stream in [&client, &server] {
            stream.set_nodelay(true).ok();
            stream.set_read_timeout(Some(POLL)).ok();
        }
        let Some(head) = self.head(&mut client) else { return };
        let source = source(&head);
        if !self.wait_until_passing(source.as_deref()) || server.write_all(&head).is_err() {
            return;
        }
        let (Ok(mut from_server), Ok(mut to_client)) = (server.try_clone(), client.try_clone())
        else {
            return;
        };
        thread::scope(|scope| {
            let source = source.as_deref();
            let link = &self;
            scope.spawn(move || link.pump(&mut from_server, &mut to_client, source));
            self.pump(&mut client, &mut server, source);
        });
    }

    /// The first bytes, up to the end of a request's head.
    fn head(&self, client: &mut TcpStream) -> Option<Vec<u8>> {
        let mut head = Vec::new();
        let mut buffer = [0; 1024];
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") && head.len() < MAX_HEAD {
            match client.read(&mut buffer) {
                Ok(0) => return None,
                Ok(read) => head.extend(&buffer[..read]),
                Err(error) if is_timeout(&error) && !self.is_over() => {}
                Err(_) => return None,
            }
        }
        Some(head)
    }

    fn pump(&self, from: &mut TcpStream, to: &mut TcpStream, source: Option<&str>) {
        let mut buffer = [0; 16 << 10];
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if is_timeout(&error) && !self.is_over() => continue,
                Err(_) => break,
            };
            if !self.wait_until_passing(source) || to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        for stream in [from, to] {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Holds bytes of a cut link, as a network does that drops packets. False at the end.
    fn wait_until_passing(&self, source: Option<&str>) -> bool {
        while !self.is_over() {
            if self.links.passes(self.target, source) {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The id of the member that sends this request.
fn source(head: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(head).to_lowercase();
    let line = text.lines().find_map(|line| line.strip_prefix("x-server-from:").map(str::trim));
    line.map(str::to_owned)
}
