//! Texts from outside, made fit for one line of a log or of a terminal.
//!
//! Pure. Start with [`one_line`].

/// `text` with each character that [`spoils_a_line`] replaced by a question mark.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if spoils_a_line(c) { '?' } else { c }).collect()
}

/// Whether this character can end a line, steer a terminal, reorder the text around it, or hide.
///
/// Control characters, the two separators of Unicode, and its format characters that set the
/// direction of text or are invisible (UTS #36, "Unicode Security Considerations").
pub fn spoils_a_line(c: char) -> bool {
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
    fn line_keeps_letters_and_loses_what_forges() {
        assert_eq!(one_line("Zoë 🦀 日本\u{a0}x"), "Zoë 🦀 日本\u{a0}x");
        for c in [
            '\n', '\r', '\t', '\0', '\u{1b}', '\u{85}', '\u{2028}', '\u{2029}', '\u{202e}',
            '\u{2066}', '\u{200b}',
        ] {
            assert_eq!(one_line(&format!("a{c}b")), "a?b", "{c:?}");
        }
    }
}
