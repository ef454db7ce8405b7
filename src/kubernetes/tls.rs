//! TLS to the API server: trusted authorities and the client's certificate.
//!
//! Touches the system's certificate authorities, if the kubeconfig names none. Start with
//! [`connector`].

use hyper_rustls::{ConfigBuilderExt as _, FixedServerNameResolver};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use kube::Config;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError};
use rustls::pki_types::{PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io;
use std::sync::Arc;

/// Why there can be no connection with these certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A trusted certificate is malformed.
    #[error("a certificate of the authority is malformed")]
    Authority(#[source] rustls::Error),
    /// There is no trusted certificate.
    #[error(
        "the kubeconfig names no certificate-authority, and this system trusts none: name one, or \
         install ca-certificates"
    )]
    NoAuthority(#[source] io::Error),
    /// The client certificate or its key is not PEM.
    #[error("the client certificate or its key is not PEM")]
    Pem(#[source] pem::Error),
    /// The client certificate's file holds none.
    #[error("the client certificate is missing: it must be PEM, after BEGIN CERTIFICATE")]
    NoCertificate,
    /// The key does not match the certificate, or its kind is not supported.
    #[error("the key of the client certificate cannot be used")]
    Key(#[source] rustls::Error),
    /// The server name is malformed.
    #[error("the kubeconfig's tls-server-name is neither a DNS name nor an IP address")]
    ServerName(#[source] InvalidDnsNameError),
}

/// The client's certificate, followed by any intermediate ones, and its key.
#[derive(Debug)]
pub(super) struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientIdentity {
    /// Reads the certificates and the first key of `pem`.
    pub(super) fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(TlsError::Pem)?;
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(TlsError::Pem)?;
        if chain.is_empty() { Err(TlsError::NoCertificate) } else { Ok(Self { chain, key }) }
    }
}

/// Creates the connector that `config` describes, over `tcp`.
///
/// kube's own would also link its auth providers, which [`credentials`](super::credentials)
/// replaces: 1.3 MB of JSON paths, regular expressions, and character sets.
pub(super) fn connector<T>(
    config: &Config,
    identity: Option<ClientIdentity>,
    tcp: T,
) -> Result<HttpsConnector<T>, TlsError> {
    let verifies = !config.accept_invalid_certs && config.cluster_url.scheme_str() == Some("https");
    let builder = match &config.root_cert {
        Some(authorities) => ClientConfig::builder().with_root_certificates(trusted(authorities)?),
        // As in client-go.
        None if verifies => {
            ClientConfig::builder().with_native_roots().map_err(TlsError::NoAuthority)?
        }
        None => ClientConfig::builder().with_root_certificates(RootCertStore::empty()),
    };
    let mut tls = match identity {
        Some(ClientIdentity { chain, key }) => {
            builder.with_client_auth_cert(chain, key).map_err(TlsError::Key)?
        }
        None => builder.with_no_client_auth(),
    };
    if config.accept_invalid_certs {
        tls.dangerous().set_certificate_verifier(Arc::new(NoVerification));
    }
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = ServerName::try_from(name).map_err(TlsError::ServerName)?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_http1().wrap_connector(tcp))
}

fn trusted(authorities: &[Vec<u8>]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone().into()).map_err(TlsError::Authority)?;
    }
    Ok(roots)
}

/// Accepts every certificate, for insecure-skip-tls-verify.
#[derive(Debug)]
struct NoVerification;

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        use SignatureScheme as Scheme;
        vec![
            Scheme::RSA_PKCS1_SHA1,
            Scheme::ECDSA_SHA1_Legacy,
            Scheme::RSA_PKCS1_SHA256,
            Scheme::ECDSA_NISTP256_SHA256,
            Scheme::RSA_PKCS1_SHA384,
            Scheme::ECDSA_NISTP384_SHA384,
            Scheme::RSA_PKCS1_SHA512,
            Scheme::ECDSA_NISTP521_SHA512,
            Scheme::RSA_PSS_SHA256,
            Scheme::RSA_PSS_SHA384,
            Scheme::RSA_PSS_SHA512,
            Scheme::ED25519,
            Scheme::ED448,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::client::legacy::connect::HttpConnector;
    use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
    use rustls::ServerConfig;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tower::{BoxError, ServiceExt as _};

    /// A certificate that is its own authority.
    fn certificate(name: &str) -> CertifiedKey<KeyPair> {
        generate_simple_self_signed([name.to_owned()]).unwrap()
    }

    /// Connects to a server at 127.0.0.1 with this certificate. `trusted` is the only authority.
    async fn connect(
        server: &CertifiedKey<KeyPair>,
        trusted: &CertifiedKey<KeyPair>,
        configure: impl FnOnce(&mut Config),
    ) -> Result<(), BoxError> {
        let chain = vec![server.cert.der().clone()];
        let key = PrivateKeyDer::Pkcs8(server.signing_key.serialize_der().into());
        let accepts = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("https://{}", listener.local_addr()?).parse::<hyper::Uri>()?;
        let mut config = Config::new(address.clone());
        config.root_cert = Some(vec![trusted.cert.der().to_vec()]);
        configure(&mut config);
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let accepting = async {
            let (socket, _) = listener.accept().await.unwrap();
            TlsAcceptor::from(Arc::new(accepts)).accept(socket).await.ok();
        };
        let connecting = connector(&config, None, tcp)?.oneshot(address);
        tokio::join!(connecting, accepting).0.map(drop)
    }

    #[tokio::test]
    async fn only_a_trusted_certificate_for_the_right_name_is_accepted() {
        let by_address = certificate("127.0.0.1");
        let by_name = certificate("kubernetes.example");
        let wrong_name = "an untrusted certificate, or one for another name, is accepted";
        connect(&by_address, &by_address, |_| {}).await.expect("it is trusted");
        connect(&by_address, &by_name, |_| {}).await.expect_err(wrong_name);
        connect(&by_name, &by_name, |_| {}).await.expect_err(wrong_name);
        let named = |name: &'static str| {
            move |config: &mut Config| config.tls_server_name = Some(name.to_owned())
        };
        connect(&by_name, &by_name, named("kubernetes.example")).await.expect("it has this name");
        connect(&by_address, &by_address, named("kubernetes.example")).await.expect_err(wrong_name);
        let malformed = connect(&by_name, &by_name, named("not a name")).await.unwrap_err();
        assert!(malformed.to_string().contains("tls-server-name"), "{malformed}");
    }

    #[tokio::test]
    async fn every_certificate_is_accepted_if_verification_is_skipped() {
        let (server, other) = (certificate("elsewhere.example"), certificate("127.0.0.1"));
        connect(&server, &other, |config| config.accept_invalid_certs = true).await.unwrap();
    }

    #[test]
    fn identity_needs_a_certificate_and_a_key() {
        let CertifiedKey { cert, signing_key } = certificate("ada");
        let (certificate, key) = (cert.pem(), signing_key.serialize_pem());
        let identity = ClientIdentity::from_pem(format!("{key}\n{certificate}").as_bytes());
        assert_eq!(identity.unwrap().chain.len(), 1);
        assert!(matches!(ClientIdentity::from_pem(certificate.as_bytes()), Err(TlsError::Pem(_))));
        let error = ClientIdentity::from_pem(key.as_bytes()).unwrap_err();
        assert!(matches!(error, TlsError::NoCertificate), "{error}");
    }
}
