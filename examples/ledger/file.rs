//! The journal file: one JSON line for each line that the ledger took.
//!
//! The sole file here. It survives the death of the process, not of the machine: nothing is fsynced, for
//! no test takes the power away.

use crate::journal::{Entry, Journal, Refusal};
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// The file, open, locked against a second ledger, and positioned at its end.
#[derive(Debug)]
pub(crate) struct JournalFile {
    file: File,
    length: u64,
}

/// What was read back from the file.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) file: JournalFile,
    pub(crate) journal: Journal,
    /// The bytes of a last line that was never written to its end; they are cut off.
    pub(crate) torn: Option<String>,
}

/// Why a journal file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("it cannot be read and written")]
    Io(#[from] io::Error),
    #[error("another ledger has it open")]
    Locked,
    #[error("line {0} is damaged")]
    NotAnEntry(usize, #[source] serde_json::Error),
    #[error("line {0} cannot follow those before it")]
    Refused(usize, #[source] Refusal),
    #[error("line {at} says that it is line {number}")]
    Misnumbered { at: usize, number: u64 },
}

impl JournalFile {
    /// Opens or creates it and reads back what it says.
    pub(crate) fn open(path: &Path) -> Result<Found, FileError> {
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => FileError::Locked,
            TryLockError::Error(error) => error.into(),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;

        // A line is written with its newline in one call and answered for afterwards, so bytes without a
        // newline belong to a line that nobody was told of.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let (lines, torn) = bytes.split_at(whole);
        let journal = read_back(lines)?;
        let torn = (!torn.is_empty()).then(|| String::from_utf8_lossy(torn).into_owned());
        let mut file = Self { file, length: whole as u64 };
        file.cut_back()?;
        Ok(Found { file, journal, torn })
    }

    /// Writes one line. After an error the file is as it was before.
    pub(crate) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            self.cut_back()?;
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Forgets everything after the last whole line.
    fn cut_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        Ok(())
    }
}

/// Judges every line again: a file that the rule would not have taken is not a journal.
fn read_back(lines: &[u8]) -> Result<Journal, FileError> {
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
    fn the_newest_token_survives_and_a_torn_last_line_is_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut found = JournalFile::open(&path).unwrap();
        found.file.append(&entry(1, "7")).unwrap();
        found.file.append(&entry(2, "8")).unwrap();
        drop(found);
        fs::write(&path, [fs::read(&path).unwrap(), b"{\"line\":3,\"tok".to_vec()].concat())
            .unwrap();

        let mut found = JournalFile::open(&path).unwrap();
        assert_eq!(found.torn.as_deref(), Some("{\"line\":3,\"tok"));
        assert_eq!(found.journal.newest(), "8".parse().ok());
        found.file.append(&entry(3, "8")).unwrap();
        drop(found);
        assert_eq!(JournalFile::open(&path).unwrap().torn, None);
    }

    #[test]
    fn a_damaged_line_elsewhere_is_an_error_that_names_it() {
        let whole = |line, token| serde_json::to_string(&entry(line, token)).unwrap() + "\n";
        for (text, complaint) in [
            (format!("nonsense\n{}", whole(1, "7")), "line 1 is damaged"),
            (whole(1, "7") + &whole(2, "6"), "line 2 cannot follow"),
            (whole(1, "7") + &whole(3, "7"), "line 2 says that it is line 3"),
        ] {
            let error = read_back(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(complaint), "{error}");
        }
    }

    #[test]
    fn a_second_ledger_is_told_so() {
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
