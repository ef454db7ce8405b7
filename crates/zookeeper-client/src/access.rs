//! Access lists of znodes: how they are read and set, and what they let strangers do.
//!
//! Pure. Permissions are those of ZooKeeper's `ZooDefs.Perms`. The right to create or delete a
//! child is a right on its parent: a znode's own list protects its data only.
//!
//! The rule for an election's path: strangers only read, and only our credentials can decide the
//! election ([`DECISIVE`]). [`AccessList::is_open`] tests it, and [`AccessList::closed`]
//! establishes it.

use crate::jute::{Malformed, Reader, Writer};
use crate::wire::Request;
use std::fmt;

/// To read a znode's data and list its children.
const READ: i32 = 1;
/// To create a child.
const CREATE: i32 = 4;
/// To delete a child.
const DELETE: i32 = 8;
/// To set the access list.
const ADMIN: i32 = 16;
/// Everything.
const ALL: i32 = 31;

/// The rights that decide an election: to create or delete children, or to grant oneself both.
const DECISIVE: i32 = CREATE | DELETE | ADMIN;

/// How zkCli writes permissions, in its order.
const LETTERS: [(i32, char); 5] =
    [(CREATE, 'c'), (DELETE, 'd'), (READ, 'r'), (2, 'w'), (ADMIN, 'a')];

/// The rights of one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its permissions, as bits.
    pub permissions: i32,
    /// The scheme of the identity: `world`, `digest`, `sasl`, `x509`, `ip`, or `auth` for "our
    /// own".
    pub scheme: String,
    /// The identity.
    pub id: String,
}

/// A znode's access list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessList {
    /// Its entries.
    pub entries: Vec<Entry>,
    /// How often it was set: [`SetAccess`] compares it.
    pub version: i32,
}

/// Reads a znode's access list. Since ZooKeeper 3.4.14 this needs the right to read or to
/// administer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAccess {
    /// The znode's path.
    pub path: String,
}

/// Sets a znode's access list, if it still has this version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAccess {
    /// The znode's path.
    pub path: String,
    /// The list to set, and the version to replace.
    pub list: AccessList,
}

impl Entry {
    fn new(permissions: i32, scheme: &str, id: &str) -> Self {
        Self { permissions, scheme: scheme.to_owned(), id: id.to_owned() }
    }

    /// Whether servers hide this identity, because we may not administer the znode.
    fn is_masked(&self) -> bool {
        self.scheme == "digest" && self.id.ends_with(":x")
    }

    /// Whether this identity needs no secret: an address is one that a host can take.
    fn is_stranger(&self) -> bool {
        matches!(&*self.scheme, "world" | "ip")
    }

    const fn is_decisive(&self) -> bool {
        self.permissions & DECISIVE != 0
    }

    /// The identity without the hash of its password, for a log. A stranger may have chosen it.
    fn name(&self) -> String {
        let id = if self.scheme == "digest" {
            self.id.split(':').next().unwrap_or_default()
        } else {
            &self.id
        };
        format!("{}:{id}", self.scheme).escape_debug().to_string()
    }

    /// Whether an entry of `ours` has the same identity. A masked identity may be ours if it lacks
    /// ADMIN: the servers mask nothing for an administrator.
    fn is_among(&self, ours: &[Self]) -> bool {
        let may_be_ours = self.is_masked() && self.permissions & ADMIN == 0;
        let mut ours = ours.iter().filter(|own| own.is_decisive() && own.scheme == self.scheme);
        ours.any(|own| own.id == self.id || may_be_ours && own.name() == self.name())
    }
}

impl AccessList {
    /// Whether strangers may create or delete children, or grant themselves the right.
    pub fn is_open(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_stranger() && entry.is_decisive())
    }

    /// The same list with strangers limited to reading, and with nobody but us deciding elections.
    /// No entry survives where strangers had ADMIN: any of them may have planted it.
    #[must_use]
    pub fn closed(&self) -> Self {
        let others =
            self.entries.iter().filter(|entry| entry.scheme != "world" && !self.is_untrusted());
        let others = others
            .map(|entry| Entry { permissions: entry.permissions & !DECISIVE, ..entry.clone() });
        let others = others.filter(|entry| entry.permissions != 0);
        let entries = [Entry::new(ALL, "auth", "")].into_iter().chain(others);
        let entries = entries.chain([Entry::new(READ, "world", "anyone")]).collect();
        Self { entries, version: self.version }
    }

    /// The names of those from which [`AccessList::closed`] takes rights, beside `ours` and the
    /// world.
    pub fn deprived(&self, ours: &[Entry]) -> Vec<String> {
        let is_untrusted = self.is_untrusted();
        self.names(|entry| {
            entry.scheme != "world"
                && (is_untrusted || entry.is_decisive())
                && !entry.is_among(ours)
        })
    }

    /// The names of those beside `ours` that can decide elections.
    pub fn deciders(&self, ours: &[Entry]) -> Vec<String> {
        self.names(|entry| entry.is_decisive() && !entry.is_among(ours))
    }

    /// The names of those whose identities the servers hide from us. [`fmt::Display`] omits them.
    pub fn hidden(&self) -> Vec<String> {
        self.names(Entry::is_masked)
    }

    /// Whether strangers had ADMIN, so that any entry may be theirs.
    fn is_untrusted(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_stranger() && entry.permissions & ADMIN != 0)
    }

    fn names(&self, is_meant: impl Fn(&Entry) -> bool) -> Vec<String> {
        self.entries.iter().filter(|entry| is_meant(entry)).map(Entry::name).collect()
    }
}

/// As zkCli's `setAcl` takes it, without the entries that [`AccessList::hidden`] names.
impl fmt::Display for AccessList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.entries.iter().filter(|entry| !entry.is_masked());
        for (at, Entry { permissions, scheme, id }) in shown.enumerate() {
            let letters =
                LETTERS.iter().filter(|(bit, _)| permissions & bit != 0).map(|(_, letter)| letter);
            let letters: String = letters.collect();
            write!(f, "{}{scheme}:{id}:{letters}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl Request for ReadAccess {
    type Reply = AccessList;
    const OP: i32 = 6;

    fn encode(&self, frame: &mut Writer) {
        frame.text(&self.path);
    }

    fn decode(&self, reply: &mut Reader<'_>) -> Result<AccessList, Malformed> {
        let entry = |reply: &mut Reader<'_>| {
            Ok(Entry { permissions: reply.int()?, scheme: reply.text()?, id: reply.text()? })
        };
        let entries = reply.list(entry)?;
        let (_czxid, _mzxid, _ctime, _mtime) =
            (reply.long()?, reply.long()?, reply.long()?, reply.long()?);
        let (_version, _cversion, aversion) = (reply.int()?, reply.int()?, reply.int()?);
        Ok(AccessList { entries, version: aversion })
    }
}

impl Request for SetAccess {
    type Reply = ();
    const OP: i32 = 7;

    fn encode(&self, frame: &mut Writer) {
        let AccessList { entries, version } = &self.list;
        let count = i32::try_from(entries.len()).expect("a frame of at most 4 MiB held them");
        frame.text(&self.path).int(count);
        for Entry { permissions, scheme, id } in entries {
            frame.int(*permissions).text(scheme).text(id);
        }
        frame.int(*version);
    }

    fn decode(&self, _stat: &mut Reader<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::bytes;
    use crate::wire;

    fn list(entries: &[(i32, &str, &str)]) -> AccessList {
        let entries =
            entries.iter().map(|(permissions, scheme, id)| Entry::new(*permissions, scheme, id));
        AccessList { entries: entries.collect(), version: 3 }
    }

    #[test]
    fn strangers_meddle_by_create_delete_or_admin() {
        for (permissions, is_open) in
            [(31, true), (READ, false), (READ | 2, false), (4, true), (8, true), (16, true)]
        {
            for stranger in [(permissions, "world", "anyone"), (permissions, "ip", "10.0.0.0/8")] {
                assert_eq!(list(&[stranger]).is_open(), is_open, "{stranger:?}");
            }
            assert!(!list(&[(permissions, "digest", "shop:x")]).is_open(), "{permissions}");
        }
    }

    #[test]
    fn no_entry_survives_where_strangers_had_admin() {
        for open in [(ALL, "world", "anyone"), (ADMIN, "ip", "10.0.0.1")] {
            let open = list(&[open, (ALL, "digest", "evil:hash"), (READ, "sasl", "ops")]);
            let closed = open.closed();
            assert_eq!(closed.to_string(), "auth::cdrwa,world:anyone:r");
            assert!(!closed.is_open());
            assert_eq!(closed.version, 3);
        }
    }

    #[test]
    fn others_keep_only_harmless_rights_in_a_closed_list() {
        let open = [
            (CREATE | DELETE, "world", "anyone"),
            (ALL, "sasl", "ops"),
            (DELETE, "ip", "10.0.0.1"),
        ];
        assert_eq!(list(&open).closed().to_string(), "auth::cdrwa,sasl:ops:rw,world:anyone:r");
    }

    #[test]
    fn names_tell_who_loses_rights_who_decides_and_who_is_hidden() {
        let ours = list(&[(ALL, "digest", "shop:hash"), (READ, "world", "anyone")]).entries;
        let others =
            [(ALL, "digest", "shop:hash"), (ALL, "digest", "e\nvil:hash"), (READ, "sasl", "ops")];
        assert_eq!(list(&others).deprived(&ours), ["digest:e\\nvil"]);
        assert_eq!(list(&others).deciders(&ours), ["digest:e\\nvil"]);
        let open = [&[(ALL, "world", "anyone")], &others[..]].concat();
        assert_eq!(list(&open).deprived(&ours), ["digest:e\\nvil", "sasl:ops"]);
        let masked = list(&[(ALL, "digest", "ops:x"), (CREATE, "digest", "shop:x")]);
        assert_eq!(masked.hidden(), ["digest:ops", "digest:shop"]);
        assert_eq!(masked.deciders(&ours), ["digest:ops"]);
        assert_eq!(
            list(&[(ALL, "digest", "shop:x")]).deciders(&ours),
            ["digest:shop"],
            "we are no administrator"
        );
    }

    #[test]
    fn access_lists_are_read_and_written() {
        let frame = wire::ask(5, &ReadAccess { path: "/o".to_owned() });
        assert_eq!(frame[4..], bytes("00000005 00000006 000000022f6f"));
        let world = "00000001 0000001f 00000005776f726c64 00000006616e796f6e65";
        let stat = "000000000000000c 000000000000000c 000001a1fec5fa4a 000001a1fec5fa4a 00000000 00000000 \
                    00000003 8000000000000000 00000000 00000000 000000000000000c";
        let read = ReadAccess { path: "/o".to_owned() };
        let read = |hex: &str| read.decode(&mut Reader::new(&bytes(hex)));
        let open = list(&[(ALL, "world", "anyone")]);
        assert_eq!(read(&format!("{world}{stat}")), Ok(open.clone()));
        assert_eq!(read(world), Err(Malformed::TooShort));
        let frame = wire::ask(6, &SetAccess { path: "/o".to_owned(), list: open });
        assert_eq!(frame[4..], bytes(&format!("00000006 00000007 000000022f6f {world} 00000003")));
    }
}
