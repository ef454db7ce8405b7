//! The order of candidates in the queue, and the text of a leader's announcement.
//!
//! Pure. The last ten characters of a znode's name are its sequence number, which the server
//! assigns in the order of creation. Sequence numbers order the queue, whatever the rest of the
//! name. Start with [`position`].

use crate::claim::FencingToken;
use crate::identity::Identity;
use crate::timing::Jitter;
use std::collections::BTreeSet;

/// The number of digits in a sequence number.
const DIGITS: usize = 10;
/// The sequence number at which the server's counter stops. The server may assign it repeatedly, so
/// it orders nothing.
const LAST_SEQUENCE: u64 = i32::MAX as u64;

/// The position of a znode in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Position<'a> {
    /// It is not in the queue.
    Absent,
    /// It is the first.
    First,
    /// It has this predecessor.
    Behind(&'a str),
}

/// The position of `own` among `names`, not counting `idle_znodes`.
///
/// A name without a sequence number comes before all others, because its owner may believe that it
/// leads.
pub(super) fn position<'a>(
    names: &'a [String],
    own: &str,
    idle_znodes: &BTreeSet<String>,
) -> Position<'a> {
    if !names.iter().any(|name| name == own) {
        return Position::Absent;
    }
    let rank = |name: &'a str| (sequence(name), name);
    let before = names.iter().filter(|name| !idle_znodes.contains(*name)).map(|name| rank(name));
    match before.filter(|rank| *rank < (sequence(own), own)).max() {
        Some((_, name)) => Position::Behind(name),
        None => Position::First,
    }
}

/// Whether `name` has the form that we and Curator's `LeaderLatch` use.
pub(super) fn has_latch_name(name: &str) -> bool {
    sequence(name).is_some()
        && name.len() > DIGITS
        && name.as_bytes()[..name.len() - DIGITS].ends_with(b"latch-")
}

/// Whether `name` is `prefix` and a sequence number below the end of the counter.
pub(super) fn is_sequenced(name: &str, prefix: &str) -> bool {
    let digits = name.strip_prefix(prefix).filter(|digits| digits.len() == DIGITS);
    digits.and_then(sequence).is_some_and(|sequence| sequence < LAST_SEQUENCE)
}

fn sequence(name: &str) -> Option<u64> {
    let digits = name.as_bytes().last_chunk::<DIGITS>()?;
    digits.iter().try_fold(0, |sequence, digit| {
        digit.is_ascii_digit().then(|| sequence * 10 + u64::from(digit - b'0'))
    })
}

/// A new name prefix for our znode, with a random UUID, as in Curator's protection mode.
pub(super) fn prefix(jitter: &mut Jitter) -> String {
    let random = u128::from(jitter.next_u64()) << 64 | u128::from(jitter.next_u64());
    // Sets the bits for version 4 and the standard variant (RFC 9562).
    let uuid = random & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let [a, b, c, d] = [uuid >> 96, uuid >> 80 & 0xffff, uuid >> 64 & 0xffff, uuid >> 48 & 0xffff];
    format!("_c_{a:08x}-{b:04x}-{c:04x}-{d:04x}-{:012x}-latch-", uuid & 0xffff_ffff_ffff)
}

/// The text of an announcement: the token, a space, and the identity.
pub(super) fn announcement(token: FencingToken, identity: &Identity) -> String {
    format!("{token} {identity}")
}

/// Parses the text of an [`announcement`].
pub(super) fn parse_announcement(text: &str) -> Option<(FencingToken, Identity)> {
    let (token, identity) = text.split_once(' ')?;
    Some((FencingToken::new(token.parse().ok()?), Identity::parse_lossy(identity)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position_of(names: &[&str], own: &str, idle_znodes: &[&str]) -> String {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let idle_znodes = idle_znodes.iter().map(ToString::to_string).collect();
        format!("{:?}", position(&names, own, &idle_znodes))
    }

    #[test]
    fn sequence_numbers_order_the_queue() {
        let names = ["_c_ff-latch-0000000009", "_c_aa-latch-0000000010", "_c_00-latch-0000000011"];
        assert_eq!(position_of(&names, names[0], &[]), "First");
        assert_eq!(position_of(&names, names[1], &[]), r#"Behind("_c_ff-latch-0000000009")"#);
        assert_eq!(position_of(&names, names[2], &[]), r#"Behind("_c_aa-latch-0000000010")"#);
        assert_eq!(position_of(&names, "_c_bb-latch-0000000010", &[]), "Absent");
    }

    #[test]
    fn znodes_of_other_recipes_are_ordered_too() {
        let own = "_c_aa-latch-0000000005";
        let kazoo = "0123456789abcdef0123456789abcdef__lock__0000000004";
        let election = "_c_0123456789abcdef0123456789abcdef-p_0000000003";
        assert_eq!(position_of(&[own, kazoo, election], own, &[]), format!("Behind({kazoo:?})"));
        assert!(has_latch_name(own) && !has_latch_name(kazoo) && !has_latch_name(election));
    }

    #[test]
    fn names_without_sequence_come_first_unless_idle() {
        let own = "_c_aa-latch-0000000000";
        for strange in ["leader", "ü-latch-ß", "選挙000000000٣", "1", ""] {
            assert_eq!(position_of(&[own, strange], own, &[]), format!("Behind({strange:?})"));
            assert_eq!(position_of(&[own, strange], own, &[strange]), "First");
            assert!(!has_latch_name(strange));
        }
    }

    #[test]
    fn last_and_malformed_sequences_are_rejected() {
        assert!(is_sequenced("_c_aa-latch-2147483646", "_c_aa-latch-"));
        for name in [
            "_c_aa-latch-2147483647",
            "_c_aa-latch--2147483648",
            "_c_aa-latch-21474836470",
            "_c_bb-latch-0000000001",
        ] {
            assert!(!is_sequenced(name, "_c_aa-latch-"), "{name}");
        }
    }

    #[test]
    fn prefixes_have_curators_form_with_a_version_4_uuid() {
        for seed in 0..64 {
            let prefix = prefix(&mut Jitter::new(seed));
            let parts: Vec<_> = prefix.split('-').collect();
            let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
            assert_eq!(lengths, [3 + 8, 4, 4, 4, 12, 5, 0], "{prefix}");
            assert!(prefix.starts_with("_c_") && parts[2].starts_with('4'), "{prefix}");
            assert!("89ab".contains(&parts[3][..1]), "{prefix}");
        }
    }

    #[test]
    fn announcements_parse_back() {
        let identity = Identity::parse("a pod_5be1").unwrap();
        let text = announcement(FencingToken::new(1 << 40), &identity);
        assert_eq!(parse_announcement(&text), Some((FencingToken::new(1 << 40), identity)));
        assert_eq!(parse_announcement("nonsense"), None);
        assert_eq!(parse_announcement("x y"), None);
    }

    /// Every random bit appears exactly once.
    #[test]
    fn prefixes_use_all_random_bits() {
        assert_eq!(prefix(&mut Jitter::new(7)), "_c_63cbe1e4-5932-4dd7-844c-3cd7f43c661c-latch-");
    }
}
