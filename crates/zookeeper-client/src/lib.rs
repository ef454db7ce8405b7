//! A narrow ZooKeeper client that reports the outcome of every request and every session.
//!
//! Touches sockets and certificate files. Start with [`client::Client`]. It reports what other
//! clients hide. After every connect, that is the session and its timeout, which may both change.
//! For each request, it is whether the server refused it, whether it was never sent, or whether its
//! outcome is unknown.
//!
//! ```text
//!  client ─► dial ─► credentials, digest_md5, tls   one connection attempt
//!    └─► frames ─► wire, operations, access ─► jute  pure: any bytes to replies
//! ```
#![forbid(unsafe_code)]

pub mod access;
pub mod client;
pub mod credentials;
pub mod dial;
pub mod digest_md5;
pub mod frames;
pub mod jute;
pub mod operations;
pub mod resolve;
pub mod servers;
pub mod tls;
pub mod wire;

#[cfg(test)]
mod samples {
    //! Recorded messages, as hexadecimal digits.

    /// Parses hexadecimal digits. Blanks are ignored; they separate fields.
    pub(super) fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }
}
