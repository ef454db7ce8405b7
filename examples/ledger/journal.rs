//! The rule of a resource that checks fencing tokens, and its books: term after term, who wrote.
//!
//! Pure: writes come in, with the time at which they came, and verdicts go out. No clock, no file and
//! no socket. The rule is one comparison, which is all that a real resource needs too: a token older
//! than one already seen is refused. That a token has one writer is not the resource's business in
//! real life; here a second one means that two candidates led in one term, which must never happen. Nor does
//! the rule keep a writer from writing a line twice: that is taken, and counted.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A fencing token: larger in each later term. A decimal string in JSON, for a reader that keeps
/// numbers as floats would round it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Token(u128);

/// A line that the ledger took: one line of the journal file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) line: u64,
    pub(crate) token: Token,
    pub(crate) writer: String,
    /// The writer's own number of it: larger for each further line, and the same when it writes that line again.
    pub(crate) number: u64,
    pub(crate) text: String,
    pub(crate) at: String,
}

/// Why a write was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The rule: a later term has begun.
    #[error("token {token} is older than {newest}: a later term has begun")]
    Stale { token: Token, newest: Token },
    /// What exclusion forbids: two led in one term.
    #[error("token {token} belongs to {owner}, and {writer} came with it too")]
    Conflict { token: Token, owner: String, writer: String },
}

/// Everything that was taken and refused.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    lines: u64,
    refused: u64,
    conflicts: u64,
    doubled: u64,
    terms: BTreeMap<Token, Term>,
}

/// What came with one token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Term {
    token: Token,
    writer: String,
    lines: u64,
    refused: u64,
    /// The greatest number of its lines.
    #[serde(skip)]
    last_number: Option<u64>,
    /// When its first line was taken and when its last; null for a term that was refused throughout.
    first_at: Option<String>,
    last_at: Option<String>,
}

/// The journal as `GET /journal` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    lines: u64,
    /// Writes with a token older than one already seen: what a resource without the rule would have taken.
    refused: u64,
    /// Writes by a second writer with the token of another: violations of exclusion.
    conflicts: u64,
    /// Lines that their writer had written before, under the same token; they count as lines too.
    doubled: u64,
    newest_token: Option<Token>,
    terms: Vec<&'a Term>,
}

impl Journal {
    /// Judges a write: the number of its line, or why it is refused, which is counted. A line that is
    /// admitted is not in the books before [`record`](Self::record), so that a file can come first.
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

    /// Enters a line that was admitted.
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

    /// The greatest token seen. Only an admitted write can bring a greater one.
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

/// What is no token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no fencing token: it is a decimal number below 2^128")]
pub(crate) struct NotAToken(String);

impl FromStr for Token {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let digits_only = text.bytes().all(|byte| byte.is_ascii_digit()); // u128 would take a sign
        let number = text.parse().ok().filter(|_| digits_only);
        number.map(Self).ok_or_else(|| NotAToken(text.to_owned()))
    }
}

impl TryFrom<String> for Token {
    type Error = NotAToken;

    fn try_from(text: String) -> Result<Self, NotAToken> {
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
    fn an_older_token_is_refused_and_the_same_one_is_not() {
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
    fn a_second_writer_in_one_term_is_a_conflict_even_when_the_term_is_over() {
        let mut journal = Journal::default();
        assert_eq!(write(&mut journal, 5, "a"), Ok(1));
        for later in [5, 6] {
            let conflict =
                Refusal::Conflict { token: Token(5), owner: "a".into(), writer: "b".into() };
            assert_eq!(write(&mut journal, 5, "b"), Err(conflict));
            write(&mut journal, later, "a").unwrap();
        }
        assert_eq!(journal.report().conflicts, 2);
        assert_eq!(journal.report().refused, 0);
    }

    #[test]
    fn a_line_that_comes_again_in_its_term_is_taken_and_counted() {
        let mut journal = Journal::default();
        for (token, number, doubled) in
            [(5, 1, 0), (5, 2, 0), (5, 2, 1), (5, 1, 2), (5, 3, 2), (7, 1, 2)]
        {
            enter(&mut journal, token, "a", number).unwrap();
            assert_eq!(journal.report().doubled, doubled, "line {number} under {token}");
        }
        assert_eq!(journal.report().lines, 6);
    }

    #[test]
    fn the_report_shows_term_after_term_with_those_that_never_wrote() {
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
            "in order of token, not of text"
        );
        assert_eq!(terms[0]["first_at"], serde_json::Value::Null);
        assert_eq!(terms[1]["first_at"], "line 1");
    }

    #[test]
    fn what_is_no_decimal_number_below_2_to_the_128_is_no_token() {
        for text in ["", "+5", "-1", "1.0", "0x1", " 1", "340282366920938463463374607431768211456"]
        {
            assert_eq!(text.parse::<Token>(), Err(NotAToken(text.into())));
        }
        let greatest = u128::MAX.to_string();
        assert_eq!(greatest.parse::<Token>().unwrap().to_string(), greatest);
    }

    fn write(journal: &mut Journal, token: u128, writer: &str) -> Result<u64, Refusal> {
        let number = journal.lines;
        enter(journal, token, writer, number)
    }

    fn enter(
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
