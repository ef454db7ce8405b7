//! What goes over the wire in either direction, as ZooKeeper 3.4 to 3.9 write it: first words, headers, error codes.
//!
//! Pure. Every request begins with a number (xid) that its reply repeats; some numbers are the protocol's own. What can
//! be asked stands in `requests.rs`. The names of the fields are those of `zookeeper.jute` in ZooKeeper's source.

use crate::jute::{Malformed, Reader, Writer};
use std::fmt;
use std::time::Duration;

/// What a reply to nothing is numbered: the news of a watch.
const NEWS: i32 = -1;
/// What credentials and the answer to them are numbered.
const AUTH: i32 = -4;
/// The operation that shows credentials.
const AUTH_OP: i32 = 100;

/// A session as a server granted it, which may not be as it was asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// The session.
    pub session: u64,
    /// After how long without a sign of us the ensemble ends it.
    pub timeout: Duration,
    /// What proves to the next server that the session is ours.
    password: Vec<u8>,
}

/// Never the password.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} for {:?}", self.session, self.timeout)
    }
}

/// The frame that asks a server for a session: for the one that was granted before, or for a new one that ends after
/// `timeout` without a sign of us. A server that knows less than `last_zxid` sends us away.
pub fn hello(before: Option<&Grant>, timeout: Duration, last_zxid: i64) -> Vec<u8> {
    let mut frame = Writer::frame();
    frame.int(0).long(last_zxid).milliseconds(timeout);
    match before {
        Some(grant) => frame.long(grant.session.cast_signed()).buffer(&grant.password),
        None => frame.long(0).buffer(&[0; 16]),
    };
    // Never content with a server that cannot write.
    frame.bool(false);
    frame.finish()
}

/// What a server answers to [`hello`]; `None` when the session that was asked for is over.
pub fn welcome(body: &[u8]) -> Result<Option<Grant>, Malformed> {
    let mut reader = Reader::new(body);
    let (_version, timeout, session) =
        (reader.int()?, reader.int()?, reader.long()?.cast_unsigned());
    let password = reader.buffer()?.to_vec();
    let timeout = u64::try_from(timeout).map(Duration::from_millis).unwrap_or_default();
    let granted = session != 0 && !timeout.is_zero();
    Ok(granted.then_some(Grant { session, timeout, password }))
}

/// The frame that presents credentials of a scheme.
pub fn auth(scheme: &str, credentials: &[u8]) -> Vec<u8> {
    let mut frame = Writer::frame();
    frame.int(AUTH).int(AUTH_OP).int(0).text(scheme).buffer(credentials);
    frame.finish()
}

/// The frame that asks for something.
pub fn ask<R: Request>(xid: i32, request: &R) -> Vec<u8> {
    let mut frame = Writer::frame();
    frame.int(xid).int(R::OP);
    request.encode(&mut frame);
    frame.finish()
}

/// What a server sends once a session is granted.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// The answer to the request of this number: the body of the reply, or why not.
    Reply(i32, Result<&'a [u8], Code>),
    /// A watch has fired, and is gone.
    Fired,
}

/// What a frame says, and the last transaction that its sender knew of, where it is told.
pub fn received(body: &[u8]) -> Result<(Received<'_>, Option<i64>), Malformed> {
    let mut reader = Reader::new(body);
    let (xid, zxid, code) = (reader.int()?, reader.long()?, reader.int()?);
    let received = match xid {
        NEWS => {
            let (_kind, _state, _path) = (reader.int()?, reader.int()?, reader.text()?);
            Received::Fired
        }
        _ => Received::Reply(xid, Code::of(code).map_or_else(|| Ok(reader.rest()), Err)),
    };
    // News carry the number of what they tell, which is not yet a state that we have seen.
    Ok((received, (xid != NEWS && zxid > 0).then_some(zxid)))
}

/// A request, and how its reply is to be read.
pub trait Request {
    /// What the reply says.
    type Reply;
    /// The operation's code.
    const OP: i32;

    /// Appends the request's fields.
    fn encode(&self, frame: &mut Writer);

    /// Reads the reply's fields, which have to be those of a reply to this request.
    fn decode(&self, reply: &mut Reader<'_>) -> Result<Self::Reply, Malformed>;
}

/// Why a server did not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Code {
    /// There is no such znode, or for a creation no parent.
    #[error("there is no such znode")]
    NoNode,
    /// There is one already; for a numbered one: the parent's numbers are used up.
    #[error("there is such a znode already")]
    NodeExists,
    /// It was written to.
    #[error("the znode has another version")]
    BadVersion,
    /// It has children.
    #[error("the znode has children")]
    NotEmpty,
    /// Its parent lives as long as a session, and so has no children.
    #[error("the parent is ephemeral, and so can have no children")]
    ParentIsEphemeral,
    /// Its access list does not name us.
    #[error("the znode's access list does not let us")]
    NoAuth,
    /// We have no credentials that an access list could name.
    #[error("the servers know no credentials of ours that an access list could name")]
    InvalidAccess,
    /// Our credentials are wrong, or of a scheme that the servers do not know.
    #[error("the credentials are wrong, or the servers do not know their scheme")]
    AuthFailed,
    /// The servers want SASL from everybody.
    #[error("the servers want everybody to authenticate")]
    AuthRequired,
    /// The server is too old for the request.
    #[error("the server does not know such a request")]
    Unimplemented,
    /// The session is over.
    #[error("the session is over")]
    SessionExpired,
    /// The session went on at another server.
    #[error("the session went on at another server")]
    SessionMoved,
    /// There is no more room for such znodes.
    #[error("a quota is used up")]
    QuotaExceeded,
    /// Servers that keep sessions to themselves (localSessionsEnabled) have none that a znode could end with.
    #[error("the session is known to one server only, and ephemeral znodes need one that all know")]
    EphemeralOnLocalSession,
    /// It is not what a server would take, as a path with characters that it refuses.
    #[error("the server refuses the path, or something else of the request's form")]
    BadArguments,
    /// Everything else, by which nobody can tell what was done.
    #[error("the server's error {0}")]
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

    /// What a server of version 3.9.5 granted to kazoo, without the frame's length.
    const WELCOME: &str =
        "00000000 00001770 010000b3d9ee0000 00000010 d0fcfa011db655932e64d96d2e449be9 00";

    #[test]
    fn sessions_are_asked_for_and_credentials_shown_as_kazoo_does() {
        let new = "0000002d 00000000 0000000000000000 00001770 0000000000000000 00000010 \
                   00000000000000000000000000000000 00";
        assert_eq!(hello(None, Duration::from_secs(6), 0), bytes(new));
        let grant = welcome(&bytes(WELCOME)).unwrap().unwrap();
        assert_eq!((grant.session, grant.timeout), (0x0100_00b3_d9ee_0000, Duration::from_secs(6)));
        assert_eq!(format!("{grant:?}"), "0x10000b3d9ee0000 for 6s", "without the password");
        let same = "0000002d 00000000 0000000000000009 00001770 010000b3d9ee0000 00000010 \
                    d0fcfa011db655932e64d96d2e449be9 00";
        assert_eq!(hello(Some(&grant), Duration::from_secs(6), 9), bytes(same));
        let shown = "00000025 fffffffc 00000064 00000000 00000006646967657374 0000000b73686f703a736563726574";
        assert_eq!(auth("digest", b"shop:secret"), bytes(shown));
    }

    #[test]
    fn a_session_that_is_over_is_told_by_zeros() {
        let over =
            "00000000 00000000 0000000000000000 00000010 00000000000000000000000000000000 00";
        assert_eq!(welcome(&bytes(over)), Ok(None));
        let no_time = "00000000 ffffffff 010000b3d9ee0000 00000000 00";
        assert_eq!(welcome(&bytes(no_time)), Ok(None));
        let before_3_4 = "00000000 00001770 0000000000000007 00000000";
        assert_eq!(welcome(&bytes(before_3_4)).unwrap().map(|grant| grant.session), Some(7));
        assert_eq!(welcome(&bytes("00000000 00001770")), Err(Malformed::TooShort));
    }

    #[test]
    fn replies_and_news_are_told_apart() {
        let heard = |hex| {
            let frame = bytes(hex);
            received(&frame).map(|(what, zxid)| (format!("{what:?}"), zxid))
        };
        let told = |what: &str, zxid| Ok((what.to_owned(), zxid));
        assert_eq!(
            heard("00000007 0000000000000006 00000000 ab"),
            told("Reply(7, Ok([171]))", Some(6))
        );
        assert_eq!(
            heard("00000009 0000000000000007 ffffff9b"),
            told("Reply(9, Err(NoNode))", Some(7))
        );
        assert_eq!(
            heard("0000000b 0000000000000007 ffffff87"),
            told("Reply(11, Err(Other(-121)))", Some(7))
        );
        let fired = "ffffffff 0000000000000008 00000000 00000002 00000003 000000022f6f";
        assert_eq!(heard(fired), told("Fired", None));
        assert_eq!(heard("ffffffff 0000000000000008 00000000"), Err(Malformed::TooShort));
        assert_eq!(
            heard("fffffffc 0000000000000000 ffffff8d"),
            told("Reply(-4, Err(AuthFailed))", None)
        );
    }
}
