//! Untrusted text made safe for one line of a log or terminal.
//!
//! Pure. Start with [`one_line`].

/// Replaces each character for which [`is_unsafe_in_line`] is true with a question mark.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_unsafe_in_line(c) { '?' } else { c }).collect()
}

/// Whether this character can end a line, control a terminal, reorder the text around it, or hide.
///
/// That is true of control characters, the line and paragraph separators, and format characters
/// that set the direction of text or are invisible (UTS #36, "Unicode Security Considerations").
pub fn is_unsafe_in_line(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_keeps_letters_and_replaces_unsafe_characters() {
        assert_eq!(one_line("Zoë 🦀 日本\u{a0}x"), "Zoë 🦀 日本\u{a0}x");
        for c in [
            '\n', '\r', '\t', '\0', '\u{1b}', '\u{85}', '\u{2028}', '\u{2029}', '\u{202e}',
            '\u{2066}', '\u{200b}',
        ] {
            assert_eq!(one_line(&format!("a{c}b")), "a?b", "{c:?}");
        }
    }
}
