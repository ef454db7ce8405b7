//! TLS to the servers: trusted authorities and the client's certificate.
//!
//! Touches PEM files, in [`TlsFiles::load`], and open sockets. Start with [`TlsFiles`].

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The PEM files of a TLS configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates of the trusted authorities.
    pub authorities: PathBuf,
    /// The client's certificate, if the servers require one.
    pub client: Option<ClientCertificate>,
}

/// The client's certificate and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, followed by any intermediate certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A TLS configuration.
#[derive(Clone)]
pub struct Tls(TlsConnector);

/// The one of [`TlsFiles`] that an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFile {
    /// [`TlsFiles::authorities`].
    Authorities,
    /// [`ClientCertificate::certificate`].
    Certificate,
    /// [`ClientCertificate::key`].
    Key,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is unreadable or holds no PEM of the expected kind.
    #[error("cannot read {} from {path:?}: it must be a readable PEM file", file.content())]
    File {
        /// Which file.
        file: TlsFile,
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: pem::Error,
    },
    /// A certificate is not an authority's, or the key does not match the certificate.
    #[error("cannot use {path:?} for TLS: {remedy}")]
    Content {
        /// Which file.
        file: TlsFile,
        /// Its path.
        path: PathBuf,
        /// The remedy.
        remedy: &'static str,
        /// The cause.
        source: rustls::Error,
    },
}

impl TlsFiles {
    /// Reads the files.
    pub fn load(&self) -> Result<Tls, TlsError> {
        Ok(Tls(TlsConnector::from(Arc::new(self.client_config()?))))
    }

    /// Reads the files, for a connection with another protocol.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let mut roots = RootCertStore::empty();
        let authorities = certificates(TlsFile::Authorities, &self.authorities)?;
        let content = |file, path: &Path, remedy, source| TlsError::Content {
            file,
            path: path.to_owned(),
            remedy,
            source,
        };
        for authority in authorities {
            let remedy = "it must hold CA certificates";
            roots.add(authority).map_err(|source| {
                content(TlsFile::Authorities, &self.authorities, remedy, source)
            })?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("ring supports TLS 1.2 and 1.3").with_root_certificates(roots);
        Ok(match &self.client {
            None => builder.with_no_client_auth(),
            Some(ClientCertificate { certificate, key }) => {
                let chain = certificates(TlsFile::Certificate, certificate)?;
                let private =
                    PrivateKeyDer::from_pem_file(key).map_err(unreadable(TlsFile::Key, key))?;
                let remedy = "the key must belong to the certificate";
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|source| content(TlsFile::Key, key, remedy, source))?
            }
        })
    }
}

impl TlsFile {
    const fn content(self) -> &'static str {
        match self {
            Self::Authorities | Self::Certificate => "a certificate",
            Self::Key => "a private key",
        }
    }
}

impl TlsError {
    /// The file that the error is about.
    pub const fn file(&self) -> TlsFile {
        match self {
            Self::File { file, .. } | Self::Content { file, .. } => *file,
        }
    }
}

impl Tls {
    /// Performs the handshake on `socket` with the server of this name or address.
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

fn certificates(file: TlsFile, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = found.map_err(unreadable(file, path))?;
    if certificates.is_empty() {
        Err(unreadable(file, path)(pem::Error::NoItemsFound))
    } else {
        Ok(certificates)
    }
}

fn unreadable(file: TlsFile, path: &Path) -> impl FnOnce(pem::Error) -> TlsError {
    move |source| TlsError::File { file, path: path.to_owned(), source }
}
