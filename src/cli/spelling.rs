//! Suggests a known word for a misspelled one.
//!
//! Pure.

/// The known word nearest to `typed`, unless it takes so many changes that a reader would see
/// another word.
pub(super) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let most = (typed.chars().count() / 3).clamp(1, 3);
    let measured = known.into_iter().map(|word| (changes(typed, word), word));
    measured.filter(|(changes, _)| *changes <= most).min().map(|(_, word)| word)
}

/// How many letters have to be added, removed or replaced (Levenshtein 1966).
fn changes(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.chars().enumerate() {
        let mut left = row + 1;
        let mut diagonal = row;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = above[column + 1];
            above[column] = left;
            left = replaced.min(diagonal + 1).min(left + 1);
        }
        above[to.len()] = left;
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        for (from, to, count) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("abc", "abc", 0)]
        {
            assert_eq!((changes(from, to), changes(to, from)), (count, count), "{from} {to}");
        }
    }

    #[test]
    fn only_a_word_that_looks_alike_is_suggested() {
        let commands = ["run", "status", "stopping", "version"];
        assert_eq!(nearest("statu", commands), Some("status"));
        assert_eq!(nearest("verison", commands), Some("version"), "two letters of seven");
        assert_eq!(nearest("resign", commands), None);
        assert_eq!(nearest("ELECTON", ["LISTEN", "ELECTION"]), Some("ELECTION"));
    }
}
