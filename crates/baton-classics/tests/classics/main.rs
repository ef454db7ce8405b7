//! Tests of the classical algorithms: transcripts, and mutants that the checker must notice.
//!
//! Touches the transcripts beside this file. Start with `transcripts.rs`.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod mutants;
mod transcripts;
