//! A narrow ZooKeeper client that tells what became of each request and each session.
//!
//! Touches sockets, and files with certificates. Start with [`client`].
//! What other clients keep to themselves is told here: the session and the time-out in every answer to a connect (they
//! can change at each), and whether a request was refused, not sent, or lost on the way.
//!
//! ```text
//!  client ─► dial ─► credentials, digest_md5, tls     one attempt: connect, introduce
//!    └─────► frames ─► wire, requests, access ─► jute pure: bytes to replies, whatever they are
//! ```
#![forbid(unsafe_code)]

pub mod access;
pub mod client;
pub mod credentials;
pub mod dial;
pub mod digest_md5;
pub mod frames;
pub mod jute;
pub mod requests;
pub mod resolve;
pub mod servers;
pub mod tls;
pub mod wire;

#[cfg(test)]
mod samples {
    //! Bytes of real conversations, written in hexadecimal digits.

    /// The bytes behind the digits; blanks are for the eye.
    pub(super) fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }
}
