//! TLS to the servers of an ensemble: whom we trust, and who we are.
//!
//! Touches the files that the flags name, when it is told to read them, and sockets that others have opened.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The files of a TLS connection, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates of the authorities that sign servers' certificates.
    pub authorities: PathBuf,
    /// Our own certificate and its key, where the servers want one.
    pub own: Option<OwnFiles>,
}

/// A certificate of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFiles {
    /// The certificate, with those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How TLS is spoken.
#[derive(Clone)]
pub struct Tls(TlsConnector);

/// Files that no TLS connection can be made with.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read, or holds no PEM of the kind.
    #[error(
        "{what} in {path:?} cannot be used: --{flag} must name a PEM file that this user may read"
    )]
    File {
        /// What was looked for.
        what: &'static str,
        /// The flag that named the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A certificate that is no authority's, or a key that does not fit.
    #[error("{path:?} cannot be used for TLS: {remedy}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What to do.
        remedy: &'static str,
        /// Why.
        source: rustls::Error,
    },
}

impl TlsFiles {
    /// Reads the files.
    pub fn load(&self) -> Result<Tls, TlsError> {
        let mut roots = RootCertStore::empty();
        let authorities = certificates("a certificate", "zookeeper-ca-file", &self.authorities)?;
        let content = |path: &Path, remedy, source| TlsError::Content {
            path: path.to_owned(),
            remedy,
            source,
        };
        for authority in authorities {
            let remedy = "write the authority's own certificate into it";
            roots.add(authority).map_err(|source| content(&self.authorities, remedy, source))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder =
            builder.expect("ring can do what TLS 1.2 and 1.3 need").with_root_certificates(roots);
        let config = match &self.own {
            None => builder.with_no_client_auth(),
            Some(OwnFiles { certificate, key }) => {
                let chain = certificates("a certificate", "zookeeper-cert-file", certificate)?;
                let private = PrivateKeyDer::from_pem_file(key).map_err(file(
                    "a private key",
                    "zookeeper-key-file",
                    key,
                ))?;
                let remedy = "give the certificate and the key that belong together";
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|source| content(key, remedy, source))?
            }
        };
        Ok(Tls(TlsConnector::from(Arc::new(config))))
    }
}

impl Tls {
    /// Speaks TLS on `socket`, with the server that is called `name` or has that address.
    pub(super) async fn secure(
        &self,
        name: &str,
        socket: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, socket).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

fn certificates(
    what: &'static str,
    flag: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = found.map_err(file(what, flag, path))?;
    if certificates.is_empty() {
        Err(file(what, flag, path)(pem::Error::NoItemsFound))
    } else {
        Ok(certificates)
    }
}

fn file(
    what: &'static str,
    flag: &'static str,
    path: &Path,
) -> impl FnOnce(pem::Error) -> TlsError {
    move |source| TlsError::File { what, flag, path: path.to_owned(), source }
}
