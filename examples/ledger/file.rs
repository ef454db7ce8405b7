//! The journal file: one JSON line for each accepted line.
//!
//! It survives a crash of the process but not of the machine: it is never fsynced, because no test
//! cuts the power. Start with [`JournalFile::open`].

use crate::journal::{Entry, Journal, Refusal};
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// The open file: locked against a second ledger and positioned at its end.
#[derive(Debug)]
pub(crate) struct JournalFile {
    file: File,
    length: u64,
}

/// A journal file and its contents.
#[derive(Debug)]
pub(crate) struct OpenedJournal {
    pub(crate) file: JournalFile,
    pub(crate) journal: Journal,
    /// An incomplete last line, which was removed from the file.
    pub(crate) torn_line: Option<String>,
}

/// Why a journal file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("cannot read or write the file")]
    Io(#[from] io::Error),
    #[error("another ledger uses the file")]
    Locked,
    #[error("line {0} is not a journal entry")]
    NotAnEntry(usize, #[source] serde_json::Error),
    #[error("line {0} contradicts the lines before it")]
    Refused(usize, #[source] Refusal),
    #[error("line {at} has the number {number}")]
    Misnumbered { at: usize, number: u64 },
}

impl JournalFile {
    /// Opens or creates the file and replays its lines.
    pub(crate) fn open(path: &Path) -> Result<OpenedJournal, FileError> {
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => FileError::Locked,
            TryLockError::Error(error) => error.into(),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;

        // A line is acknowledged only after it was written together with its newline, so bytes
        // without a newline belong to an unacknowledged line.
        let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let (lines, torn) = bytes.split_at(complete);
        let journal = replay(lines)?;
        let torn_line = (!torn.is_empty()).then(|| String::from_utf8_lossy(torn).into_owned());
        let mut file = Self { file, length: complete as u64 };
        file.truncate()?;
        Ok(OpenedJournal { file, journal, torn_line })
    }

    /// Appends one line. After an error the file is unchanged.
    pub(crate) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            self.truncate()?;
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Removes everything after the last complete line.
    fn truncate(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        Ok(())
    }
}

/// Applies the ledger's rule to every line again.
fn replay(lines: &[u8]) -> Result<Journal, FileError> {
    let mut journal = Journal::default();
    for (line, at) in lines.split_inclusive(|byte| *byte == b'\n').zip(1..) {
        let entry: Entry =
            serde_json::from_slice(line).map_err(|error| FileError::NotAnEntry(at, error))?;
        let expected = journal
            .admit(entry.token, &entry.writer)
            .map_err(|refusal| FileError::Refused(at, refusal))?;
        if entry.line != expected {
            return Err(FileError::Misnumbered { at, number: entry.line });
        }
        journal.record(&entry);
    }
    Ok(journal)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn newest_token_survives_and_torn_line_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut opened = JournalFile::open(&path).unwrap();
        opened.file.append(&entry(1, "7")).unwrap();
        opened.file.append(&entry(2, "8")).unwrap();
        drop(opened);
        fs::write(&path, [fs::read(&path).unwrap(), b"{\"line\":3,\"tok".to_vec()].concat())
            .unwrap();

        let mut opened = JournalFile::open(&path).unwrap();
        assert_eq!(opened.torn_line.as_deref(), Some("{\"line\":3,\"tok"));
        assert_eq!(opened.journal.newest(), "8".parse().ok());
        opened.file.append(&entry(3, "8")).unwrap();
        drop(opened);
        assert_eq!(JournalFile::open(&path).unwrap().torn_line, None);
    }

    #[test]
    fn error_names_the_damaged_line() {
        let line_of = |line, token| serde_json::to_string(&entry(line, token)).unwrap() + "\n";
        for (text, expected) in [
            (format!("nonsense\n{}", line_of(1, "7")), "line 1 is not a journal entry"),
            (line_of(1, "7") + &line_of(2, "6"), "line 2 contradicts"),
            (line_of(1, "7") + &line_of(3, "7"), "line 2 has the number 3"),
        ] {
            let error = replay(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn second_ledger_cannot_open_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let _first = JournalFile::open(&path).unwrap();
        assert!(matches!(JournalFile::open(&path), Err(FileError::Locked)));
    }

    fn entry(line: u64, token: &str) -> Entry {
        let token = token.parse().unwrap();
        Entry {
            line,
            token,
            writer: "a".into(),
            number: line,
            text: "text".into(),
            at: "now".into(),
        }
    }
}
