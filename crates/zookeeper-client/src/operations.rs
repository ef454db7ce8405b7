//! The operations this client supports: how each request is written and each reply read.
//!
//! Pure. Start with [`Create`]. Fields have the names of `zookeeper.jute` in ZooKeeper's source.

use crate::jute::{Decoder, Encoder, Malformed};
use crate::wire::{Code, Operation};

/// Creates a znode; the reply is its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// The path, to which the server appends ten digits if `mode` is sequential.
    pub path: String,
    /// The content.
    pub data: Vec<u8>,
    /// The lifetime and the kind of name.
    pub mode: CreateMode,
    /// The access list.
    pub access: Access,
}

/// How long a znode lives, and whether the server completes its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateMode {
    /// It lives until it is deleted.
    Persistent,
    /// It lives as long as the session.
    Ephemeral,
    /// It lives as long as the session, and the server appends an increasing ten-digit number.
    EphemeralSequential,
}

/// The access list of a new znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anyone may do anything (ZooKeeper's `OPEN_ACL_UNSAFE`).
    Open,
    /// The holders of this client's credentials may do anything; anyone may read.
    Creator,
}

impl Access {
    fn encode(self, frame: &mut Encoder) {
        const READ: i32 = 1;
        const ALL: i32 = 31;
        let entries: &[(i32, &str, &str)] = match self {
            Self::Open => &[(ALL, "world", "anyone")],
            Self::Creator => &[(ALL, "auth", ""), (READ, "world", "anyone")],
        };
        frame.int(i32::try_from(entries.len()).expect("at most two entries"));
        for (permissions, scheme, id) in entries {
            frame.int(*permissions).text(scheme).text(id);
        }
    }
}

impl Operation for Create {
    type Reply = String;
    const OP: i32 = 1;

    fn encode(&self, frame: &mut Encoder) {
        frame.text(&self.path).buffer(&self.data);
        self.access.encode(frame);
        frame.int(match self.mode {
            CreateMode::Persistent => 0,
            CreateMode::Ephemeral => 1,
            CreateMode::EphemeralSequential => 3,
        });
    }

    fn decode(&self, reply: &mut Decoder<'_>) -> Result<String, Malformed> {
        reply.text()
    }
}

/// Creates a znode that the servers remove some time after its last child is gone.
///
/// Servers before 3.5.3 answer [`Code::Unimplemented`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateContainer {
    /// The path.
    pub path: String,
    /// The access list.
    pub access: Access,
}

impl Operation for CreateContainer {
    type Reply = ();
    const OP: i32 = 19;

    fn encode(&self, frame: &mut Encoder) {
        frame.text(&self.path).buffer(&[]);
        self.access.encode(frame);
        frame.int(4);
    }

    fn decode(&self, _reply: &mut Decoder<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Lists the names of a znode's children, in no particular order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetChildren {
    /// The path.
    pub path: String,
}

impl Operation for GetChildren {
    type Reply = Vec<String>;
    const OP: i32 = 8;

    fn encode(&self, frame: &mut Encoder) {
        frame.text(&self.path).bool(false);
    }

    fn decode(&self, reply: &mut Decoder<'_>) -> Result<Vec<String>, Malformed> {
        reply.list(Decoder::text)
    }
}

/// Reads a znode, and optionally sets a watch on it, which fires once. A missing znode gets no
/// watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetData {
    /// The path.
    pub path: String,
    /// Whether to set a watch.
    pub watch: bool,
}

/// A znode as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Znode {
    /// The content.
    pub data: Vec<u8>,
    /// The transaction that created it; larger than that of any earlier creation in the ensemble.
    pub czxid: u64,
    /// The session that an ephemeral znode belongs to.
    pub owner: Option<u64>,
}

impl Operation for GetData {
    type Reply = Znode;
    const OP: i32 = 4;

    fn encode(&self, frame: &mut Encoder) {
        frame.text(&self.path).bool(self.watch);
    }

    fn decode(&self, reply: &mut Decoder<'_>) -> Result<Znode, Malformed> {
        let data = reply.buffer()?.to_vec();
        let czxid = reply.long()?.cast_unsigned();
        let (_mzxid, _ctime, _mtime) = (reply.long()?, reply.long()?, reply.long()?);
        let (_version, _cversion, _aversion) = (reply.int()?, reply.int()?, reply.int()?);
        let owner = reply.long()?.cast_unsigned();
        let (_length, _children, _pzxid) = (reply.int()?, reply.int()?, reply.long()?);
        // A container has only the highest bit set.
        Ok(Znode { data, czxid, owner: (owner << 1 != 0).then_some(owner) })
    }
}

/// A transaction: the server performs all of its operations, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multi(pub Vec<Op>);

/// An operation in a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Succeeds if the znode exists.
    Check(String),
    /// Deletes the znode.
    Delete(String),
    /// Creates a znode.
    Create(Create),
}

impl Op {
    const fn code(&self) -> i32 {
        const CHECK: i32 = 13;
        const DELETE: i32 = 2;
        match self {
            Self::Check(_) => CHECK,
            Self::Delete(_) => DELETE,
            Self::Create(_) => Create::OP,
        }
    }
}

/// The operation for which the server refused a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpFailure {
    /// Its position, from 0.
    pub index: usize,
    /// The error.
    pub code: Code,
}

impl Operation for Multi {
    type Reply = Result<(), OpFailure>;
    const OP: i32 = 14;

    fn encode(&self, frame: &mut Encoder) {
        const ANY_VERSION: i32 = -1;
        for op in &self.0 {
            frame.int(op.code()).bool(false).int(-1);
            match op {
                Op::Check(path) | Op::Delete(path) => _ = frame.text(path).int(ANY_VERSION),
                Op::Create(create) => create.encode(frame),
            }
        }
        frame.int(-1).bool(true).int(-1);
    }

    fn decode(&self, reply: &mut Decoder<'_>) -> Result<Result<(), OpFailure>, Malformed> {
        const FAILED: i32 = -1;
        let header = |reply: &mut Decoder<'_>| Ok((reply.int()?, reply.bool()?, reply.int()?));
        let (mut has_failed, mut failure) = (false, None);
        for (index, expected) in self.0.iter().enumerate() {
            let (code, is_end, _error) = header(reply)?;
            match code {
                // A failed transaction has an error in place of each result: zero before the
                // refused operation, and after it an error that only says that another operation
                // failed.
                FAILED if !is_end => {
                    has_failed = true;
                    failure =
                        failure.or(Code::of(reply.int()?).map(|code| OpFailure { index, code }));
                }
                code if is_end || code != expected.code() => {
                    return Err(Malformed::Operation(code));
                }
                Create::OP => drop(reply.text()?),
                _ => {}
            }
        }
        match (header(reply)?, failure) {
            ((_, true, _), Some(failure)) => Ok(Err(failure)),
            ((_, true, _), None) if !has_failed => Ok(Ok(())),
            ((code, _, _), _) => Err(Malformed::Operation(code)),
        }
    }
}

/// Ends the session and deletes its ephemeral znodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseSession;

impl Operation for CloseSession {
    type Reply = ();
    const OP: i32 = -11;

    fn encode(&self, _frame: &mut Encoder) {}

    fn decode(&self, _reply: &mut Decoder<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// One step of a SASL exchange; the reply is the server's next token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl(pub Vec<u8>);

impl Operation for Sasl {
    type Reply = Vec<u8>;
    const OP: i32 = 102;

    fn encode(&self, frame: &mut Encoder) {
        frame.buffer(&self.0);
    }

    fn decode(&self, reply: &mut Decoder<'_>) -> Result<Vec<u8>, Malformed> {
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

    fn create(path: &str, data: &[u8], mode: CreateMode, access: Access) -> Create {
        Create { path: path.to_owned(), data: data.to_vec(), mode, access }
    }

    #[track_caller]
    fn assert_written<R: Operation>(xid: i32, request: &R, expected: &str) {
        let frame = wire::request(xid, request);
        assert_eq!(frame[4..], bytes(expected));
        assert_eq!(frame[..4], u32::try_from(frame.len() - 4).unwrap().to_be_bytes());
    }

    fn decoded<R: Operation>(request: &R, reply: &str) -> Result<R::Reply, Malformed> {
        request.decode(&mut Decoder::new(&bytes(reply)))
    }

    #[test]
    fn requests_match_kazoo() {
        let own = create("/o/_c_x-latch-", b"me", CreateMode::EphemeralSequential, Access::Open);
        let path = "0000000e 2f6f2f5f635f782d6c617463682d";
        assert_written(2, &own, &format!("00000002 00000001 {path} 000000026d65 {OPEN} 00000003"));
        let mine = create("/o/mine", b"x", CreateMode::Ephemeral, Access::Creator);
        let creator = "00000002 0000001f 0000000461757468 00000000 00000001 00000005776f726c64 \
                       00000006616e796f6e65";
        assert_written(
            11,
            &mine,
            &format!("0000000b 00000001 000000072f6f2f6d696e65 0000000178 {creator} 00000001"),
        );
        assert_written(
            3,
            &GetChildren { path: "/o".to_owned() },
            "00000003 00000008 000000022f6f 00",
        );
        assert_written(
            4,
            &GetData { path: OWN.to_owned(), watch: true },
            &format!("00000004 00000004 {OWN_HEX} 01"),
        );
        assert_written(12, &CloseSession, "0000000c fffffff5");
        let container = CreateContainer { path: "/o".to_owned(), access: Access::Open };
        assert_written(
            1,
            &container,
            &format!("00000001 00000013 000000022f6f 00000000 {OPEN} 00000004"),
        );
    }

    #[test]
    fn multi_is_written_as_one_request() {
        let leader = create("/o_leader", b"me 7", CreateMode::Ephemeral, Access::Open);
        let operations =
            [Op::Check(OWN.to_owned()), Op::Delete("/o_leader".to_owned()), Op::Create(leader)];
        let check = format!("0000000d 00 ffffffff {OWN_HEX} ffffffff");
        let delete = "00000002 00 ffffffff 00000009 2f6f5f6c6561646572 ffffffff";
        let create = format!(
            "00000001 00 ffffffff 00000009 2f6f5f6c6561646572 000000046d652037 {OPEN} 00000001"
        );
        assert_written(
            5,
            &Multi(operations.into()),
            &format!("00000005 0000000e {check} {delete} {create} ffffffff 01 ffffffff"),
        );
    }

    #[test]
    fn replies_of_server_3_9_5_are_read() {
        let own = create("/o/_c_x-latch-", b"me", CreateMode::EphemeralSequential, Access::Open);
        assert_eq!(decoded(&own, OWN_HEX), Ok(OWN.to_owned()));
        let names = "00000003 000000097a6f6f6b6565706572 00000004636f6e74 000000016f";
        let children = GetChildren { path: "/".to_owned() };
        assert_eq!(
            decoded(&children, names),
            Ok(["zookeeper", "cont", "o"].map(str::to_owned).into())
        );
        let own = GetData { path: OWN.to_owned(), watch: false };
        let node = "000000026d65 0000000000000003 0000000000000003 000001a1fec5f4f4 \
                    000001a1fec5f4f4 00000000 00000000 00000000 010000b3d9ee0000 00000002 \
                    00000000 0000000000000003";
        assert_eq!(
            decoded(&own, node),
            Ok(Znode { data: b"me".into(), czxid: 3, owner: Some(0x0100_00b3_d9ee_0000) })
        );
        let container = "00000000 000000000000000c 000000000000000c 000001a1fec5fa4a \
                         000001a1fec5fa4a 00000000 00000000 00000000 8000000000000000 00000000 \
                         00000000 000000000000000c";
        assert_eq!(
            decoded(&own, container),
            Ok(Znode { data: Vec::new(), czxid: 12, owner: None })
        );
    }

    #[test]
    fn failed_multi_names_the_refused_operation() {
        let announce = Multi(vec![
            Op::Check(OWN.to_owned()),
            Op::Create(create("/o_leader", b"me 7", CreateMode::Ephemeral, Access::Open)),
        ]);
        let done = "0000000d 00 00000000 00000001 00 00000000 00000009 2f6f5f6c6561646572 \
                    ffffffff 01 ffffffff";
        assert_eq!(decoded(&announce, done), Ok(Ok(())));
        let second =
            "ffffffff 00 00000000 00000000 ffffffff 00 ffffff92 ffffff92 ffffffff 01 ffffffff";
        assert_eq!(
            decoded(&announce, second),
            Ok(Err(OpFailure { index: 1, code: Code::NodeExists }))
        );
        let first =
            "ffffffff 00 ffffff9b ffffff9b ffffffff 00 fffffffe fffffffe ffffffff 01 ffffffff";
        assert_eq!(decoded(&announce, first), Ok(Err(OpFailure { index: 0, code: Code::NoNode })));
    }

    /// Exclusion depends on it: a claim counts from the reply to a check.
    #[test]
    fn multi_succeeds_only_if_every_operation_is_answered() {
        let check = Multi(vec![Op::Check(OWN.to_owned())]);
        let end = "ffffffff 01 ffffffff";
        assert_eq!(decoded(&check, &format!("0000000d 00 00000000 {end}")), Ok(Ok(())));
        for (reply, error) in [
            (end.to_owned(), Malformed::Operation(-1)),
            (format!("00000002 00 00000000 {end}"), Malformed::Operation(2)),
            (format!("0000000d 00 00000000 0000000d 00 00000000 {end}"), Malformed::Operation(13)),
            (format!("ffffffff 00 00000000 00000000 {end}"), Malformed::Operation(-1)),
            ("0000000d 00 00000000".to_owned(), Malformed::TooShort),
        ] {
            assert_eq!(decoded(&check, &reply), Err(error), "{reply}");
        }
    }
}
