//! What ZooKeeper's servers send, as bytes: frames, first words, replies. Judged by a reader of our own, which shares nothing
//! with the one that ships.

use std::time::Duration;
use zookeeper_client::access::GetAcl;
use zookeeper_client::frames::{Frames, InvalidFrameLength};
use zookeeper_client::jute::Decoder;
use zookeeper_client::operations::{
    Access, Create, CreateMode, GetChildren, GetData, Multi, Op, Sasl,
};
use zookeeper_client::wire;
use zookeeper_client::wire::{Operation, ServerMessage};

/// The longest frame that is read.
const LONGEST: i32 = 4 << 20;

pub(super) fn read(bytes: &[u8]) {
    frames_come_out_whole(bytes);
    a_session_is_as_it_was_granted(bytes);
    a_reply_keeps_its_number_and_its_body(bytes);
    names_and_znodes_are_as_they_were_sent(bytes);
    a_transaction_is_done_where_each_part_is_answered(bytes);
}

/// However the bytes arrive: nothing is lost before a frame, within it or behind it.
fn frames_come_out_whole(bytes: &[u8]) {
    let mut expected = Vec::new();
    let mut rest = Cut(bytes);
    let refused = loop {
        match rest.int() {
            Some(told) if !(0..=LONGEST).contains(&told) => break true,
            Some(told) => match rest.take(told.cast_unsigned() as usize) {
                Some(body) => expected.push(body),
                None => break false,
            },
            None => break false,
        }
    };
    for step in [bytes.len().max(1), 1, 5] {
        let (frames, error) = cut(bytes, step);
        assert_eq!(frames, expected, "in steps of {step}");
        assert_eq!(error.is_some(), refused, "in steps of {step}: {error:?}");
    }
}

fn cut(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<InvalidFrameLength>) {
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

/// The next server is shown the very session and password that this one gave.
fn a_session_is_as_it_was_granted(bytes: &[u8]) {
    let mut told = Cut(bytes);
    let expected = (|| Some((told.int()?, told.int()?, told.long()?, told.buffer()?.to_vec())))();
    let granted = wire::parse_connect_response(bytes);
    assert_eq!(granted.is_ok(), expected.is_some());
    let Some((_, timeout, session, password)) = expected else { return };
    let grant = granted.expect("it was just looked at");
    assert_eq!(grant.is_some(), timeout > 0 && session != 0, "{timeout} {session}");
    let Some(grant) = grant else { return };
    assert_eq!(
        (grant.session.cast_signed(), grant.timeout.as_millis()),
        (session, timeout.cast_unsigned().into())
    );
    let hello = wire::connect_request(Some(&grant), Duration::from_secs(1), 7);
    let mut hello = Cut(&hello[16..]);
    let shown = (hello.int(), hello.long(), hello.buffer());
    assert_eq!(shown, (Some(1000), Some(session), Some(&*password)));
}

fn a_reply_keeps_its_number_and_its_body(bytes: &[u8]) {
    let mut told = Cut(bytes);
    let header = (|| Some((told.int()?, told.long()?, told.int()?)))();
    let received = wire::parse_message(bytes);
    let Some((xid, zxid, code)) = header else { return assert!(received.is_err()) };
    let Ok((what, known)) = received else {
        return assert_eq!(xid, -1, "only news have more to be malformed in");
    };
    match what {
        ServerMessage::WatchFired => assert_eq!((xid, known), (-1, None)),
        ServerMessage::Reply(number, Ok(body)) => {
            assert_eq!((number, 0, body), (xid, code, told.0));
        }
        ServerMessage::Reply(number, Err(_)) => {
            assert!(number == xid && code != 0, "{number} {code}");
        }
    }
    assert!(known.is_none_or(|known| known == zxid && zxid > 0), "{known:?}");
}

fn names_and_znodes_are_as_they_were_sent(bytes: &[u8]) {
    let path = || "/o".to_owned();
    let names = {
        let mut told = Cut(bytes);
        told.length()
            .and_then(|count| (0..count).map(|_| told.buffer()).collect::<Option<Vec<_>>>())
    };
    let names = names.map(|names| names.into_iter().map(lossy).collect());
    assert_eq!(decode(&GetChildren { path: path() }, bytes), names);

    let mut told = Cut(bytes);
    let node = (|| {
        let data = told.buffer()?;
        let stat = told.take(68)?;
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
    assert_eq!(own, Cut(bytes).buffer().map(lossy));
    let mut told = Cut(bytes);
    let access = (|| {
        let count = told.length()?;
        let mut entry = || Some((told.int()?, lossy(told.buffer()?), lossy(told.buffer()?)));
        let entries = (0..count).map(|_| entry()).collect::<Option<Vec<_>>>()?;
        let stat = told.take(44)?;
        Some((entries, i32::from_be_bytes(stat[40..].try_into().expect("four bytes"))))
    })();
    let read = decode(&GetAcl { path: path() }, bytes).map(|list| {
        let entries =
            list.entries.into_iter().map(|entry| (entry.permissions, entry.scheme, entry.id));
        (entries.collect(), list.version)
    });
    assert_eq!(read, access);
    assert_eq!(decode(&Sasl(Vec::new()), bytes), Cut(bytes).buffer().map(<[u8]>::to_vec));
}

/// A claim hangs on this reply: it must not be taken for done when it is not, nor the other way round.
fn a_transaction_is_done_where_each_part_is_answered(bytes: &[u8]) {
    let (check, delete) = (Op::Check("/o".to_owned()), Op::Delete("/o".to_owned()));
    for parts in [vec![check.clone()], vec![check, delete, Op::Create(create())]] {
        let codes = &[13, 2, 1][..parts.len()];
        let mut told = Cut(bytes);
        let answers = |op: i32| {
            let is_header =
                told.int() == Some(op) && told.byte() == Some(0) && told.int().is_some();
            is_header && (op != 1 || told.buffer().is_some())
        };
        let is_done = codes.iter().copied().all(answers);
        let is_done = is_done
            && told.int().is_some()
            && told.byte().is_some_and(|end| end != 0)
            && told.int().is_some();
        let count = parts.len();
        match decode(&Multi(parts), bytes) {
            Some(Ok(())) => assert!(is_done, "this was not done"),
            Some(Err(refusal)) => assert!(!is_done && refusal.index < count, "{refusal:?}"),
            None => assert!(!is_done, "this was done"),
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

/// A reader of what ZooKeeper's documentation says, for the judge.
struct Cut<'a>(&'a [u8]);

impl<'a> Cut<'a> {
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
