//! The user file and the certificates, read again before each connection and each authentication.
//!
//! Touches the files, on at most one blocking thread, since their disk may hang. Start with
//! [`EtcdFiles::reload`].

use crate::error_chain::ErrorChain;
use crate::process::blocking::{Blocking, run_blocking};
use rustls::ClientConfig;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use zookeeper_client::tls::{TlsError, TlsFile, TlsFiles};

/// The time limit of the first read.
const FIRST_READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EtcdFilesError {
    /// The user file is unreadable.
    #[error("cannot read the user in {0:?}: --etcd-user-file must name a readable text file")]
    Unreadable(PathBuf, #[source] io::Error),
    /// The user file is malformed. The error never quotes it.
    #[error("cannot use {0:?} as --etcd-user-file: it must hold user:password in one line")]
    User(PathBuf),
    /// A certificate or key is unusable.
    #[error("cannot use --{}", flag(.0))]
    Tls(#[from] TlsError),
    /// The disk did not answer.
    #[error(
        "the user and certificates were not read within {0:?}: check whether their disk responds"
    )]
    TimedOut(Duration),
}

/// A user and its password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
}

/// The content of the files.
pub(super) struct Secrets {
    pub(super) user: Option<User>,
    pub(super) tls: Option<TlsConnector>,
}

/// The files, and the read in progress.
pub(super) struct EtcdFiles {
    paths: FilePaths,
    current: RefCell<Rc<Secrets>>,
    /// Outlives the request that started it; the next one takes its result.
    in_progress: Mutex<Option<Blocking<Result<Secrets, EtcdFilesError>>>>,
    /// The last logged error; empty after a successful read.
    last_warning: RefCell<String>,
}

#[derive(Clone)]
struct FilePaths {
    user: Option<PathBuf>,
    tls: Option<TlsFiles>,
}

impl EtcdFiles {
    /// Reads the files for the first time.
    pub(super) async fn open(
        user: Option<PathBuf>,
        tls: Option<TlsFiles>,
    ) -> Result<Self, EtcdFilesError> {
        let paths = FilePaths { user, tls };
        let secrets = timeout(FIRST_READ_TIMEOUT, paths.start())
            .await
            .map_err(|_elapsed| EtcdFilesError::TimedOut(FIRST_READ_TIMEOUT))??;
        paths.warn_clear_text();
        Ok(Self {
            paths,
            current: RefCell::new(Rc::new(secrets)),
            in_progress: Mutex::default(),
            last_warning: RefCell::default(),
        })
    }

    /// Whether a user is configured.
    pub(super) fn has_user_file(&self) -> bool {
        self.paths.user.is_some()
    }

    /// Reads the files again. Keeps the previous content in use if that fails or takes longer than
    /// `max_wait`: the files may be about to be replaced.
    pub(super) async fn reload(&self, max_wait: Duration) -> Rc<Secrets> {
        if self.paths.user.is_some() || self.paths.tls.is_some() {
            match self.read_within(max_wait).await {
                Ok(secrets) => {
                    self.last_warning.take();
                    self.current.replace(Rc::new(secrets));
                }
                Err(error) => self.warn_unreadable(&error),
            }
        }
        Rc::clone(&self.current.borrow())
    }

    async fn read_within(&self, max_wait: Duration) -> Result<Secrets, EtcdFilesError> {
        let mut in_progress = self.in_progress.lock().await;
        let reading = in_progress.get_or_insert_with(|| self.paths.start());
        let result = timeout(max_wait, reading)
            .await
            .map_err(|_elapsed| EtcdFilesError::TimedOut(max_wait))?;
        *in_progress = None;
        result
    }

    /// Warns once per cause that the previous content remains in use.
    fn warn_unreadable(&self, error: &EtcdFilesError) {
        let reason = ErrorChain(error).to_string();
        if *self.last_warning.borrow() != reason {
            tracing::warn!("still using the previous user and certificates: {reason}");
            self.last_warning.replace(reason);
        }
    }
}

impl FilePaths {
    /// Warns if a password crosses the network unencrypted.
    fn warn_clear_text(&self) {
        if self.user.is_some() && self.tls.is_none() {
            tracing::warn!(
                event = "password_in_clear",
                "the password in --etcd-user-file crosses the network unencrypted: use https:// in \
                 --etcd-endpoints"
            );
        }
    }

    fn start(&self) -> Blocking<Result<Secrets, EtcdFilesError>> {
        let paths = self.clone();
        run_blocking("reading the user and certificates", move || paths.read())
    }

    fn read(&self) -> Result<Secrets, EtcdFilesError> {
        let user = match &self.user {
            None => None,
            Some(file) => {
                let text = fs::read_to_string(file)
                    .map_err(|error| EtcdFilesError::Unreadable(file.clone(), error))?;
                Some(User::parse(&text).ok_or_else(|| EtcdFilesError::User(file.clone()))?)
            }
        };
        let config = self.tls.as_ref().map(TlsFiles::client_config).transpose()?;
        Ok(Secrets { user, tls: config.map(connector) })
    }
}

impl User {
    /// Parses `user:password`. The password may contain colons.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let (line, None) = (lines.next()?, lines.next()) else { return None };
        let (name, password) = line.split_once(':')?;
        let is_complete = !name.is_empty() && !password.is_empty();
        is_complete.then(|| Self { name: name.to_owned(), password: password.to_owned() })
    }
}

/// etcd serves HTTP/2 on the same port, so the protocol is named.
fn connector(mut config: ClientConfig) -> TlsConnector {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// The flag that names the file an error is about.
const fn flag(error: &TlsError) -> &'static str {
    match error.file() {
        TlsFile::Authorities => "etcd-ca-file",
        TlsFile::Certificate => "etcd-cert-file",
        TlsFile::Key => "etcd-key-file",
    }
}

/// Omits the password.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:…", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_file_holds_one_line_which_is_not_shown() {
        let user = User::parse("baton:s3:cret\n\n").unwrap();
        assert_eq!((user.name.as_str(), user.password.as_str()), ("baton", "s3:cret"));
        assert_eq!(format!("{user:?}"), "baton:…");
        for wrong in ["", "\n", "baton", "baton:", ":secret", "a:b\nc:d"] {
            assert_eq!(User::parse(wrong), None, "{wrong:?}");
        }
    }
}
