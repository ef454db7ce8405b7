//! A narrow client of ZooKeeper: what an election needs of the protocol, and what it needs to know of each outcome.
//!
//! Touches sockets and the resolver. Start with [`client`]. It stands by itself: nothing here knows of elections.
//! What other clients keep to themselves is told here: the session and the time-out in every answer to a connect (they
//! can change at each), and whether a request was refused, not sent, or lost on the way.
//!
//! ```text
//!  client ─► dial ─► credentials, digest_md5, tls     one attempt: look up, connect, introduce
//!    └─────► frames ─► wire, requests ─► jute         pure: bytes to replies, whatever they are
//! ```

pub mod client;
pub mod credentials;
pub mod dial;
pub mod digest_md5;
pub mod frames;
pub mod jute;
pub mod requests;
pub mod servers;
pub mod tls;
pub mod wire;

use frames::Frames;
use jute::Reader;
use requests::{Access, Children, Create, Kind, Part, Read, Sasl, Together};
use wire::Request;

/// Reads `bytes` as all that a server could send, and forgets what it read: the place where a fuzzer begins. Nothing
/// may panic here.
pub fn read_anything(bytes: &[u8]) {
    fn read_reply<R: Request>(request: &R, bytes: &[u8]) {
        drop(request.decode(&mut Reader::new(bytes)));
    }
    let path = || "/o".to_owned();
    let create = Create { path: path(), data: Vec::new(), kind: Kind::Ephemeral, access: Access::Open };
    drop(wire::welcome(bytes));
    let mut frames = Frames::default();
    frames.push(bytes);
    while let Ok(Some(frame)) = frames.pop() {
        drop(wire::received(&frame));
    }
    read_reply(&create, bytes);
    read_reply(&Children { path: path() }, bytes);
    read_reply(&Read { path: path(), watch: true }, bytes);
    read_reply(&Together(vec![Part::Check(path()), Part::Create(create)]), bytes);
    read_reply(&Sasl(Vec::new()), bytes);
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to cut these short, and to make one of their bytes another.
    #[test]
    fn whatever_a_server_sends_is_read_without_a_panic() {
        let frames = [
            "00000025 00000000 00001770 010000b3d9ee0000 00000010 d0fcfa011db655932e64d96d2e449be9 00",
            "0000002d 00000003 0000000000000003 00000000 00000002 00000004636f6e74 000000022f6f",
            "00000034 ffffffff 0000000000000008 00000000 00000002 00000003 00000002 2f6f",
            "00000033 00000006 0000000000000005 00000000 ffffffff 00 00000000 00000000 ffffffff 00 ffffff92 ffffff92 ffffffff 01",
        ];
        for frame in frames.map(samples::bytes) {
            for from in [0, 4, 20] {
                for until in from..=frame.len() {
                    read_anything(&frame[from..until]);
                }
                for at in from..frame.len() {
                    for byte in [0, 1, 0x7f, 0x80, 0xff] {
                        let mut changed = frame.clone();
                        changed[at] = byte;
                        read_anything(&changed[from..]);
                    }
                }
            }
        }
    }
}
