//! One user's access to an API server: a kubeconfig, and blocking calls.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime;
use tokio::time::timeout;

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// A user in one namespace.
#[derive(Clone)]
pub(crate) struct Access {
    kubeconfig: PathBuf,
}

impl Access {
    /// The administrator of the API server whose keys are in `folder`.
    pub(super) fn of_admin(folder: &Path, server: SocketAddr) -> Self {
        let admin = Self { kubeconfig: folder.join("admin.kubeconfig") };
        admin.write(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": {"server": url(server), "certificate-authority": folder.join("ca.crt")}}],
            "users": [{"name": "it", "user": {
                "client-certificate": folder.join("admin.crt"),
                "client-key": folder.join("admin.key"),
            }}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": "default"}}],
            "current-context": "it",
        }));
        admin
    }

    /// The same user in another namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Self {
        self.varied(namespace, |content| {
            content["contexts"][0]["context"]["namespace"] = namespace.into();
        })
    }

    /// Another user in the same namespace.
    pub(super) fn with_token(&self, user: &str, token: &str) -> Self {
        self.identified_by(user, json!({"token": token}))
    }

    /// The user with these credentials, as a kubeconfig spells them, in the same namespace.
    pub(crate) fn identified_by(&self, name: &str, credentials: Value) -> Self {
        self.varied(name, |content| content["users"][0]["user"] = credentials)
    }

    /// The same user through a proxy.
    pub(crate) fn through(&self, proxy: SocketAddr) -> Self {
        self.at(&format!("through-{}", proxy.port()), &url(proxy))
    }

    /// The same user, with this address of the API server.
    pub(crate) fn at(&self, name: &str, address: &str) -> Self {
        self.varied(name, |content| content["clusters"][0]["cluster"]["server"] = address.into())
    }

    /// The trusted certificate authorities, as PEM.
    pub(crate) fn authority(&self) -> String {
        fs::read_to_string(self.kubeconfig.with_file_name("ca.crt")).expect("it was written")
    }

    /// The key that signs tokens, as PEM.
    pub(super) fn signing_key(&self) -> String {
        fs::read_to_string(self.kubeconfig.with_file_name("accounts.key")).expect("it was written")
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The path of the kubeconfig, for a flag.
    pub(crate) fn kubeconfig_path(&self) -> String {
        self.kubeconfig.to_str().expect("the paths of the rig are UTF-8").to_owned()
    }

    pub(crate) fn lease(&self, name: &str) -> kube::Result<Option<Lease>> {
        self.call(async |client| Api::default_namespaced(client).get_opt(name).await)
    }

    /// `PUT`, which also creates: writes the Lease as it is, with or without uid and resourceVersion.
    pub(crate) fn put(&self, lease: &Lease) -> kube::Result<Lease> {
        let name = lease.metadata.name.as_deref().expect("a lease has a name");
        self.call(async |client| {
            Api::default_namespaced(client).replace(name, &PostParams::default(), lease).await
        })
    }

    /// An unconditional merge patch.
    pub(crate) fn patch(&self, name: &str, patch: &Value) -> kube::Result<Lease> {
        let patch = Patch::Merge(patch);
        self.call(async |client| {
            Api::default_namespaced(client).patch(name, &PatchParams::default(), &patch).await
        })
    }

    pub(crate) fn delete(&self, name: &str) -> kube::Result<()> {
        self.call(async |client| {
            Api::<Lease>::default_namespaced(client)
                .delete(name, &DeleteParams::default())
                .await
                .map(drop)
        })
    }

    /// The text at a path that is not an object: `/metrics`, `/readyz`.
    pub(crate) fn text(&self, path: &str) -> kube::Result<String> {
        let request = hyper::Request::get(path).body(Vec::new()).expect("it is a path");
        self.call(async |client| client.request_text(request).await)
    }

    /// Any other call. Each uses a new connection, so that no call uses one that a restart broke.
    pub(crate) fn call<T>(
        &self,
        call: impl AsyncFnOnce(Client) -> kube::Result<T>,
    ) -> kube::Result<T> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        runtime.block_on(async {
            let answer = async { call(self.client().await?).await };
            timeout(PATIENCE, answer)
                .await
                .unwrap_or_else(|late| Err(kube::Error::Service(Box::new(late))))
        })
    }

    /// Writes a changed copy beside this kubeconfig.
    fn varied(&self, name: &str, change: impl FnOnce(&mut Value)) -> Self {
        let text = fs::read(&self.kubeconfig).expect("it was written");
        let mut content = serde_json::from_slice(&text).expect("it was written as JSON");
        change(&mut content);
        let varied =
            Self { kubeconfig: self.kubeconfig.with_extension(format!("{name}.kubeconfig")) };
        varied.write(&content);
        varied
    }

    fn write(&self, content: &Value) {
        // JSON is valid YAML.
        fs::write(&self.kubeconfig, content.to_string()).expect("the folder is ours");
    }

    async fn client(&self) -> kube::Result<Client> {
        self.config().await.try_into()
    }

    /// A client that adds no credentials: each request carries its own.
    pub(in crate::rig) async fn without_credentials(&self) -> Client {
        let mut config = self.config().await;
        config.auth_info = AuthInfo::default();
        config.try_into().expect("it names an API server")
    }

    async fn config(&self) -> Config {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).expect("it was written");
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .expect("it was written in full");
        config.default_retry = false;
        config.proxy_url = None; // the server is on this machine
        config
    }
}

fn url(server: SocketAddr) -> String {
    format!("https://{server}")
}
