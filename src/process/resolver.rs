//! Looks up the addresses of host names, and keeps what a slow name server answers.
//!
//! Touches the system's resolver, on the runtime's blocking threads. Start with
//! [`Resolver::look_up`]. No lookup can be interrupted, and behind a dead name server one takes
//! five seconds, longer than an attempt to connect. So a lookup belongs to no attempt: it goes on
//! after an attempt has given up, later attempts join it, and they use what it has found.

use crate::process::blocking::fault;
use hyper_util::client::legacy::connect::dns::Name;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::panic::catch_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tower::Service;
use zookeeper_client::resolve::Resolve;

/// How many lookups run at once: half of the blocking threads that `supervisor.rs` allows. The
/// other half is for files.
const THREADS: usize = 2;

/// How long an attempt waits for fresh addresses if it knows older ones. A healthy name server
/// answers within a few milliseconds.
const GRACE: Duration = Duration::from_millis(100);

/// How long a connection of hyper's waits for its first address. Its call ends long before.
const HYPER_PATIENCE: Duration = Duration::from_mins(1);

/// How glibc and musl say that a name server has answered, and that the name has no address.
const DENIALS: [&str; 4] = [
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "Name has no usable address",
];

/// The system's resolver, with a memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Resolver(Arc<Shared>);

/// Why a name has no address.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LookupError {
    /// The last lookup that ended failed.
    #[error(transparent)]
    Failed(Arc<io::Error>),
    /// No lookup of this name has ended yet.
    #[error("no name server has answered yet")]
    Late,
}

#[derive(Debug, Default)]
struct Shared {
    lookups: Mutex<Lookups>,
    /// Changes whenever a lookup ends.
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Lookups {
    names: BTreeMap<String, Known>,
    /// Names that wait for a thread.
    queue: VecDeque<String>,
    threads: usize,
    /// A lookup panicked: each attempt that waits for an address unwinds.
    has_panicked: bool,
}

/// The state of one name.
#[derive(Debug, Default)]
struct Known {
    is_under_way: bool,
    /// How many lookups of it have ended.
    ended: u64,
    /// The last addresses, with port 0. Only an answer that there are none takes them away.
    addresses: Vec<SocketAddr>,
    /// Why the last lookup failed, if it did.
    failure: Option<Arc<io::Error>>,
}

impl Resolver {
    /// The addresses of `name`, with port 0.
    ///
    /// Waits up to `patience` for a lookup to end, but only for a moment if older addresses are
    /// known: then these serve until it has ended.
    pub async fn look_up(
        &self,
        name: &str,
        patience: Duration,
    ) -> Result<Vec<SocketAddr>, LookupError> {
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, 0)]);
        }
        let mut ended = self.0.ended.subscribe();
        let (before, is_known) = self.begin(name);
        let fresh = async {
            while !self.has_panicked() && self.with(name, |known| known.ended) == before {
                ended.changed().await.ok();
            }
        };
        let within = if is_known { GRACE.min(patience) } else { patience };
        // Use the best known addresses, even late ones.
        timeout(within, fresh).await.ok();
        if self.has_panicked() {
            fault("a lookup of a host name", Box::new("its thread has said why"));
        }
        self.with(name, |known| known.best())
    }

    /// Begins a lookup unless one is under way. Returns how many have ended before it, and whether
    /// addresses are known.
    fn begin(&self, name: &str) -> (u64, bool) {
        let mut lookups = self.lock();
        let known = lookups.names.entry(name.to_owned()).or_default();
        let state = (known.ended, !known.addresses.is_empty());
        if !std::mem::replace(&mut known.is_under_way, true) {
            lookups.queue.push_back(name.to_owned());
            if lookups.threads < THREADS {
                lookups.threads += 1;
                let this = self.clone();
                drop(spawn_blocking(move || this.work(ask_system)));
            }
        }
        state
    }

    /// Looks up queued names until there are none. Blocks.
    fn work(&self, ask: fn(&str) -> io::Result<Vec<SocketAddr>>) {
        while let Some(name) = self.next() {
            // The thread goes on: were it lost, no other would take its place.
            match catch_unwind(|| ask(&name)) {
                Ok(found) => self.with(&name, |known| known.take_in(found)),
                Err(_told_by_the_panic_itself) => self.lock().has_panicked = true,
            }
            self.0.ended.send_replace(());
        }
    }

    fn next(&self) -> Option<String> {
        let mut lookups = self.lock();
        let next = lookups.queue.pop_front();
        if next.is_none() {
            lookups.threads -= 1;
        }
        next
    }

    fn with<T>(&self, name: &str, use_it: impl FnOnce(&mut Known) -> T) -> T {
        use_it(self.lock().names.entry(name.to_owned()).or_default())
    }

    fn has_panicked(&self) -> bool {
        self.lock().has_panicked
    }

    fn lock(&self) -> MutexGuard<'_, Lookups> {
        self.0.lookups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn take_in(&mut self, found: io::Result<Vec<SocketAddr>>) {
        self.is_under_way = false;
        self.ended += 1;
        match found {
            Ok(addresses) => {
                self.addresses = addresses;
                self.failure = None;
            }
            Err(error) => {
                // An address that the name has lost may belong to another server by now.
                if is_denial(&error) {
                    self.addresses.clear();
                }
                self.failure = Some(Arc::new(error));
            }
        }
    }

    fn best(&self) -> Result<Vec<SocketAddr>, LookupError> {
        if self.addresses.is_empty() {
            Err(self.failure.clone().map_or(LookupError::Late, LookupError::Failed))
        } else {
            Ok(self.addresses.clone())
        }
    }
}

/// Blocks.
fn ask_system(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((name, 0).to_socket_addrs()?.collect())
}

/// Whether a name server has answered that there is no address. The standard library tells this
/// from "no answer" by the text only.
fn is_denial(error: &io::Error) -> bool {
    let told = error.to_string();
    DENIALS.iter().any(|denial| told.ends_with(denial))
}

impl Resolve for Resolver {
    async fn look_up(
        &self,
        name: &str,
        patience: Duration,
    ) -> Result<Vec<SocketAddr>, zookeeper_client::resolve::ResolveError> {
        Ok(Self::look_up(self, name, patience).await?)
    }
}

/// The interface for hyper's connector, which sets the port itself.
impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = LookupError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, LookupError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), LookupError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { Ok(this.look_up(name.as_str(), HYPER_PATIENCE).await?.into_iter()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::AssertUnwindSafe;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 0))
    }

    #[test]
    fn last_addresses_serve_until_a_server_denies_them() {
        let mut known = Known::default();
        assert!(matches!(known.best(), Err(LookupError::Late)));
        known.take_in(Ok(vec![address(1)]));
        known.take_in(Err(io::Error::other("failed to lookup address information: Try again")));
        assert_eq!(known.best().unwrap(), [address(1)], "no answer proves nothing");
        known.take_in(Ok(vec![address(2)]));
        assert_eq!(known.best().unwrap(), [address(2)]);
        for denial in DENIALS {
            known.take_in(Ok(vec![address(3)]));
            known.take_in(Err(io::Error::other(format!(
                "failed to lookup address information: {denial}"
            ))));
            assert!(matches!(known.best(), Err(LookupError::Failed(_))), "{denial}");
        }
    }

    #[tokio::test]
    async fn system_denials_are_recognized() {
        let error = Resolver::default().look_up(&"a".repeat(64), HYPER_PATIENCE).await.unwrap_err();
        let LookupError::Failed(error) = error else { panic!("{error:?}") };
        assert!(is_denial(&error), "no label of a name is that long: {error}");
    }

    #[test]
    fn panic_of_a_lookup_unwinds_all_that_wait_for_addresses() {
        let resolver = Resolver::default();
        {
            let mut lookups = resolver.lock();
            lookups.queue.extend(["a".to_owned(), "b".to_owned()]);
            lookups.threads = 1;
        }
        catch_unwind(AssertUnwindSafe(|| resolver.work(|_| panic!("a fault of ours")))).ok();
        assert_eq!(resolver.lock().threads, 0, "its thread is stuck");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for name in ["a", "localhost"] {
            let look = resolver.look_up(name, Duration::from_secs(1));
            let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(look)));
            assert!(ended.is_err(), "{name}: {ended:?}");
        }
    }

    #[tokio::test]
    async fn addresses_need_no_lookup() {
        let found = Resolver::default().look_up("::1", Duration::ZERO).await.unwrap();
        assert_eq!(found, [SocketAddr::from((IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), 0))]);
        let resolver = Resolver::default();
        let found = resolver.look_up("localhost", HYPER_PATIENCE).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback()), "{found:?}");
        assert_eq!(resolver.lock().names.len(), 1);
    }
}
