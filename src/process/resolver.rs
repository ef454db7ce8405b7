//! Resolves host names, and caches the addresses.
//!
//! Touches the system's resolver, on the runtime's blocking threads. Start with
//! [`Resolver::look_up`]. A lookup cannot be canceled, and with a dead name server it takes five
//! seconds, longer than an attempt to connect. So a lookup outlives the attempt that started it,
//! and later attempts share it and its result.

use crate::process::blocking::resume_panic;
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

/// The most threads for lookups: half of the runtime's blocking threads. The other half is for
/// files.
const MAX_THREADS: usize = 2;

/// How long to wait for fresh addresses if older ones are known. A healthy name server answers
/// within a few milliseconds.
const REFRESH_WAIT: Duration = Duration::from_millis(100);

/// How long hyper waits for the first address. The timeout of its request is shorter.
const HYPER_WAIT: Duration = Duration::from_mins(1);

/// The messages of glibc and musl for a name server's answer that the name has no address.
const NEGATIVE_ANSWERS: [&str; 4] = [
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "Name has no usable address",
];

/// A caching resolver. Clones share the cache.
#[derive(Debug, Clone, Default)]
pub struct Resolver(Arc<Shared>);

/// Why a name has no address.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LookupError {
    /// The last lookup failed.
    #[error(transparent)]
    Failed(Arc<io::Error>),
    /// No lookup of this name has ended yet.
    #[error("no name server has answered yet")]
    Unanswered,
}

#[derive(Debug, Default)]
struct Shared {
    lookups: Mutex<Lookups>,
    /// Changes whenever a lookup ends.
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Lookups {
    names: BTreeMap<String, CacheEntry>,
    /// Names to look up.
    queue: VecDeque<String>,
    threads: usize,
    /// Whether a lookup panicked. Every attempt that waits for an address then panics too.
    has_panicked: bool,
}

/// The cached state of one name.
#[derive(Debug, Default)]
struct CacheEntry {
    is_pending: bool,
    /// How many lookups of the name have ended.
    ended: u64,
    /// The last addresses, with port 0. Only a negative answer clears them.
    addresses: Vec<SocketAddr>,
    /// Why the last lookup failed, if it did.
    failure: Option<Arc<io::Error>>,
}

impl Resolver {
    /// Returns the addresses of `name`, with port 0.
    ///
    /// Waits up to `max_wait` for a lookup to end. If older addresses are known, waits for at most
    /// [`REFRESH_WAIT`] and then returns those.
    pub async fn look_up(
        &self,
        name: &str,
        max_wait: Duration,
    ) -> Result<Vec<SocketAddr>, LookupError> {
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, 0)]);
        }
        let mut ended = self.0.ended.subscribe();
        let (before, is_known) = self.begin(name);
        let fresh = async {
            while !self.has_panicked() && self.with(name, |entry| entry.ended) == before {
                ended.changed().await.ok();
            }
        };
        let max_wait = if is_known { REFRESH_WAIT.min(max_wait) } else { max_wait };
        // After the timeout, the cached addresses are returned.
        timeout(max_wait, fresh).await.ok();
        if self.has_panicked() {
            resume_panic("a lookup of a host name", Box::new("its thread has logged the panic"));
        }
        self.with(name, |entry| entry.addresses())
    }

    /// Starts a lookup unless one is pending. Returns how many lookups of the name have ended, and
    /// whether addresses are known.
    fn begin(&self, name: &str) -> (u64, bool) {
        let mut lookups = self.lock();
        let entry = lookups.names.entry(name.to_owned()).or_default();
        let state = (entry.ended, !entry.addresses.is_empty());
        if !std::mem::replace(&mut entry.is_pending, true) {
            lookups.queue.push_back(name.to_owned());
            if lookups.threads < MAX_THREADS {
                lookups.threads += 1;
                let this = self.clone();
                drop(spawn_blocking(move || this.work(resolve)));
            }
        }
        state
    }

    /// Looks up the queued names with `resolve`. Blocks.
    fn work(&self, resolve: fn(&str) -> io::Result<Vec<SocketAddr>>) {
        while let Some(name) = self.next() {
            // The thread must survive a panic, because `begin` counts on it to empty the queue.
            match catch_unwind(|| resolve(&name)) {
                Ok(result) => self.with(&name, |entry| entry.update(result)),
                Err(_panic) => self.lock().has_panicked = true,
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

    fn with<T>(&self, name: &str, action: impl FnOnce(&mut CacheEntry) -> T) -> T {
        action(self.lock().names.entry(name.to_owned()).or_default())
    }

    fn has_panicked(&self) -> bool {
        self.lock().has_panicked
    }

    fn lock(&self) -> MutexGuard<'_, Lookups> {
        self.0.lookups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntry {
    fn update(&mut self, result: io::Result<Vec<SocketAddr>>) {
        self.is_pending = false;
        self.ended += 1;
        match result {
            Ok(addresses) => {
                self.addresses = addresses;
                self.failure = None;
            }
            Err(error) => {
                // The old addresses may belong to other servers by now.
                if is_negative_answer(&error) {
                    self.addresses.clear();
                }
                self.failure = Some(Arc::new(error));
            }
        }
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>, LookupError> {
        if self.addresses.is_empty() {
            Err(self.failure.clone().map_or(LookupError::Unanswered, LookupError::Failed))
        } else {
            Ok(self.addresses.clone())
        }
    }
}

/// Queries the system's resolver. Blocks.
fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((name, 0).to_socket_addrs()?.collect())
}

/// Whether a name server has answered that there is no address. Only the message of std's error
/// distinguishes this from no answer.
fn is_negative_answer(error: &io::Error) -> bool {
    let message = error.to_string();
    NEGATIVE_ANSWERS.iter().any(|negative| message.ends_with(negative))
}

impl Resolve for Resolver {
    async fn look_up(
        &self,
        name: &str,
        max_wait: Duration,
    ) -> Result<Vec<SocketAddr>, zookeeper_client::resolve::ResolveError> {
        Ok(Self::look_up(self, name, max_wait).await?)
    }
}

/// For hyper's connector, which sets the port.
impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = LookupError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, LookupError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), LookupError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { Ok(this.look_up(name.as_str(), HYPER_WAIT).await?.into_iter()) })
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
    fn cached_addresses_serve_until_a_negative_answer() {
        let mut entry = CacheEntry::default();
        assert!(matches!(entry.addresses(), Err(LookupError::Unanswered)));
        entry.update(Ok(vec![address(1)]));
        entry.update(Err(io::Error::other("failed to lookup address information: Try again")));
        assert_eq!(entry.addresses().unwrap(), [address(1)], "a missing answer proves nothing");
        entry.update(Ok(vec![address(2)]));
        assert_eq!(entry.addresses().unwrap(), [address(2)]);
        for negative in NEGATIVE_ANSWERS {
            entry.update(Ok(vec![address(3)]));
            entry.update(Err(io::Error::other(format!(
                "failed to lookup address information: {negative}"
            ))));
            assert!(matches!(entry.addresses(), Err(LookupError::Failed(_))), "{negative}");
        }
    }

    #[tokio::test]
    async fn negative_answers_of_the_system_are_recognized() {
        let error = Resolver::default().look_up(&"a".repeat(64), HYPER_WAIT).await.unwrap_err();
        let LookupError::Failed(error) = error else { panic!("{error:?}") };
        assert!(is_negative_answer(&error), "no label of a name is that long: {error}");
    }

    #[test]
    fn panic_of_a_lookup_unwinds_every_waiting_attempt() {
        let resolver = Resolver::default();
        {
            let mut lookups = resolver.lock();
            lookups.queue.extend(["a".to_owned(), "b".to_owned()]);
            lookups.threads = 1;
        }
        catch_unwind(AssertUnwindSafe(|| resolver.work(|_| panic!("a planned panic")))).ok();
        assert_eq!(resolver.lock().threads, 0, "the thread did not end");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for name in ["a", "localhost"] {
            let lookup = resolver.look_up(name, Duration::from_secs(1));
            let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(lookup)));
            assert!(ended.is_err(), "{name}: {ended:?}");
        }
    }

    #[tokio::test]
    async fn addresses_need_no_lookup() {
        let found = Resolver::default().look_up("::1", Duration::ZERO).await.unwrap();
        assert_eq!(found, [SocketAddr::from((IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), 0))]);
        let resolver = Resolver::default();
        let found = resolver.look_up("localhost", HYPER_WAIT).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback()), "{found:?}");
        assert_eq!(resolver.lock().names.len(), 1);
    }
}
