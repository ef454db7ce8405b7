//! Certificates for the servers and clients of one test, from its own authority.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use std::fs;
use std::path::{Path, PathBuf};

const INFALLIBLE: &str = "these names can be written into a certificate";

pub(crate) struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority. Writes `ca.crt` into `folder`, where everything that it issues goes, too.
    pub(crate) fn begin(folder: &Path) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(authority, key()).expect(INFALLIBLE);
        put(folder, "ca.crt", &issuer.pem());
        Self { folder: folder.to_owned(), issuer }
    }

    /// Writes `<name>.crt` and `<name>.key` for a server with these names and addresses.
    pub(crate) fn server(&self, name: &str, reached_by: &[&str]) {
        let reached_by: Vec<_> = reached_by.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(reached_by).expect(INFALLIBLE);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(name, &params);
    }

    /// Writes `<name>.crt` and `<name>.key` for a client with this name and organization.
    pub(crate) fn client(&self, name: &str, organization: &str) {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(name, &params);
    }

    /// Writes `<name>.crt` and `<name>.key` for a server that is also a client of itself, as etcd's
    /// gateway is.
    pub(crate) fn member(&self, name: &str, reached_by: &[&str]) {
        let reached_by: Vec<_> = reached_by.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(reached_by).expect(INFALLIBLE);
        params.distinguished_name = DistinguishedName::new();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(name, &params);
    }

    fn issue(&self, name: &str, params: &CertificateParams) {
        let key = key();
        let certificate = params.signed_by(&key, &self.issuer).expect(INFALLIBLE);
        put(&self.folder, &format!("{name}.crt"), &certificate.pem());
        put(&self.folder, &format!("{name}.key"), &key.serialize_pem());
    }
}

/// Writes `<name>.key` and `<name>.pub`, a key pair without a certificate.
pub(crate) fn pair(folder: &Path, name: &str) {
    let pair = key();
    put(folder, &format!("{name}.key"), &pair.serialize_pem());
    put(folder, &format!("{name}.pub"), &pair.public_key_pem());
}

fn key() -> KeyPair {
    KeyPair::generate().expect("there is randomness")
}

fn put(folder: &Path, name: &str, pem: &str) {
    fs::write(folder.join(name), pem).expect("the folder is ours");
}
