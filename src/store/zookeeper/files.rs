//! The credentials and certificates that the flags name, read anew before each attempt to connect.
//!
//! Touches those files, on one blocking thread at a time: their disk may hang, and the runtime has
//! one thread for everything else. Start with [`Files::look`].

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
use zookeeper_client::tls::{TlsError, TlsFiles};

/// How long the first look may take.
const START: Duration = Duration::from_secs(20);

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The credentials cannot be read.
    #[error(
        "the credentials in {0:?} cannot be read: --zookeeper-auth-file must name a text file that this user may read"
    )]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file holds no credentials.
    #[error("{0:?} does not hold credentials for --zookeeper-auth-file")]
    Credentials(PathBuf, #[source] CredentialError),
    /// A certificate or a key cannot be used.
    #[error("TLS is not possible")]
    Tls(#[from] TlsError),
    /// A disk that hangs.
    #[error(
        "the credentials and certificates were not read within {0:?}: see whether their disk answers"
    )]
    Late(Duration),
}

/// The files, and the look at them that is under way.
#[derive(Debug)]
pub(super) struct Files {
    named: Named,
    /// It outlives an attempt that has stopped waiting for it, and the next attempt takes its
    /// result.
    look: Mutex<Option<Blocking<Result<Dialer, OpenError>>>>,
    /// The last complaint about unreadable files; empty once they were read again.
    said: RefCell<String>,
    /// Whether it was said that a password crosses the network in clear.
    said_clear: Cell<bool>,
}

#[derive(Debug, Clone)]
struct Named {
    auth: Option<PathBuf>,
    tls: Option<TlsFiles>,
}

impl Files {
    /// Reads the files for the first time.
    pub(super) async fn open(
        auth: Option<PathBuf>,
        tls: Option<TlsFiles>,
    ) -> Result<(Self, Dialer), OpenError> {
        let named = Named { auth, tls };
        let files = Self {
            named,
            look: Mutex::default(),
            said: RefCell::default(),
            said_clear: Cell::default(),
        };
        let dialer =
            timeout(START, files.begin()).await.map_err(|_elapsed| OpenError::Late(START))??;
        files.warn_clear_text(&dialer);
        Ok((files, dialer))
    }

    /// The present content of the files. `None` if they cannot be read, or not within `patience`:
    /// they may be about to be replaced, and the previous content may still be good.
    pub(super) async fn look(&self, patience: Duration) -> Option<Dialer> {
        if self.named.auth.is_none() && self.named.tls.is_none() {
            return None;
        }
        match self.glance(patience).await {
            Ok(dialer) => {
                self.said.take();
                self.warn_clear_text(&dialer);
                Some(dialer)
            }
            Err(error) => {
                self.complain(&error);
                None
            }
        }
    }

    async fn glance(&self, patience: Duration) -> Result<Dialer, OpenError> {
        let mut look = self.look.lock().await;
        let under_way = look.get_or_insert_with(|| self.begin());
        let ended =
            timeout(patience, under_way).await.map_err(|_elapsed| OpenError::Late(patience))?;
        *look = None;
        ended
    }

    fn begin(&self) -> Blocking<Result<Dialer, OpenError>> {
        let named = self.named.clone();
        run_blocking("the look at credentials and certificates", move || named.read())
    }

    /// Warns once that the servers are shown the previous credentials and certificates.
    fn complain(&self, error: &OpenError) {
        let why = ErrorChain(error).to_string();
        if *self.said.borrow() != why {
            tracing::warn!(
                "the previous credentials and certificates are shown to the servers again: {why}"
            );
            self.said.replace(why);
        }
    }

    /// Says, once, that a password crosses the network in clear.
    fn warn_clear_text(&self, dialer: &Dialer) {
        let clear = dialer.credentials.iter().find(|credential| credential.is_sent_in_clear());
        if let (None, Some(credential), false) = (&dialer.tls, clear, self.said_clear.get()) {
            self.said_clear.set(true);
            tracing::warn!(
                event = "password_in_clear",
                "the {} password of --zookeeper-auth-file crosses the network in clear: turn TLS on with \
                 --zookeeper-ca-file, or use sasl credentials",
                credential.scheme()
            );
        }
    }
}

impl Named {
    fn read(&self) -> Result<Dialer, OpenError> {
        let credentials = match &self.auth {
            None => Vec::new(),
            Some(file) => {
                let text = fs::read_to_string(file)
                    .map_err(|error| OpenError::Unreadable(file.clone(), error))?;
                Credential::parse_all(&text)
                    .map_err(|error| OpenError::Credentials(file.clone(), error))?
            }
        };
        Ok(Dialer { tls: self.tls.as_ref().map(TlsFiles::load).transpose()?, credentials })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use tokio::runtime::Builder;

    #[test]
    fn panic_of_a_look_ends_the_attempt_that_waits_for_it() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let named = Named { auth: Some(PathBuf::from("auth")), tls: None };
        let files = Files {
            named,
            look: Mutex::default(),
            said: RefCell::default(),
            said_clear: Cell::default(),
        };
        let look = async {
            files.look.lock().await.replace(run_blocking("a test", || panic!("a fault of ours")));
            files.look(START).await
        };
        let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(look)));
        assert!(ended.is_err(), "the attempt goes on");
    }
}
