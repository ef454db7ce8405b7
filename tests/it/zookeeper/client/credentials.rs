//! Whom servers let in, and what access lists do: digest, SASL, TLS.

use super::{PATIENCE, T, begin, create, own_path, read, run};
use crate::rig::{Authority, Ensemble, Proxy, SECURE_PORT, Settings};
use crate::zookeeper::at_last;
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

fn mine(path: &str) -> Create {
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
fn what_is_made_with_credentials_is_read_by_all_and_changed_by_their_owners_also_after_a_reconnect()
{
    run(async {
        let servers = Ensemble::shared().connect_string();
        let (owner, stranger) = (client(&servers, "digest:shop:secret"), client(&servers, ""));
        begin(&owner, T).await;
        begin(&stranger, T).await;
        let path = own_path();
        assert_eq!(refusal(&owner, &mine(&path)).await, None);
        assert_eq!(stranger.call(&read(&path, false)).await.unwrap().data, b"x");
        let below = create(&format!("{path}/below"), CreateMode::Ephemeral);
        assert_eq!(refusal(&stranger, &below).await, Some(Code::NoAuth));
        owner.connect(SessionRequest::Resume, T, PATIENCE).await.unwrap().unwrap();
        assert_eq!(refusal(&owner, &below).await, None);
        assert_eq!(
            refusal(&stranger, &mine(&own_path())).await,
            Some(Code::InvalidAccess),
            "nothing to name it by"
        );
    });
}

#[test]
fn sasl_users_are_let_in_by_their_password_only() {
    run(async {
        let folder = TempDir::new().unwrap();
        let ensemble =
            Ensemble::start(Settings::with_users(folder.path(), "alice", "secret, \"1\""));
        let servers = ensemble.connect_string();
        let alice = client(&servers, "sasl:alice:secret, \"1\"");
        begin(&alice, T).await;
        assert_eq!(refusal(&alice, &mine(&own_path())).await, None);

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
        let nobody = client(&servers, "");
        begin(&nobody, T).await;
        assert_eq!(
            refusal(&nobody, &create(&own_path(), CreateMode::Persistent)).await,
            Some(Code::AuthRequired)
        );
    });
}

#[test]
fn tls_is_spoken_with_servers_that_we_trust_and_that_trust_us() {
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
        let client = at_last(async || connect(&by_name, "ca.crt", Some("candidate")).await).await;
        let path = own_path();
        assert_eq!(refusal(&client, &create(&path, CreateMode::Persistent)).await, None);
        assert_eq!(client.call(&read(&path, true)).await.unwrap().data, b"x");

        let refused = async |servers: &str, authority, own| {
            connect(servers, authority, own).await.err().unwrap_or_default()
        };
        let nameless = refused(&by_name, "ca.crt", None).await;
        assert!(
            nameless.contains("granted no session") || nameless.contains("TLS handshake with"),
            "{nameless}"
        );
        let elsewhere = refused(&secure.to_string(), "ca.crt", Some("candidate")).await;
        assert!(elsewhere.contains("certificate must name \"127."), "{elsewhere}");
        Authority::begin(other.path());
        fs::rename(other.path().join("ca.crt"), at("other.crt")).unwrap();
        let distrusted = refused(&by_name, "other.crt", Some("candidate")).await;
        assert!(distrusted.contains("be signed by a trusted authority"), "{distrusted}");
        let plain = refused(&ensemble.connect_string(), "ca.crt", Some("candidate")).await;
        assert!(plain.contains("its port must be the secure one"), "{plain}");
    });
}
