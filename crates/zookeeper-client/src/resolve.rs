//! Host name lookup, which the program that uses this client provides.
//!
//! Touches nothing. Start with [`Resolve`].

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

/// Looks up host names.
pub trait Resolve {
    /// Looks up the addresses of `name`, with port 0, within `patience`.
    fn look_up(
        &self,
        name: &str,
        patience: Duration,
    ) -> impl Future<Output = Result<Vec<SocketAddr>, ResolveError>>;
}

/// Why a lookup found no address.
pub type ResolveError = Box<dyn Error + Send + Sync>;
