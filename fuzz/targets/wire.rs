//! Bytes from ZooKeeper servers: frames, connect responses and replies. A second parser,
//! [`Parser`], which shares no code with the client, says what to expect.

use std::time::Duration;
use zookeeper_client::access::GetAcl;
use zookeeper_client::frames::{Frames, InvalidFrameLength};
use zookeeper_client::jute::Decoder;
use zookeeper_client::operations::{
    Access, Create, CreateMode, GetChildren, GetData, Multi, Op, Sasl,
};
use zookeeper_client::wire;
use zookeeper_client::wire::{Operation, ServerMessage};

/// The frame limit.
const MAX_FRAME_BYTES: i32 = 4 << 20;

pub(super) fn read(bytes: &[u8]) {
    check_frames(bytes);
    check_connect_response(bytes);
    check_reply(bytes);
    check_reply_bodies(bytes);
    check_transaction(bytes);
}

/// Frames are complete, in whatever pieces the bytes arrive.
fn check_frames(bytes: &[u8]) {
    let mut expected = Vec::new();
    let mut rest = Parser(bytes);
    let is_refused = loop {
        match rest.int() {
            Some(length) if !(0..=MAX_FRAME_BYTES).contains(&length) => break true,
            Some(length) => match rest.take(length.cast_unsigned() as usize) {
                Some(body) => expected.push(body),
                None => break false,
            },
            None => break false,
        }
    };
    for step in [bytes.len().max(1), 1, 5] {
        let (frames, error) = read_frames(bytes, step);
        assert_eq!(frames, expected, "in steps of {step}");
        assert_eq!(error.is_some(), is_refused, "in steps of {step}: {error:?}");
    }
}

/// Reads frames from `bytes` in pieces of `step` bytes.
fn read_frames(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<InvalidFrameLength>) {
    let mut frames = Frames::default();
    let mut out = Vec::new();
    for part in bytes.chunks(step) {
        frames.push(part);
        loop {
            match frames.pop() {
                Ok(Some(frame)) => out.push(frame),
                Ok(None) => break,
                Err(error) => return (out, Some(error)),
            }
        }
    }
    (out, None)
}

/// The next connect request contains exactly the session and password that the server granted.
fn check_connect_response(bytes: &[u8]) {
    let mut input = Parser(bytes);
    let expected =
        (|| Some((input.int()?, input.int()?, input.long()?, input.buffer()?.to_vec())))();
    let granted = wire::parse_connect_response(bytes);
    assert_eq!(granted.is_ok(), expected.is_some());
    let Some((_, timeout, session, password)) = expected else { return };
    let grant = granted.expect("the response was decoded above");
    assert_eq!(grant.is_some(), timeout > 0 && session != 0, "{timeout} {session}");
    let Some(grant) = grant else { return };
    assert_eq!(
        (grant.session.cast_signed(), grant.timeout.as_millis()),
        (session, timeout.cast_unsigned().into())
    );
    let hello = wire::connect_request(Some(&grant), Duration::from_secs(1), 7);
    let mut hello = Parser(&hello[16..]);
    let sent = (hello.int(), hello.long(), hello.buffer());
    assert_eq!(sent, (Some(1000), Some(session), Some(&*password)));
}

fn check_reply(bytes: &[u8]) {
    let mut input = Parser(bytes);
    let header = (|| Some((input.int()?, input.long()?, input.int()?)))();
    let received = wire::parse_message(bytes);
    let Some((xid, zxid, code)) = header else { return assert!(received.is_err()) };
    let Ok((message, last_zxid)) = received else {
        return assert_eq!(xid, -1, "only a watch event can be malformed behind its header");
    };
    match message {
        ServerMessage::WatchFired => assert_eq!((xid, last_zxid), (-1, None)),
        ServerMessage::Reply(number, Ok(body)) => {
            assert_eq!((number, 0, body), (xid, code, input.0));
        }
        ServerMessage::Reply(number, Err(_)) => {
            assert!(number == xid && code != 0, "{number} {code}");
        }
    }
    assert!(last_zxid.is_none_or(|last| last == zxid && zxid > 0), "{last_zxid:?}");
}

fn check_reply_bodies(bytes: &[u8]) {
    let path = || "/o".to_owned();
    let names = {
        let mut input = Parser(bytes);
        input
            .length()
            .and_then(|count| (0..count).map(|_| input.buffer()).collect::<Option<Vec<_>>>())
    };
    let names = names.map(|names| names.into_iter().map(lossy).collect());
    assert_eq!(decode(&GetChildren { path: path() }, bytes), names);

    let mut input = Parser(bytes);
    let node = (|| {
        let data = input.buffer()?;
        let stat = input.take(68)?;
        let number =
            |at: usize| u64::from_be_bytes(stat[at..at + 8].try_into().expect("eight bytes"));
        Some((
            data.to_vec(),
            number(0),
            Some(number(44)).filter(|owner| !matches!(owner, 0 | 0x8000_0000_0000_0000)),
        ))
    })();
    let read = decode(&GetData { path: path(), watch: true }, bytes)
        .map(|node| (node.data, node.czxid, node.owner));
    assert_eq!(read, node);

    let own = decode(&create(), bytes);
    assert_eq!(own, Parser(bytes).buffer().map(lossy));
    let mut input = Parser(bytes);
    let access = (|| {
        let count = input.length()?;
        let mut entry = || Some((input.int()?, lossy(input.buffer()?), lossy(input.buffer()?)));
        let entries = (0..count).map(|_| entry()).collect::<Option<Vec<_>>>()?;
        let stat = input.take(44)?;
        Some((entries, i32::from_be_bytes(stat[40..].try_into().expect("four bytes"))))
    })();
    let read = decode(&GetAcl { path: path() }, bytes).map(|list| {
        let entries =
            list.entries.into_iter().map(|entry| (entry.permissions, entry.scheme, entry.id));
        (entries.collect(), list.version)
    });
    assert_eq!(read, access);
    assert_eq!(decode(&Sasl(Vec::new()), bytes), Parser(bytes).buffer().map(<[u8]>::to_vec));
}

/// A claim depends on this reply: it counts as done if and only if every part succeeded.
fn check_transaction(bytes: &[u8]) {
    let (check, delete) = (Op::Check("/o".to_owned()), Op::Delete("/o".to_owned()));
    for parts in [vec![check.clone()], vec![check, delete, Op::Create(create())]] {
        let codes = &[13, 2, 1][..parts.len()];
        let mut input = Parser(bytes);
        let answers = |op: i32| {
            let is_header =
                input.int() == Some(op) && input.byte() == Some(0) && input.int().is_some();
            is_header && (op != 1 || input.buffer().is_some())
        };
        let is_done = codes.iter().copied().all(answers);
        let is_done = is_done
            && input.int().is_some()
            && input.byte().is_some_and(|end| end != 0)
            && input.int().is_some();
        let count = parts.len();
        match decode(&Multi(parts), bytes) {
            Some(Ok(())) => assert!(is_done, "a failed transaction counted as done"),
            Some(Err(refusal)) => assert!(!is_done && refusal.index < count, "{refusal:?}"),
            None => assert!(!is_done, "a successful transaction counted as failed"),
        }
    }
}

fn create() -> Create {
    Create {
        path: "/o".to_owned(),
        data: Vec::new(),
        mode: CreateMode::Ephemeral,
        access: Access::Open,
    }
}

fn decode<R: Operation>(request: &R, bytes: &[u8]) -> Option<R::Reply> {
    request.decode(&mut Decoder::new(bytes)).ok()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A parser written from ZooKeeper's documentation.
struct Parser<'a>(&'a [u8]);

impl<'a> Parser<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.0.get(..length)?;
        self.0 = &self.0[length..];
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn int(&mut self) -> Option<i32> {
        self.take(4).map(|bytes| i32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    fn long(&mut self) -> Option<i64> {
        self.take(8).map(|bytes| i64::from_be_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn length(&mut self) -> Option<usize> {
        match self.int()? {
            -1 => Some(0),
            length => usize::try_from(length).ok(),
        }
    }

    fn buffer(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }
}
