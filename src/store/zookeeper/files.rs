//! The credential and certificate files, read again before each connection attempt.
//!
//! Touches the files, on at most one blocking thread, since their disk may hang. Start with
//! [`CredentialFiles::reload`].

use crate::error_chain::ErrorChain;
use crate::process::blocking::{Blocking, run_blocking};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};
use tokio::sync::Mutex;
use tokio::time::timeout;
use zookeeper_client::credentials::{Credential, CredentialError};
use zookeeper_client::dial::Dialer;
use zookeeper_client::tls::{TlsError, TlsFile, TlsFiles};

/// The time limit of the first read.
const FIRST_READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialFilesError {
    /// The credential file is unreadable.
    #[error(
        "cannot read the credentials in {0:?}: --zookeeper-auth-file must name a readable text file"
    )]
    Unreadable(PathBuf, #[source] io::Error),
    /// The credential file is invalid.
    #[error("cannot use {0:?} as --zookeeper-auth-file")]
    Credentials(PathBuf, #[source] CredentialError),
    /// A certificate or key is unusable.
    #[error("cannot use --{}", flag(.0))]
    Tls(#[from] TlsError),
    /// The disk did not answer.
    #[error(
        "the credentials and certificates were not read within {0:?}: check whether their disk \
         responds"
    )]
    TimedOut(Duration),
}

/// The files, and the read in progress.
#[derive(Debug)]
pub(super) struct CredentialFiles {
    paths: FilePaths,
    /// Outlives the connection attempt that started it; the next attempt takes its result.
    in_progress: Mutex<Option<Blocking<Result<Dialer, CredentialFilesError>>>>,
    /// The last logged error; empty after a successful read.
    last_warning: RefCell<String>,
    /// Whether the warning about an unencrypted password was logged.
    has_warned_clear_text: Cell<bool>,
}

#[derive(Debug, Clone)]
struct FilePaths {
    auth: Option<PathBuf>,
    tls: Option<TlsFiles>,
}

impl CredentialFiles {
    /// Reads the files for the first time.
    pub(super) async fn open(
        auth: Option<PathBuf>,
        tls: Option<TlsFiles>,
    ) -> Result<(Self, Dialer), CredentialFilesError> {
        let paths = FilePaths { auth, tls };
        let files = Self {
            paths,
            in_progress: Mutex::default(),
            last_warning: RefCell::default(),
            has_warned_clear_text: Cell::default(),
        };
        let dialer = timeout(FIRST_READ_TIMEOUT, files.start())
            .await
            .map_err(|_elapsed| CredentialFilesError::TimedOut(FIRST_READ_TIMEOUT))??;
        files.warn_clear_text(&dialer);
        Ok((files, dialer))
    }

    /// Reads the files again. Returns `None`, and keeps the previous content in use, if that fails
    /// or takes longer than `max_wait`: the files may be about to be replaced.
    pub(super) async fn reload(&self, max_wait: Duration) -> Option<Dialer> {
        if self.paths.auth.is_none() && self.paths.tls.is_none() {
            return None;
        }
        match self.read_within(max_wait).await {
            Ok(dialer) => {
                self.last_warning.take();
                self.warn_clear_text(&dialer);
                Some(dialer)
            }
            Err(error) => {
                self.warn_unreadable(&error);
                None
            }
        }
    }

    async fn read_within(&self, max_wait: Duration) -> Result<Dialer, CredentialFilesError> {
        let mut in_progress = self.in_progress.lock().await;
        let reading = in_progress.get_or_insert_with(|| self.start());
        let result = timeout(max_wait, reading)
            .await
            .map_err(|_elapsed| CredentialFilesError::TimedOut(max_wait))?;
        *in_progress = None;
        result
    }

    fn start(&self) -> Blocking<Result<Dialer, CredentialFilesError>> {
        let paths = self.paths.clone();
        run_blocking("reading the credentials and certificates", move || paths.read())
    }

    /// Warns once per cause that the previous credentials and certificates remain in use.
    fn warn_unreadable(&self, error: &CredentialFilesError) {
        let reason = ErrorChain(error).to_string();
        if *self.last_warning.borrow() != reason {
            tracing::warn!("still using the previous credentials and certificates: {reason}");
            self.last_warning.replace(reason);
        }
    }

    /// Warns once that a password crosses the network unencrypted.
    fn warn_clear_text(&self, dialer: &Dialer) {
        let readable = dialer.credentials.iter().find(|credential| credential.is_sent_in_clear());
        if let (None, Some(credential), false) =
            (&dialer.tls, readable, self.has_warned_clear_text.get())
        {
            self.has_warned_clear_text.set(true);
            tracing::warn!(
                event = "password_in_clear",
                "the {} password in --zookeeper-auth-file crosses the network unencrypted: turn \
                 TLS on with --zookeeper-ca-file, or use sasl credentials",
                credential.scheme()
            );
        }
    }
}

impl FilePaths {
    fn read(&self) -> Result<Dialer, CredentialFilesError> {
        let credentials = match &self.auth {
            None => Vec::new(),
            Some(file) => {
                let text = fs::read_to_string(file)
                    .map_err(|error| CredentialFilesError::Unreadable(file.clone(), error))?;
                Credential::parse_all(&text)
                    .map_err(|error| CredentialFilesError::Credentials(file.clone(), error))?
            }
        };
        Ok(Dialer { tls: self.tls.as_ref().map(TlsFiles::load).transpose()?, credentials })
    }
}

/// The flag that names the file an error is about.
const fn flag(error: &TlsError) -> &'static str {
    match error.file() {
        TlsFile::Authorities => "zookeeper-ca-file",
        TlsFile::Certificate => "zookeeper-cert-file",
        TlsFile::Key => "zookeeper-key-file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use tokio::runtime::Builder;

    #[test]
    fn panic_while_reading_ends_the_waiting_attempt() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let paths = FilePaths { auth: Some(PathBuf::from("auth")), tls: None };
        let files = CredentialFiles {
            paths,
            in_progress: Mutex::default(),
            last_warning: RefCell::default(),
            has_warned_clear_text: Cell::default(),
        };
        let attempt = async {
            files.in_progress.lock().await.replace(run_blocking("a test", || panic!("a bug")));
            files.reload(FIRST_READ_TIMEOUT).await
        };
        let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(attempt)));
        assert!(ended.is_err(), "the attempt continued");
    }
}
