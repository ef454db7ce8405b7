//! What an election asks of ZooKeeper's servers, and how each reply is read.
//!
//! Pure. The names of the fields are those of `zookeeper.jute` in ZooKeeper's source.

use crate::jute::{Malformed, Reader, Writer};
use crate::wire::{Code, Request};

/// Makes a znode; the reply is its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// Its path, to which the server appends ten digits where `kind` says so.
    pub path: String,
    /// What it holds.
    pub data: Vec<u8>,
    /// How long it lives.
    pub kind: Kind,
    /// Who may do what with it.
    pub access: Access,
}

/// How long a znode lives, and what its name becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Until it is deleted.
    Persistent,
    /// As long as the session.
    Ephemeral,
    /// As long as the session, with a number of ten digits behind its name that grows.
    EphemeralSequential,
}

/// Who may do what with a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever reaches the servers may do everything.
    Open,
    /// Who has our credentials may do everything, everybody else may read: candidates must see each other.
    Creator,
}

impl Access {
    fn encode(self, frame: &mut Writer) {
        const READ: i32 = 1;
        const ALL: i32 = 31;
        let entries: &[(i32, &str, &str)] = match self {
            Self::Open => &[(ALL, "world", "anyone")],
            Self::Creator => &[(ALL, "auth", ""), (READ, "world", "anyone")],
        };
        frame.int(i32::try_from(entries.len()).expect("two at the most"));
        for (permissions, scheme, id) in entries {
            frame.int(*permissions).text(scheme).text(id);
        }
    }
}

impl Request for Create {
    type Reply = String;
    const OP: i32 = 1;

    fn encode(&self, frame: &mut Writer) {
        frame.text(&self.path).buffer(&self.data);
        self.access.encode(frame);
        frame.int(match self.kind {
            Kind::Persistent => 0,
            Kind::Ephemeral => 1,
            Kind::EphemeralSequential => 3,
        });
    }

    fn decode(&self, reply: &mut Reader<'_>) -> Result<String, Malformed> {
        reply.text()
    }
}

/// Makes a znode that the servers remove some time after its last child is gone. Servers before 3.5.3 do not know how
/// ([`Code::Unimplemented`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateContainer {
    /// Its path.
    pub path: String,
    /// Who may do what with it.
    pub access: Access,
}

impl Request for CreateContainer {
    type Reply = ();
    const OP: i32 = 19;

    fn encode(&self, frame: &mut Writer) {
        frame.text(&self.path).buffer(&[]);
        self.access.encode(frame);
        frame.int(4);
    }

    fn decode(&self, _reply: &mut Reader<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Lists the names of a znode's children, in no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// Its path.
    pub path: String,
}

impl Request for Children {
    type Reply = Vec<String>;
    const OP: i32 = 8;

    fn encode(&self, frame: &mut Writer) {
        frame.text(&self.path).bool(false);
    }

    fn decode(&self, reply: &mut Reader<'_>) -> Result<Vec<String>, Malformed> {
        reply.list(Reader::text)
    }
}

/// Reads a znode, and may set a watch on it, which fires once. Where there is no znode there is no watch either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Its path.
    pub path: String,
    /// Whether to set a watch.
    pub watch: bool,
}

/// A znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it holds.
    pub data: Vec<u8>,
    /// The transaction that made it: larger than that of everything made before, in the whole ensemble.
    pub czxid: u64,
    /// The session that it ends with; none for one that lives on its own.
    pub owner: Option<u64>,
}

impl Request for Read {
    type Reply = Node;
    const OP: i32 = 4;

    fn encode(&self, frame: &mut Writer) {
        frame.text(&self.path).bool(self.watch);
    }

    fn decode(&self, reply: &mut Reader<'_>) -> Result<Node, Malformed> {
        let data = reply.buffer()?.to_vec();
        let czxid = reply.long()?.cast_unsigned();
        let (_mzxid, _ctime, _mtime) = (reply.long()?, reply.long()?, reply.long()?);
        let (_version, _cversion, _aversion) = (reply.int()?, reply.int()?, reply.int()?);
        let owner = reply.long()?.cast_unsigned();
        let (_length, _children, _pzxid) = (reply.int()?, reply.int()?, reply.long()?);
        // A container says so with the highest bit alone.
        Ok(Node { data, czxid, owner: (owner << 1 != 0).then_some(owner) })
    }
}

/// Several things in one transaction: all of them are done, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Together(pub Vec<Part>);

/// One thing of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Holds when there is a znode at this path.
    Check(String),
    /// Deletes a znode.
    Delete(String),
    /// Makes a znode.
    Create(Create),
}

impl Part {
    const fn op(&self) -> i32 {
        const CHECK: i32 = 13;
        const DELETE: i32 = 2;
        match self {
            Self::Check(_) => CHECK,
            Self::Delete(_) => DELETE,
            Self::Create(_) => Create::OP,
        }
    }
}

/// Which part was refused, counted from 0, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The part.
    pub part: usize,
    /// Why.
    pub code: Code,
}

impl Request for Together {
    type Reply = Result<(), Refusal>;
    const OP: i32 = 14;

    fn encode(&self, frame: &mut Writer) {
        const ANY_VERSION: i32 = -1;
        for part in &self.0 {
            frame.int(part.op()).bool(false).int(-1);
            match part {
                Part::Check(path) | Part::Delete(path) => _ = frame.text(path).int(ANY_VERSION),
                Part::Create(create) => create.encode(frame),
            }
        }
        frame.int(-1).bool(true).int(-1);
    }

    fn decode(&self, reply: &mut Reader<'_>) -> Result<Result<(), Refusal>, Malformed> {
        const FAILED: i32 = -1;
        let header = |reply: &mut Reader<'_>| Ok((reply.int()?, reply.bool()?, reply.int()?));
        let (mut has_failed, mut refusal) = (false, None);
        for (part, asked) in self.0.iter().enumerate() {
            let (op, is_end, _code) = header(reply)?;
            match op {
                // Each part of a transaction that failed is answered so: those before the refused one with 0, and
                // those behind it with an error that only says that another failed.
                FAILED if !is_end => {
                    has_failed = true;
                    refusal = refusal.or(Code::of(reply.int()?).map(|code| Refusal { part, code }));
                }
                op if is_end || op != asked.op() => return Err(Malformed::Operation(op)),
                Create::OP => drop(reply.text()?),
                _ => {}
            }
        }
        match (header(reply)?, refusal) {
            ((_, true, _), Some(refusal)) => Ok(Err(refusal)),
            ((_, true, _), None) if !has_failed => Ok(Ok(())),
            ((op, _, _), _) => Err(Malformed::Operation(op)),
        }
    }
}

/// Ends the session, and with it everything that lives as long as it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close;

impl Request for Close {
    type Reply = ();
    const OP: i32 = -11;

    fn encode(&self, _frame: &mut Writer) {}

    fn decode(&self, _reply: &mut Reader<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// One step of SASL; the reply is the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl(pub Vec<u8>);

impl Request for Sasl {
    type Reply = Vec<u8>;
    const OP: i32 = 102;

    fn encode(&self, frame: &mut Writer) {
        frame.buffer(&self.0);
    }

    fn decode(&self, reply: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
        reply.buffer().map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::bytes;
    use crate::wire;

    const OWN: &str = "/o/_c_x-latch-0000000000";
    const OWN_HEX: &str = "00000018 2f6f2f5f635f782d6c617463682d30303030303030303030";
    const OPEN: &str = "00000001 0000001f 00000005776f726c64 00000006616e796f6e65";

    fn create(path: &str, data: &[u8], kind: Kind, access: Access) -> Create {
        Create { path: path.to_owned(), data: data.to_vec(), kind, access }
    }

    #[track_caller]
    fn asks<R: Request>(xid: i32, request: &R, expected: &str) {
        let frame = wire::ask(xid, request);
        assert_eq!(frame[4..], bytes(expected));
        assert_eq!(frame[..4], u32::try_from(frame.len() - 4).unwrap().to_be_bytes());
    }

    fn reads<R: Request>(request: &R, reply: &str) -> Result<R::Reply, Malformed> {
        request.decode(&mut Reader::new(&bytes(reply)))
    }

    #[test]
    fn requests_are_written_as_kazoo_writes_them() {
        let own = create("/o/_c_x-latch-", b"me", Kind::EphemeralSequential, Access::Open);
        let path = "0000000e 2f6f2f5f635f782d6c617463682d";
        asks(2, &own, &format!("00000002 00000001 {path} 000000026d65 {OPEN} 00000003"));
        let mine = create("/o/mine", b"x", Kind::Ephemeral, Access::Creator);
        let creator = "00000002 0000001f 0000000461757468 00000000 00000001 00000005776f726c64 00000006616e796f6e65";
        asks(
            11,
            &mine,
            &format!("0000000b 00000001 000000072f6f2f6d696e65 0000000178 {creator} 00000001"),
        );
        asks(3, &Children { path: "/o".to_owned() }, "00000003 00000008 000000022f6f 00");
        asks(
            4,
            &Read { path: OWN.to_owned(), watch: true },
            &format!("00000004 00000004 {OWN_HEX} 01"),
        );
        asks(12, &Close, "0000000c fffffff5");
        let container = CreateContainer { path: "/o".to_owned(), access: Access::Open };
        asks(1, &container, &format!("00000001 00000013 000000022f6f 00000000 {OPEN} 00000004"));
    }

    #[test]
    fn several_things_are_written_in_one_request() {
        let leader = create("/o_leader", b"me 7", Kind::Ephemeral, Access::Open);
        let all = [
            Part::Check(OWN.to_owned()),
            Part::Delete("/o_leader".to_owned()),
            Part::Create(leader),
        ];
        let check = format!("0000000d 00 ffffffff {OWN_HEX} ffffffff");
        let delete = "00000002 00 ffffffff 00000009 2f6f5f6c6561646572 ffffffff";
        let create = format!(
            "00000001 00 ffffffff 00000009 2f6f5f6c6561646572 000000046d652037 {OPEN} 00000001"
        );
        asks(
            5,
            &Together(all.into()),
            &format!("00000005 0000000e {check} {delete} {create} ffffffff 01 ffffffff"),
        );
    }

    #[test]
    fn replies_are_read_as_a_server_of_3_9_5_writes_them() {
        let own = create("/o/_c_x-latch-", b"me", Kind::EphemeralSequential, Access::Open);
        assert_eq!(reads(&own, OWN_HEX), Ok(OWN.to_owned()));
        let names = "00000003 000000097a6f6f6b6565706572 00000004636f6e74 000000016f";
        let children = Children { path: "/".to_owned() };
        assert_eq!(
            reads(&children, names),
            Ok(["zookeeper", "cont", "o"].map(str::to_owned).into())
        );
        let own = Read { path: OWN.to_owned(), watch: false };
        let node = "000000026d65 0000000000000003 0000000000000003 000001a1fec5f4f4 000001a1fec5f4f4 00000000 00000000 \
                    00000000 010000b3d9ee0000 00000002 00000000 0000000000000003";
        assert_eq!(
            reads(&own, node),
            Ok(Node { data: b"me".into(), czxid: 3, owner: Some(0x0100_00b3_d9ee_0000) })
        );
        let container = "00000000 000000000000000c 000000000000000c 000001a1fec5fa4a 000001a1fec5fa4a 00000000 00000000 \
                         00000000 8000000000000000 00000000 00000000 000000000000000c";
        assert_eq!(reads(&own, container), Ok(Node { data: Vec::new(), czxid: 12, owner: None }));
    }

    #[test]
    fn of_several_things_the_one_that_was_refused_is_named() {
        let acknowledge = Together(vec![
            Part::Check(OWN.to_owned()),
            Part::Create(create("/o_leader", b"me 7", Kind::Ephemeral, Access::Open)),
        ]);
        let done = "0000000d 00 00000000 00000001 00 00000000 00000009 2f6f5f6c6561646572 ffffffff 01 ffffffff";
        assert_eq!(reads(&acknowledge, done), Ok(Ok(())));
        let second =
            "ffffffff 00 00000000 00000000 ffffffff 00 ffffff92 ffffff92 ffffffff 01 ffffffff";
        assert_eq!(
            reads(&acknowledge, second),
            Ok(Err(Refusal { part: 1, code: Code::NodeExists }))
        );
        let first =
            "ffffffff 00 ffffff9b ffffff9b ffffffff 00 fffffffe fffffffe ffffffff 01 ffffffff";
        assert_eq!(reads(&acknowledge, first), Ok(Err(Refusal { part: 0, code: Code::NoNode })));
    }

    /// A claim hangs on this reply.
    #[test]
    fn several_things_are_done_only_where_each_of_them_is_answered() {
        let check = Together(vec![Part::Check(OWN.to_owned())]);
        let end = "ffffffff 01 ffffffff";
        assert_eq!(reads(&check, &format!("0000000d 00 00000000 {end}")), Ok(Ok(())));
        for (reply, why) in [
            (end.to_owned(), Malformed::Operation(-1)),
            (format!("00000002 00 00000000 {end}"), Malformed::Operation(2)),
            (format!("0000000d 00 00000000 0000000d 00 00000000 {end}"), Malformed::Operation(13)),
            (format!("ffffffff 00 00000000 00000000 {end}"), Malformed::Operation(-1)),
            ("0000000d 00 00000000".to_owned(), Malformed::TooShort),
        ] {
            assert_eq!(reads(&check, &reply), Err(why), "{reply}");
        }
    }
}
