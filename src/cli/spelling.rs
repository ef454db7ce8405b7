//! Suggests a known word for a misspelled one.
//!
//! Pure. Start with [`nearest`].

/// The known word nearest to `typed`, unless they differ in more than a third of the letters (at
/// least one, at most three).
pub(super) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (typed.chars().count() / 3).clamp(1, 3);
    let measured = known.into_iter().map(|word| (distance(typed, word), word));
    measured.filter(|(distance, _)| *distance <= limit).min().map(|(_, word)| word)
}

/// The Levenshtein distance: how many letters to add, remove, or replace.
fn distance(from: &str, to: &str) -> usize {
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
    fn distance_counts_changes_in_both_directions() {
        for (from, to, count) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("abc", "abc", 0)]
        {
            assert_eq!((distance(from, to), distance(to, from)), (count, count), "{from} {to}");
        }
    }

    #[test]
    fn only_a_similar_word_is_suggested() {
        let commands = ["run", "status", "stopping", "version"];
        assert_eq!(nearest("statu", commands), Some("status"));
        assert_eq!(nearest("verison", commands), Some("version"), "two of seven letters differ");
        assert_eq!(nearest("resign", commands), None);
        assert_eq!(nearest("ELECTON", ["LISTEN", "ELECTION"]), Some("ELECTION"));
    }
}
