//! Access lists (ACLs) of znodes: reading and setting them, and the rights that they grant to
//! unauthenticated clients.
//!
//! Pure. Start with [`AccessList`]. Permissions are those of ZooKeeper's `ZooDefs.Perms`. Creating
//! or deleting a child takes a right on its parent; a znode's own list protects only its data.
//!
//! A list is open if anyone can change the znode's children ([`AccessList::is_open`]).
//! [`AccessList::closed`] reserves that for this client's credentials and lets all others only
//! read.

use crate::jute::{Decoder, Encoder, Malformed};
use crate::wire::Operation;
use std::fmt;

/// The right to read a znode's data and list its children.
const READ: i32 = 1;
/// The right to create a child.
const CREATE: i32 = 4;
/// The right to delete a child.
const DELETE: i32 = 8;
/// The right to set the access list.
const ADMIN: i32 = 16;
/// All rights.
const ALL: i32 = 31;

/// The rights that control a znode's children: to create or delete them, or to grant oneself either
/// right.
const CONTROL: i32 = CREATE | DELETE | ADMIN;

/// The letters that zkCli uses for permissions, in its order.
const LETTERS: [(i32, char); 5] =
    [(CREATE, 'c'), (DELETE, 'd'), (READ, 'r'), (2, 'w'), (ADMIN, 'a')];

/// The rights of one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclEntry {
    /// The permissions, as bits.
    pub permissions: i32,
    /// The scheme of the identity: `world`, `digest`, `sasl`, `x509`, `ip`, or `auth`, which stands
    /// for the client that sets the list.
    pub scheme: String,
    /// The identity.
    pub id: String,
}

/// The access list of a znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessList {
    /// The entries.
    pub entries: Vec<AclEntry>,
    /// How often the list was set; [`SetAcl`] compares it.
    pub version: i32,
}

/// Reads a znode's access list. Since ZooKeeper 3.4.14 this takes the right to read or administer
/// the znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetAcl {
    /// The znode's path.
    pub path: String,
}

/// Sets a znode's access list if its version has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAcl {
    /// The znode's path.
    pub path: String,
    /// The new list, with the version to replace.
    pub list: AccessList,
}

impl AclEntry {
    fn new(permissions: i32, scheme: &str, id: &str) -> Self {
        Self { permissions, scheme: scheme.to_owned(), id: id.to_owned() }
    }

    /// Whether the server masked this identity, as it does for clients without ADMIN.
    fn is_masked(&self) -> bool {
        self.scheme == "digest" && self.id.ends_with(":x")
    }

    /// Whether a client needs no secret for this identity. Any host can take an IP address.
    fn is_unauthenticated(&self) -> bool {
        matches!(&*self.scheme, "world" | "ip")
    }

    const fn controls_children(&self) -> bool {
        self.permissions & CONTROL != 0
    }

    /// The identity for a log: without its password hash, and escaped, because it is untrusted.
    fn name(&self) -> String {
        let id = if self.scheme == "digest" {
            self.id.split(':').next().unwrap_or_default()
        } else {
            &self.id
        };
        format!("{}:{id}", self.scheme).escape_debug().to_string()
    }

    /// Whether `ours` contains this identity. A masked identity may be ours only if it lacks ADMIN,
    /// because servers mask nothing for an administrator.
    fn is_among(&self, ours: &[Self]) -> bool {
        let may_be_ours = self.is_masked() && self.permissions & ADMIN == 0;
        let mut ours =
            ours.iter().filter(|own| own.controls_children() && own.scheme == self.scheme);
        ours.any(|own| own.id == self.id || may_be_ours && own.name() == self.name())
    }
}

impl AccessList {
    /// Whether unauthenticated clients can create or delete children, or grant themselves the
    /// right.
    pub fn is_open(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_unauthenticated() && entry.controls_children())
    }

    /// The list with which to close this one: only this client controls children, and
    /// unauthenticated clients only read. If unauthenticated clients had ADMIN, no other entry is
    /// kept, because an attacker may have added any of them.
    #[must_use]
    pub fn closed(&self) -> Self {
        let others =
            self.entries.iter().filter(|entry| entry.scheme != "world" && !self.is_untrusted());
        let others = others
            .map(|entry| AclEntry { permissions: entry.permissions & !CONTROL, ..entry.clone() });
        let others = others.filter(|entry| entry.permissions != 0);
        let entries = [AclEntry::new(ALL, "auth", "")].into_iter().chain(others);
        let entries = entries.chain([AclEntry::new(READ, "world", "anyone")]).collect();
        Self { entries, version: self.version }
    }

    /// The identities that lose rights under [`AccessList::closed`], besides `ours` and `world`.
    pub fn deprived(&self, ours: &[AclEntry]) -> Vec<String> {
        let is_untrusted = self.is_untrusted();
        self.names(|entry| {
            entry.scheme != "world"
                && (is_untrusted || entry.controls_children())
                && !entry.is_among(ours)
        })
    }

    /// The identities besides `ours` that control children.
    pub fn controllers(&self, ours: &[AclEntry]) -> Vec<String> {
        self.names(|entry| entry.controls_children() && !entry.is_among(ours))
    }

    /// The identities that the server masked. [`fmt::Display`] omits them.
    pub fn masked(&self) -> Vec<String> {
        self.names(AclEntry::is_masked)
    }

    /// Whether unauthenticated clients had ADMIN, so that they may have added any entry.
    fn is_untrusted(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.is_unauthenticated() && entry.permissions & ADMIN != 0)
    }

    fn names(&self, filter: impl Fn(&AclEntry) -> bool) -> Vec<String> {
        self.entries.iter().filter(|entry| filter(entry)).map(AclEntry::name).collect()
    }
}

/// The form that zkCli's `setAcl` takes, without the entries in [`AccessList::masked`].
impl fmt::Display for AccessList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.entries.iter().filter(|entry| !entry.is_masked());
        for (at, AclEntry { permissions, scheme, id }) in shown.enumerate() {
            let letters =
                LETTERS.iter().filter(|(bit, _)| permissions & bit != 0).map(|(_, letter)| letter);
            let letters: String = letters.collect();
            write!(f, "{}{scheme}:{id}:{letters}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl Operation for GetAcl {
    type Reply = AccessList;
    const OP: i32 = 6;

    fn encode(&self, frame: &mut Encoder) {
        frame.text(&self.path);
    }

    fn decode(&self, reply: &mut Decoder<'_>) -> Result<AccessList, Malformed> {
        let entry = |reply: &mut Decoder<'_>| {
            Ok(AclEntry { permissions: reply.int()?, scheme: reply.text()?, id: reply.text()? })
        };
        let entries = reply.list(entry)?;
        let (_czxid, _mzxid, _ctime, _mtime) =
            (reply.long()?, reply.long()?, reply.long()?, reply.long()?);
        let (_version, _cversion, aversion) = (reply.int()?, reply.int()?, reply.int()?);
        Ok(AccessList { entries, version: aversion })
    }
}

impl Operation for SetAcl {
    type Reply = ();
    const OP: i32 = 7;

    fn encode(&self, frame: &mut Encoder) {
        let AccessList { entries, version } = &self.list;
        let count = i32::try_from(entries.len()).expect("a frame of at most 4 MiB held them");
        frame.text(&self.path).int(count);
        for AclEntry { permissions, scheme, id } in entries {
            frame.int(*permissions).text(scheme).text(id);
        }
        frame.int(*version);
    }

    fn decode(&self, _stat: &mut Decoder<'_>) -> Result<(), Malformed> {
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
            entries.iter().map(|(permissions, scheme, id)| AclEntry::new(*permissions, scheme, id));
        AccessList { entries: entries.collect(), version: 3 }
    }

    #[test]
    fn list_is_open_by_create_delete_or_admin() {
        for (permissions, is_open) in
            [(31, true), (READ, false), (READ | 2, false), (4, true), (8, true), (16, true)]
        {
            for entry in [(permissions, "world", "anyone"), (permissions, "ip", "10.0.0.0/8")] {
                assert_eq!(list(&[entry]).is_open(), is_open, "{entry:?}");
            }
            assert!(!list(&[(permissions, "digest", "shop:x")]).is_open(), "{permissions}");
        }
    }

    #[test]
    fn closing_drops_entries_if_unauthenticated_clients_had_admin() {
        for open in [(ALL, "world", "anyone"), (ADMIN, "ip", "10.0.0.1")] {
            let open = list(&[open, (ALL, "digest", "evil:hash"), (READ, "sasl", "ops")]);
            let closed = open.closed();
            assert_eq!(closed.to_string(), "auth::cdrwa,world:anyone:r");
            assert!(!closed.is_open());
            assert_eq!(closed.version, 3);
        }
    }

    #[test]
    fn closed_list_lets_others_only_read_and_write() {
        let open = [
            (CREATE | DELETE, "world", "anyone"),
            (ALL, "sasl", "ops"),
            (DELETE, "ip", "10.0.0.1"),
        ];
        assert_eq!(list(&open).closed().to_string(), "auth::cdrwa,sasl:ops:rw,world:anyone:r");
    }

    #[test]
    fn identities_are_named_by_their_rights() {
        let ours = list(&[(ALL, "digest", "shop:hash"), (READ, "world", "anyone")]).entries;
        let others =
            [(ALL, "digest", "shop:hash"), (ALL, "digest", "e\nvil:hash"), (READ, "sasl", "ops")];
        assert_eq!(list(&others).deprived(&ours), ["digest:e\\nvil"]);
        assert_eq!(list(&others).controllers(&ours), ["digest:e\\nvil"]);
        let open = [&[(ALL, "world", "anyone")], &others[..]].concat();
        assert_eq!(list(&open).deprived(&ours), ["digest:e\\nvil", "sasl:ops"]);
        let masked = list(&[(ALL, "digest", "ops:x"), (CREATE, "digest", "shop:x")]);
        assert_eq!(masked.masked(), ["digest:ops", "digest:shop"]);
        assert_eq!(masked.controllers(&ours), ["digest:ops"]);
        assert_eq!(
            list(&[(ALL, "digest", "shop:x")]).controllers(&ours),
            ["digest:shop"],
            "we lack ADMIN"
        );
    }

    #[test]
    fn access_lists_are_read_and_written() {
        let frame = wire::request(5, &GetAcl { path: "/o".to_owned() });
        assert_eq!(frame[4..], bytes("00000005 00000006 000000022f6f"));
        let world = "00000001 0000001f 00000005776f726c64 00000006616e796f6e65";
        let stat = "000000000000000c 000000000000000c 000001a1fec5fa4a 000001a1fec5fa4a 00000000 \
                    00000000 00000003 8000000000000000 00000000 00000000 000000000000000c";
        let read = GetAcl { path: "/o".to_owned() };
        let read = |hex: &str| read.decode(&mut Decoder::new(&bytes(hex)));
        let open = list(&[(ALL, "world", "anyone")]);
        assert_eq!(read(&format!("{world}{stat}")), Ok(open.clone()));
        assert_eq!(read(world), Err(Malformed::TooShort));
        let frame = wire::request(6, &SetAcl { path: "/o".to_owned(), list: open });
        assert_eq!(frame[4..], bytes(&format!("00000006 00000007 000000022f6f {world} 00000003")));
    }
}
