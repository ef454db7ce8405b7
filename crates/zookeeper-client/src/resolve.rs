//! How the addresses of a server are found: the program that uses this client decides.
//!
//! Touches nothing. Start with [`Resolve`].

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

/// Looks up host names.
pub trait Resolve {
    /// The addresses of `name`, with port 0. Takes no longer than `patience`.
    fn look_up(
        &self,
        name: &str,
        patience: Duration,
    ) -> impl Future<Output = Result<Vec<SocketAddr>, LookupError>>;
}

/// Why a name has no address.
pub type LookupError = Box<dyn Error + Send + Sync>;
