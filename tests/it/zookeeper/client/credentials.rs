//! Authentication and access lists: digest, SASL, and TLS.

use super::{PATIENCE, T, create, own_path, read, run, start_session};
use crate::rig::{Authority, Ensemble, Proxy, SECURE_PORT, Settings};
use crate::zookeeper::retry_until_ok;
use baton::process::resolver::Resolver;
use std::fs;
use std::net::SocketAddr;
use tempfile::TempDir;
use zookeeper_client::client::{CallError, Client, SessionRequest};
use zookeeper_client::credentials::Credential;
use zookeeper_client::dial::Dialer;
use zookeeper_client::operations::{Access, Create, CreateMode};
use zookeeper_client::tls::{ClientCertificate, TlsFiles};
use zookeeper_client::wire::Code;

fn client(servers: &str, credentials: &str) -> Client<Resolver> {
    let all = (!credentials.is_empty()).then(|| Credential::parse_all(credentials).unwrap());
    let credentials = all.unwrap_or_default();
    Client::new(&servers.parse().unwrap(), Dialer { tls: None, credentials }, Resolver::default())
}

/// Creates a znode that only its creator may change.
fn owned(path: &str) -> Create {
    Create { access: Access::Creator, ..create(path, CreateMode::Persistent) }
}

async fn refusal(client: &Client<Resolver>, request: &Create) -> Option<Code> {
    match client.call(request).await {
        Ok(_) => None,
        Err(CallError::Refused(code)) => Some(code),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn only_the_creator_changes_its_znode_across_reconnects() {
    run(async {
        let servers = Ensemble::shared().connect_string();
        let (owner, stranger) = (client(&servers, "digest:shop:secret"), client(&servers, ""));
        start_session(&owner, T).await;
        start_session(&stranger, T).await;
        let path = own_path();
        assert_eq!(refusal(&owner, &owned(&path)).await, None);
        assert_eq!(stranger.call(&read(&path, false)).await.unwrap().data, b"x");
        let below = create(&format!("{path}/below"), CreateMode::Ephemeral);
        assert_eq!(refusal(&stranger, &below).await, Some(Code::NoAuth));
        owner.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap().unwrap();
        assert_eq!(refusal(&owner, &below).await, None);
        assert_eq!(
            refusal(&stranger, &owned(&own_path())).await,
            Some(Code::InvalidAccess),
            "without credentials there is no creator to name"
        );
    });
}

#[test]
fn sasl_users_need_their_password() {
    run(async {
        let folder = TempDir::new().unwrap();
        let ensemble =
            Ensemble::start(Settings::with_users(folder.path(), "alice", "secret, \"1\""));
        let servers = ensemble.connect_string();
        let alice = client(&servers, "sasl:alice:secret, \"1\"");
        start_session(&alice, T).await;
        assert_eq!(refusal(&alice, &owned(&own_path())).await, None);

        for wrong in ["sasl:alice:wrong", "sasl:bob:secret"] {
            let error = client(&servers, wrong)
                .connect(SessionRequest::New, T, PATIENCE)
                .await
                .unwrap_err();
            assert!(
                error.is_refusal() && error.to_string().contains("refused the sasl credentials"),
                "{error}"
            );
        }
        let anonymous = client(&servers, "");
        start_session(&anonymous, T).await;
        assert_eq!(
            refusal(&anonymous, &create(&own_path(), CreateMode::Persistent)).await,
            Some(Code::AuthRequired)
        );
    });
}

#[test]
fn tls_needs_trust_in_both_directions() {
    run(async {
        let folder = TempDir::new().unwrap();
        let other = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        let authority = Authority::begin(folder.path());
        authority.client("candidate", "shop");
        let ensemble = Ensemble::start(Settings::secured(folder.path(), &authority));
        let secure = SocketAddr::new(ensemble.address(0).ip(), SECURE_PORT);
        let proxy = Proxy::to(secure);
        let by_name = format!("localhost:{}", proxy.address().port());
        let connect = async |servers: &str, authority: &str, own: Option<&str>| {
            let client = own.map(|name| ClientCertificate {
                certificate: at(&format!("{name}.crt")),
                key: at(&format!("{name}.key")),
            });
            let tls = TlsFiles { authorities: at(authority), client }.load().unwrap();
            let client = Client::new(
                &servers.parse().unwrap(),
                Dialer { tls: Some(tls), credentials: Vec::new() },
                Resolver::default(),
            );
            client
                .connect(SessionRequest::New, T, PATIENCE)
                .await
                .map(|_| client)
                .map_err(|error| error.to_string())
        };
        let client =
            retry_until_ok(async || connect(&by_name, "ca.crt", Some("candidate")).await).await;
        let path = own_path();
        assert_eq!(refusal(&client, &create(&path, CreateMode::Persistent)).await, None);
        assert_eq!(client.call(&read(&path, true)).await.unwrap().data, b"x");

        let refused = async |servers: &str, authority, own| {
            connect(servers, authority, own).await.err().unwrap_or_default()
        };
        let without_certificate = refused(&by_name, "ca.crt", None).await;
        assert!(
            without_certificate.contains("granted no session")
                || without_certificate.contains("TLS handshake with"),
            "{without_certificate}"
        );
        let by_address = refused(&secure.to_string(), "ca.crt", Some("candidate")).await;
        assert!(by_address.contains("certificate must name \"127."), "{by_address}");
        Authority::begin(other.path());
        fs::rename(other.path().join("ca.crt"), at("other.crt")).unwrap();
        let other_authority = refused(&by_name, "other.crt", Some("candidate")).await;
        assert!(other_authority.contains("be signed by a trusted authority"), "{other_authority}");
        let plain = refused(&ensemble.connect_string(), "ca.crt", Some("candidate")).await;
        assert!(plain.contains("its port must be the secure one"), "{plain}");
    });
}
