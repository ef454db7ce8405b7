//! The keys of one API server: its own authority, its certificate, its administrator's, and what signs tokens.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use std::fs;
use std::path::Path;

const INFALLIBLE: &str = "these names can be written into a certificate";

/// Writes `ca.crt`, `server.{crt,key}`, `admin.{crt,key}` and `accounts.{pub,key}`.
pub(super) fn write(folder: &Path) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, key()).expect(INFALLIBLE);
    put(folder, "ca.crt", &authority.pem());

    // Both loopback addresses: a proxy may listen on the other one.
    let names = ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
    let mut server = CertificateParams::new(names).expect(INFALLIBLE);
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    issue(folder, "server", &server, &authority);

    let mut admin = CertificateParams::default();
    admin.distinguished_name = DistinguishedName::new();
    admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
    admin.distinguished_name.push(DnType::CommonName, "admin");
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    issue(folder, "admin", &admin, &authority);

    let accounts = key();
    put(folder, "accounts.key", &accounts.serialize_pem());
    put(folder, "accounts.pub", &accounts.public_key_pem());
}

fn issue(folder: &Path, name: &str, params: &CertificateParams, authority: &CertifiedIssuer<'_, KeyPair>) {
    let key = key();
    let certificate = params.signed_by(&key, authority).expect(INFALLIBLE);
    put(folder, &format!("{name}.crt"), &certificate.pem());
    put(folder, &format!("{name}.key"), &key.serialize_pem());
}

fn key() -> KeyPair {
    KeyPair::generate().expect("there is randomness")
}

fn put(folder: &Path, name: &str, pem: &str) {
    fs::write(folder.join(name), pem).expect("the folder is ours");
}
