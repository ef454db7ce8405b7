//! The wire format of ZooKeeper 3.4 to 3.9: session setup, message headers, error codes.
//!
//! Pure. Start with [`Operation`], which `operations.rs` and `access.rs` implement. A request
//! starts with a number (xid), which its reply repeats; the protocol reserves some negative xids.
//! Fields have the names of `zookeeper.jute` in ZooKeeper's source.

use crate::jute::{Decoder, Encoder, Malformed};
use std::fmt;
use std::time::Duration;

/// The xid of a watch event, which answers no request.
const WATCH_EVENT_XID: i32 = -1;
/// The xid of credentials and of the answer to them.
const AUTH_XID: i32 = -4;
/// The operation code that presents credentials.
const AUTH_OP: i32 = 100;

/// A session as granted by a server, which may differ from the one requested.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// The session's id.
    pub session: u64,
    /// The ensemble expires the session if it hears nothing from the client for this long.
    pub timeout: Duration,
    /// Proves to another server that this client owns the session. Keep it secret.
    pub password: Vec<u8>,
}

/// Omits the password.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} for {:?}", self.session, self.timeout)
    }
}

/// The frame that requests a session: the one granted `before`, or a new one with this timeout.
///
/// A server whose last transaction is older than `last_zxid` closes the connection.
pub fn connect_request(before: Option<&Grant>, timeout: Duration, last_zxid: i64) -> Vec<u8> {
    let mut frame = Encoder::frame();
    frame.int(0).long(last_zxid).milliseconds(timeout);
    match before {
        Some(grant) => frame.long(grant.session.cast_signed()).buffer(&grant.password),
        None => frame.long(0).buffer(&[0; 16]),
    };
    // readOnly: never accept a server that cannot write.
    frame.bool(false);
    frame.finish()
}

/// Parses the answer to [`connect_request`]; `None` if the requested session has expired.
pub fn parse_connect_response(body: &[u8]) -> Result<Option<Grant>, Malformed> {
    let mut decoder = Decoder::new(body);
    let (_version, timeout, session) =
        (decoder.int()?, decoder.int()?, decoder.long()?.cast_unsigned());
    let password = decoder.buffer()?.to_vec();
    let timeout = u64::try_from(timeout).map(Duration::from_millis).unwrap_or_default();
    let granted = session != 0 && !timeout.is_zero();
    Ok(granted.then_some(Grant { session, timeout, password }))
}

/// The frame that presents credentials of a scheme.
pub fn auth_request(scheme: &str, credentials: &[u8]) -> Vec<u8> {
    let mut frame = Encoder::frame();
    frame.int(AUTH_XID).int(AUTH_OP).int(0).text(scheme).buffer(credentials);
    frame.finish()
}

/// The frame of an operation.
pub fn request<R: Operation>(xid: i32, operation: &R) -> Vec<u8> {
    let mut frame = Encoder::frame();
    frame.int(xid).int(R::OP);
    operation.encode(&mut frame);
    frame.finish()
}

/// A message from a server that has granted a session.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerMessage<'a> {
    /// The reply to the request with this xid: its body, or the error.
    Reply(i32, Result<&'a [u8], Code>),
    /// A watch has fired; the server has removed it.
    WatchFired,
}

/// Parses a message, and returns it with the last transaction the server had processed, if stated.
pub fn parse_message(body: &[u8]) -> Result<(ServerMessage<'_>, Option<i64>), Malformed> {
    let mut decoder = Decoder::new(body);
    let (xid, zxid, code) = (decoder.int()?, decoder.long()?, decoder.int()?);
    let message = match xid {
        WATCH_EVENT_XID => {
            let (_kind, _state, _path) = (decoder.int()?, decoder.int()?, decoder.text()?);
            ServerMessage::WatchFired
        }
        _ => ServerMessage::Reply(xid, Code::of(code).map_or_else(|| Ok(decoder.rest()), Err)),
    };
    // The zxid of a watch event is that of the change, whose effect this client has not read yet.
    Ok((message, (xid != WATCH_EVENT_XID && zxid > 0).then_some(zxid)))
}

/// An operation: how its request is written and its reply read.
pub trait Operation {
    /// The content of the reply.
    type Reply;
    /// The operation code.
    const OP: i32;

    /// Appends the request's fields.
    fn encode(&self, frame: &mut Encoder);

    /// Reads the reply's fields; fails if they do not belong to a reply to this request.
    fn decode(&self, reply: &mut Decoder<'_>) -> Result<Self::Reply, Malformed>;
}

/// Why a server did not perform a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Code {
    /// The znode does not exist; for a creation, its parent does not.
    #[error("the znode does not exist")]
    NoNode,
    /// The znode exists; for a sequential one, the parent's counter is exhausted.
    #[error("the znode already exists")]
    NodeExists,
    /// The znode, or its access list, has changed.
    #[error("the version has changed")]
    BadVersion,
    /// The znode has children.
    #[error("the znode has children")]
    NotEmpty,
    /// The parent is ephemeral.
    #[error("the parent is ephemeral, so it cannot have children")]
    ParentIsEphemeral,
    /// The access list does not allow it.
    #[error("the access list does not allow it")]
    NoAuth,
    /// The client has no credentials that an access list could name, or the list is invalid.
    #[error("the servers accepted no credentials that an access list could name")]
    InvalidAccess,
    /// The credentials are wrong, or the servers do not support their scheme.
    #[error("the credentials are wrong, or the servers do not support their scheme")]
    AuthFailed,
    /// The servers require authentication.
    #[error("the servers require authentication")]
    AuthRequired,
    /// The server is too old for the request.
    #[error("the server does not support the request")]
    Unimplemented,
    /// The session has expired.
    #[error("the session has expired")]
    SessionExpired,
    /// The session has moved to another server.
    #[error("the session has moved to another server")]
    SessionMoved,
    /// A quota on the path is exhausted.
    #[error("a quota is exhausted")]
    QuotaExceeded,
    /// An ephemeral znode needs a global session, and this one is local (`localSessionsEnabled`).
    #[error("the session is local to one server, and an ephemeral znode needs a global one")]
    EphemeralOnLocalSession,
    /// The request is malformed, for example a path with characters that the server refuses.
    #[error("the server refuses the path or another part of the request")]
    BadArguments,
    /// Any other error, which leaves the outcome of the request unknown.
    #[error("server error {0}")]
    Other(i32),
}

impl Code {
    pub(super) const fn of(number: i32) -> Option<Self> {
        Some(match number {
            0 => return None,
            -6 => Self::Unimplemented,
            -8 => Self::BadArguments,
            -101 => Self::NoNode,
            -102 => Self::NoAuth,
            -103 => Self::BadVersion,
            -108 => Self::ParentIsEphemeral,
            -110 => Self::NodeExists,
            -111 => Self::NotEmpty,
            -112 => Self::SessionExpired,
            -114 => Self::InvalidAccess,
            -115 => Self::AuthFailed,
            -118 => Self::SessionMoved,
            -120 => Self::EphemeralOnLocalSession,
            -124 => Self::AuthRequired,
            -125 => Self::QuotaExceeded,
            other => Self::Other(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::bytes;

    /// The session that a server of version 3.9.5 granted to kazoo, without the frame length.
    const CONNECT_RESPONSE: &str =
        "00000000 00001770 010000b3d9ee0000 00000010 d0fcfa011db655932e64d96d2e449be9 00";

    #[test]
    fn session_and_auth_requests_match_kazoo() {
        let new = "0000002d 00000000 0000000000000000 00001770 0000000000000000 00000010 \
                   00000000000000000000000000000000 00";
        assert_eq!(connect_request(None, Duration::from_secs(6), 0), bytes(new));
        let grant = parse_connect_response(&bytes(CONNECT_RESPONSE)).unwrap().unwrap();
        assert_eq!((grant.session, grant.timeout), (0x0100_00b3_d9ee_0000, Duration::from_secs(6)));
        assert_eq!(format!("{grant:?}"), "0x10000b3d9ee0000 for 6s", "without the password");
        let same = "0000002d 00000000 0000000000000009 00001770 010000b3d9ee0000 00000010 \
                    d0fcfa011db655932e64d96d2e449be9 00";
        assert_eq!(connect_request(Some(&grant), Duration::from_secs(6), 9), bytes(same));
        let shown = "00000025 fffffffc 00000064 00000000 00000006646967657374 \
                     0000000b73686f703a736563726574";
        assert_eq!(auth_request("digest", b"shop:secret"), bytes(shown));
    }

    #[test]
    fn zeros_in_connect_response_mean_expired() {
        let over =
            "00000000 00000000 0000000000000000 00000010 00000000000000000000000000000000 00";
        assert_eq!(parse_connect_response(&bytes(over)), Ok(None));
        let no_time = "00000000 ffffffff 010000b3d9ee0000 00000000 00";
        assert_eq!(parse_connect_response(&bytes(no_time)), Ok(None));
        let before_3_4 = "00000000 00001770 0000000000000007 00000000";
        assert_eq!(
            parse_connect_response(&bytes(before_3_4)).unwrap().map(|grant| grant.session),
            Some(7)
        );
        assert_eq!(parse_connect_response(&bytes("00000000 00001770")), Err(Malformed::TooShort));
    }

    #[test]
    fn replies_are_distinguished_from_watch_events() {
        let parsed = |hex| {
            let frame = bytes(hex);
            parse_message(&frame).map(|(message, zxid)| (format!("{message:?}"), zxid))
        };
        let expected = |message: &str, zxid| Ok((message.to_owned(), zxid));
        assert_eq!(
            parsed("00000007 0000000000000006 00000000 ab"),
            expected("Reply(7, Ok([171]))", Some(6))
        );
        assert_eq!(
            parsed("00000009 0000000000000007 ffffff9b"),
            expected("Reply(9, Err(NoNode))", Some(7))
        );
        assert_eq!(
            parsed("0000000b 0000000000000007 ffffff87"),
            expected("Reply(11, Err(Other(-121)))", Some(7))
        );
        let fired = "ffffffff 0000000000000008 00000000 00000002 00000003 000000022f6f";
        assert_eq!(parsed(fired), expected("WatchFired", None));
        assert_eq!(parsed("ffffffff 0000000000000008 00000000"), Err(Malformed::TooShort));
        assert_eq!(
            parsed("fffffffc 0000000000000000 ffffff8d"),
            expected("Reply(-4, Err(AuthFailed))", None)
        );
    }
}
