//! The interface for host name lookups, which the program that uses this client implements.
//!
//! Pure. Start with [`Resolve`].

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

/// Looks up host names.
pub trait Resolve {
    /// Looks up the addresses of `name`, with port 0. Fails if that takes longer than `within`.
    fn look_up(
        &self,
        name: &str,
        within: Duration,
    ) -> impl Future<Output = Result<Vec<SocketAddr>, ResolveError>>;
}

/// Why a lookup found no address.
pub type ResolveError = Box<dyn Error + Send + Sync>;
