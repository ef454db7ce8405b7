//! Who stands before whom, and what a leader writes down for the others.
//!
//! Pure. The server numbers candidates in the order in which it created them: the last ten characters of a name are that
//! number, whatever stands before it, and numbers are compared, never names.

use crate::claim::FencingToken;
use crate::identity::Identity;
use crate::timing::Jitter;
use std::collections::BTreeSet;

/// The digits of a candidate's number.
const DIGITS: usize = 10;
/// The number at which a server's counter stops. It may be given out again and again, and then orders nobody.
const LAST_NUMBER: u64 = i32::MAX as u64;

/// Our place in the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placing<'a> {
    /// We do not stand in it.
    Absent,
    /// Nobody is before us.
    First,
    /// This one is.
    Behind(&'a str),
}

/// Where `own` stands among `names`, when those in `idle` do not count.
///
/// A name without a number counts as before all others: whoever made it may think that it leads.
pub(super) fn placing<'a>(names: &'a [String], own: &str, idle: &BTreeSet<String>) -> Placing<'a> {
    if !names.iter().any(|name| name == own) {
        return Placing::Absent;
    }
    let rank = |name: &'a str| (number(name), name);
    let before = names.iter().filter(|name| !idle.contains(*name)).map(|name| rank(name));
    match before.filter(|rank| *rank < (number(own), own)).max() {
        Some((_, name)) => Placing::Behind(name),
        None => Placing::First,
    }
}

/// Whether `name` is made as we and Curator's `LeaderLatch` make ours.
pub(super) fn is_usual(name: &str) -> bool {
    number(name).is_some()
        && name.len() > DIGITS
        && name.as_bytes()[..name.len() - DIGITS].ends_with(b"latch-")
}

/// Whether a server that gave us `name` for `prefix` still counts.
pub(super) fn is_numbered(name: &str, prefix: &str) -> bool {
    let digits = name.strip_prefix(prefix).filter(|digits| digits.len() == DIGITS);
    digits.and_then(number).is_some_and(|number| number < LAST_NUMBER)
}

fn number(name: &str) -> Option<u64> {
    let digits = name.as_bytes().last_chunk::<DIGITS>()?;
    digits.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })
}

/// What stands before the number in a name of ours: as Curator protects its own, with a random UUID.
pub(super) fn prefix(chance: &mut Jitter) -> String {
    let random = u128::from(chance.number()) << 64 | u128::from(chance.number());
    // The bits that say version 4 and the usual variant (RFC 9562).
    let uuid = random & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let [a, b, c, d] = [uuid >> 96, uuid >> 80 & 0xffff, uuid >> 64 & 0xffff, uuid >> 48 & 0xffff];
    format!("_c_{a:08x}-{b:04x}-{c:04x}-{d:04x}-{:012x}-latch-", uuid & 0xffff_ffff_ffff)
}

/// What a leader writes down: its token, which ends at the first space, and its identity.
pub(super) fn acknowledgement(token: FencingToken, identity: &Identity) -> String {
    format!("{token} {identity}")
}

/// What [`acknowledgement`] wrote.
pub(super) fn acknowledged(text: &str) -> Option<(FencingToken, Identity)> {
    let (token, identity) = text.split_once(' ')?;
    Some((FencingToken::new(token.parse().ok()?), Identity::lossy(identity)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(names: &[&str], own: &str, idle: &[&str]) -> String {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let idle = idle.iter().map(ToString::to_string).collect();
        format!("{:?}", placing(&names, own, &idle))
    }

    #[test]
    fn numbers_order_the_line_whatever_the_names() {
        let names = ["_c_ff-latch-0000000009", "_c_aa-latch-0000000010", "_c_00-latch-0000000011"];
        assert_eq!(place(&names, names[0], &[]), "First");
        assert_eq!(place(&names, names[1], &[]), r#"Behind("_c_ff-latch-0000000009")"#);
        assert_eq!(place(&names, names[2], &[]), r#"Behind("_c_aa-latch-0000000010")"#);
        assert_eq!(place(&names, "_c_bb-latch-0000000010", &[]), "Absent");
    }

    #[test]
    fn other_recipes_names_stand_in_the_same_line() {
        let own = "_c_aa-latch-0000000005";
        let kazoos = "0123456789abcdef0123456789abcdef__lock__0000000004";
        let elections = "_c_0123456789abcdef0123456789abcdef-p_0000000003";
        assert_eq!(place(&[own, kazoos, elections], own, &[]), format!("Behind({kazoos:?})"));
        assert!(is_usual(own) && !is_usual(kazoos) && !is_usual(elections));
    }

    #[test]
    fn whoever_has_no_number_is_waited_for_unless_no_session_owns_it() {
        let own = "_c_aa-latch-0000000000";
        for strange in ["leader", "ü-latch-ß", "選挙000000000٣", "1", ""] {
            assert_eq!(place(&[own, strange], own, &[]), format!("Behind({strange:?})"));
            assert_eq!(place(&[own, strange], own, &[strange]), "First");
            assert!(!is_usual(strange));
        }
    }

    #[test]
    fn a_counter_at_its_end_orders_nobody() {
        assert!(is_numbered("_c_aa-latch-2147483646", "_c_aa-latch-"));
        for name in [
            "_c_aa-latch-2147483647",
            "_c_aa-latch--2147483648",
            "_c_aa-latch-21474836470",
            "_c_bb-latch-0000000001",
        ] {
            assert!(!is_numbered(name, "_c_aa-latch-"), "{name}");
        }
    }

    #[test]
    fn prefixes_are_curators_with_a_uuid_of_version_four() {
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
    fn what_is_acknowledged_reads_back() {
        let identity = Identity::parse("a pod_5be1").unwrap();
        let text = acknowledgement(FencingToken::new(1 << 40), &identity);
        assert_eq!(acknowledged(&text), Some((FencingToken::new(1 << 40), identity)));
        assert_eq!(acknowledged("nonsense"), None);
        assert_eq!(acknowledged("x y"), None);
    }

    /// Not a bit is lost or said twice.
    #[test]
    fn a_prefix_is_made_of_all_the_chance_there_is() {
        assert_eq!(prefix(&mut Jitter::new(7)), "_c_63cbe1e4-5932-4dd7-844c-3cd7f43c661c-latch-");
    }
}
