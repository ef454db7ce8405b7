//! The rule of a resource that checks fencing tokens, and a journal of the writers in each term.
//!
//! Pure: no clock, file, or socket. Start with [`Journal::admit`].
//!
//! The rule is one comparison, and a real resource needs no more: refuse a token that is older than
//! one already seen. For Baton's tests, the journal also detects two writers with the same token,
//! which means that two candidates led in one term. A writer may write a line twice; the journal
//! accepts and counts that.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A fencing token, which is larger in each later term. In JSON it is a decimal string, because
/// many readers parse numbers as floats and would round it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Token(u128);

/// An accepted line, and one line of the journal file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) line: u64,
    pub(crate) token: Token,
    pub(crate) writer: String,
    /// The writer's own number: larger for each new line, and the same for a repeated one.
    pub(crate) number: u64,
    pub(crate) text: String,
    pub(crate) at: String,
}

/// Why a write was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("token {token} is older than {newest}: a later term has begun")]
    Stale { token: Token, newest: Token },
    /// Two candidates led in one term, which mutual exclusion forbids.
    #[error("token {token} belongs to {owner}, but {writer} used it too")]
    Conflict { token: Token, owner: String, writer: String },
}

/// All accepted and refused writes.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    lines: u64,
    refused: u64,
    conflicts: u64,
    doubled: u64,
    terms: BTreeMap<Token, Term>,
}

/// All writes with one token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Term {
    token: Token,
    writer: String,
    lines: u64,
    refused: u64,
    /// The largest [`Entry::number`] of its lines.
    #[serde(skip)]
    last_number: Option<u64>,
    /// When its first and last line were accepted; null if all were refused.
    first_at: Option<String>,
    last_at: Option<String>,
}

/// The response to `GET /journal`.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    lines: u64,
    /// Writes with an old token, which a resource without the rule would have accepted.
    refused: u64,
    /// Writes with the token of another writer: violations of mutual exclusion.
    conflicts: u64,
    /// Lines that repeat an earlier one with the same token. They count as lines too.
    doubled: u64,
    newest_token: Option<Token>,
    terms: Vec<&'a Term>,
}

impl Journal {
    /// Checks a write and returns the number of its line. Counts a refused write.
    ///
    /// An admitted line enters the journal only with [`record`](Self::record), so that the caller
    /// can write it to a file first.
    pub(crate) fn admit(&mut self, token: Token, writer: &str) -> Result<u64, Refusal> {
        if let Some(term) = self.terms.get(&token).filter(|term| term.writer != writer) {
            let owner = term.writer.clone();
            self.conflicts += 1;
            return Err(Refusal::Conflict { token, owner, writer: writer.to_owned() });
        }
        if let Some(newest) = self.newest().filter(|newest| token < *newest) {
            self.refused += 1;
            self.term(token, writer).refused += 1;
            return Err(Refusal::Stale { token, newest });
        }
        Ok(self.lines + 1)
    }

    /// Adds an admitted line.
    pub(crate) fn record(&mut self, entry: &Entry) {
        self.lines = entry.line;
        let term = self.term(entry.token, &entry.writer);
        let is_doubled = term.last_number.is_some_and(|last| entry.number <= last);
        term.last_number = term.last_number.max(Some(entry.number));
        term.lines += 1;
        term.first_at.get_or_insert_with(|| entry.at.clone());
        term.last_at = Some(entry.at.clone());
        self.doubled += u64::from(is_doubled);
    }

    /// The largest token seen. Only an admitted write can raise it.
    pub(crate) fn newest(&self) -> Option<Token> {
        self.terms.last_key_value().map(|(token, _)| *token)
    }

    pub(crate) fn report(&self) -> Report<'_> {
        Report {
            lines: self.lines,
            refused: self.refused,
            conflicts: self.conflicts,
            doubled: self.doubled,
            newest_token: self.newest(),
            terms: self.terms.values().collect(),
        }
    }

    fn term(&mut self, token: Token, writer: &str) -> &mut Term {
        self.terms.entry(token).or_insert_with(|| Term {
            token,
            writer: writer.to_owned(),
            lines: 0,
            refused: 0,
            last_number: None,
            first_at: None,
            last_at: None,
        })
    }
}

/// A text is not a fencing token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid fencing token {0:?}: expected a decimal number below 2^128")]
pub(crate) struct InvalidToken(String);

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let digits_only = text.bytes().all(|byte| byte.is_ascii_digit()); // u128 accepts a sign
        let number = text.parse().ok().filter(|_| digits_only);
        number.map(Self).ok_or_else(|| InvalidToken(text.to_owned()))
    }
}

impl TryFrom<String> for Token {
    type Error = InvalidToken;

    fn try_from(text: String) -> Result<Self, InvalidToken> {
        text.parse()
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.to_string()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_older_token_is_refused() {
        let mut journal = Journal::default();
        assert_eq!(write(&mut journal, 5, "a"), Ok(1));
        assert_eq!(write(&mut journal, 5, "a"), Ok(2));
        assert_eq!(write(&mut journal, 7, "b"), Ok(3));
        assert_eq!(
            write(&mut journal, 5, "a"),
            Err(Refusal::Stale { token: Token(5), newest: Token(7) })
        );
        assert_eq!(write(&mut journal, 7, "b"), Ok(4));
    }

    #[test]
    fn second_writer_with_a_token_is_a_conflict() {
        let mut journal = Journal::default();
        assert_eq!(write(&mut journal, 5, "a"), Ok(1));
        for later_token in [5, 6] {
            let conflict =
                Refusal::Conflict { token: Token(5), owner: "a".into(), writer: "b".into() };
            assert_eq!(write(&mut journal, 5, "b"), Err(conflict));
            write(&mut journal, later_token, "a").unwrap();
        }
        assert_eq!(journal.report().conflicts, 2);
        assert_eq!(journal.report().refused, 0);
    }

    #[test]
    fn repeated_line_is_accepted_and_counted() {
        let mut journal = Journal::default();
        for (token, number, doubled) in
            [(5, 1, 0), (5, 2, 0), (5, 2, 1), (5, 1, 2), (5, 3, 2), (7, 1, 2)]
        {
            write_numbered(&mut journal, token, "a", number).unwrap();
            assert_eq!(journal.report().doubled, doubled, "line {number} under {token}");
        }
        assert_eq!(journal.report().lines, 6);
    }

    #[test]
    fn report_lists_terms_in_token_order_with_refused_ones() {
        let mut journal = Journal::default();
        write(&mut journal, 9, "b").unwrap();
        write(&mut journal, 3, "a").unwrap_err();
        write(&mut journal, 10, "c").unwrap();
        let report = serde_json::to_value(journal.report()).unwrap();
        assert_eq!(report["newest_token"], "10");
        assert_eq!(report["refused"], 1);
        let terms = report["terms"].as_array().unwrap();
        assert_eq!(
            terms.iter().map(|term| term["token"].as_str().unwrap()).collect::<Vec<_>>(),
            ["3", "9", "10"],
            "ordered as numbers"
        );
        assert_eq!(terms[0]["first_at"], serde_json::Value::Null);
        assert_eq!(terms[1]["first_at"], "line 1");
    }

    #[test]
    fn token_is_a_decimal_number_below_2_to_the_128() {
        for text in ["", "+5", "-1", "1.0", "0x1", " 1", "340282366920938463463374607431768211456"]
        {
            assert_eq!(text.parse::<Token>(), Err(InvalidToken(text.into())));
        }
        let largest = u128::MAX.to_string();
        assert_eq!(largest.parse::<Token>().unwrap().to_string(), largest);
    }

    fn write(journal: &mut Journal, token: u128, writer: &str) -> Result<u64, Refusal> {
        let number = journal.lines;
        write_numbered(journal, token, writer, number)
    }

    fn write_numbered(
        journal: &mut Journal,
        token: u128,
        writer: &str,
        number: u64,
    ) -> Result<u64, Refusal> {
        let token = Token(token);
        let line = journal.admit(token, writer)?;
        let (writer, text, at) = (writer.to_owned(), String::new(), format!("line {line}"));
        journal.record(&Entry { line, token, writer, number, text, at });
        Ok(line)
    }
}
