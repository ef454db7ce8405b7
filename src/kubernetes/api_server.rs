//! Access to one API server: through the environment and service account in a Pod, elsewhere
//! through a kubeconfig.
//!
//! Touches files and the environment, through kube, and runs the kubeconfig's exec plugin. It does
//! so on a blocking thread, one load at a time, since disks and plugins may hang. Start with
//! [`ApiServer`]. Tokens and certificates may change at any time; the cluster may not, since
//! another cluster holds another election.

pub(crate) use super::api_server_error::CallError;
use super::api_server_error::SERVICE_ACCOUNT;
pub use super::api_server_error::{ApiServerError, ExecPluginError};
use super::client::client;
use super::credentials::Credentials;
pub use super::tls::TlsError;
use crate::config::Cluster;
use crate::process::blocking::{Blocking, run_blocking};
use crate::process::resolver::Resolver;
use hyper::header::AUTHORIZATION;
use hyper::{Request, Response};
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::request::Error as RequestError;
use kube::{Client, Config};
use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// The time limit of the first load: longer than an exec plugin may run.
const FIRST_LOAD_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a request may wait for the check of the files that precedes it.
const FILE_CHECK_TIMEOUT: Duration = Duration::from_millis(100);

/// The name of a load in the log, if it panics.
const TASK: &str = "loading the credentials";

/// An API server, with the current credentials.
pub(crate) struct ApiServer {
    pinned: PinnedCluster,
    /// Absent until the exec plugin has returned the first credentials.
    current: RefCell<Option<AuthenticatedClient>>,
    /// The load in progress. It outlives the request that started it, and later ones wait for it.
    loading: Mutex<Option<(Reload, Blocking<LoadResult>)>>,
}

type LoadResult = Result<Option<AuthenticatedClient>, ApiServerError>;

/// The API server that was chosen at the start, which never changes.
#[derive(Clone)]
struct PinnedCluster {
    cluster: Cluster,
    address: String,
    /// The namespace of the Pod, or of the kubeconfig's context.
    namespace: String,
    /// Kept when a client is replaced.
    resolver: Resolver,
}

/// When to load the credentials again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reload {
    /// If a file has changed.
    IfChanged,
    /// Always: the server refused the current ones, or there are none.
    Always,
}

/// A client with its credentials.
struct AuthenticatedClient {
    client: Client,
    files: Vec<LoadedFile>,
}

/// A file with the content that it had just before its use.
#[derive(Clone, PartialEq, Eq)]
struct LoadedFile {
    path: PathBuf,
    content: Option<Vec<u8>>,
}

impl ApiServer {
    /// Chooses the API server of `cluster`, and loads the first credentials. If the exec plugin
    /// fails for now, the first request runs it again.
    pub(crate) async fn open(cluster: &Cluster) -> Result<Self, ApiServerError> {
        let cluster = cluster.clone();
        let loading = run_blocking(TASK, move || {
            let pinned = PinnedCluster::resolve(cluster)?;
            match AuthenticatedClient::load(&pinned) {
                Ok(client) => Ok((Some(client), pinned)),
                Err(ApiServerError::ExecPlugin(error)) if error.is_transient() => {
                    Ok((None, pinned))
                }
                Err(error) => Err(error),
            }
        });
        let (client, pinned) = timeout(FIRST_LOAD_TIMEOUT, loading)
            .await
            .map_err(|_elapsed| ApiServerError::TimedOut(FIRST_LOAD_TIMEOUT))??;
        Ok(Self { pinned, current: RefCell::new(client), loading: Mutex::default() })
    }

    /// The namespace of the Pod, or of the kubeconfig's context.
    pub(crate) fn namespace(&self) -> String {
        self.pinned.namespace.clone()
    }

    /// Sends a request; after a 401 renews the credentials and sends it once more. Such a request was
    /// not applied.
    pub(crate) async fn call(
        &self,
        request: Result<Request<Vec<u8>>, RequestError>,
    ) -> Result<kube::Result<Response<Body>>, CallError> {
        let request = request.map_err(CallError::Request)?;
        match self.send(request.clone()).await? {
            Err(kube::Error::Api(status)) if status.code == 401 => {
                self.renew_credentials().await.map_err(CallError::Rejected)?;
                self.send(request).await
            }
            response => Ok(response),
        }
    }

    async fn send(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<kube::Result<Response<Body>>, CallError> {
        let client = self.client().await.map_err(CallError::NoCredentials)?;
        Ok(client.send(request.map(Body::from)).await)
    }

    /// A client with the current credentials.
    ///
    /// Does not report a check of the files that hangs or fails: the current credentials may still
    /// be valid, and if not, [`Self::renew_credentials`] reports the cause.
    /// An error says why there are no credentials at all.
    async fn client(&self) -> Result<Client, ApiServerError> {
        if self.current_client().is_some() {
            timeout(FILE_CHECK_TIMEOUT, self.reload(Reload::IfChanged)).await.ok();
        }
        loop {
            match self.current_client() {
                Some(client) => return Ok(client),
                None => self.renew_credentials().await?,
            }
        }
    }

    fn current_client(&self) -> Option<Client> {
        self.current.borrow().as_ref().map(|current| current.client.clone())
    }

    /// Loads the credentials again, because the current ones were refused or are missing.
    async fn renew_credentials(&self) -> Result<(), ApiServerError> {
        self.reload(Reload::Always).await
    }

    async fn reload(&self, when: Reload) -> Result<(), ApiServerError> {
        let mut loading = self.loading.lock().await;
        loop {
            let (started, result) = loading.get_or_insert_with(|| (when, self.start(when)));
            let (started, result) = (*started, result.await);
            *loading = None;
            let loaded = result?;
            let is_enough = started == when || loaded.is_some();
            if let Some(client) = loaded {
                self.current.replace(Some(client));
            }
            if is_enough {
                return Ok(());
            }
        }
    }

    fn start(&self, when: Reload) -> Blocking<LoadResult> {
        let pinned = self.pinned.clone();
        let files = match when {
            Reload::IfChanged => {
                self.current.borrow().as_ref().map(|current| current.files.clone())
            }
            Reload::Always => None,
        };
        run_blocking(TASK, move || match files {
            Some(files) if !files.iter().any(LoadedFile::has_changed) => Ok(None),
            Some(_) | None => AuthenticatedClient::load(&pinned).map(Some),
        })
    }
}

impl PinnedCluster {
    /// Resolves `cluster`. Without a named context it pins the current one.
    fn resolve(cluster: Cluster) -> Result<Self, ApiServerError> {
        let cluster = match cluster {
            Cluster::Pod => Cluster::Pod,
            Cluster::Kubeconfig { path, context } => {
                let context = match context {
                    Some(context) => Some(context),
                    None => kubeconfig(path.as_ref())?.current_context,
                };
                Cluster::Kubeconfig { path, context }
            }
        };
        let (config, _) = configuration(&cluster)?;
        let (address, namespace) = (config.cluster_url.to_string(), config.default_namespace);
        Ok(Self { cluster, address, namespace, resolver: Resolver::default() })
    }
}

impl AuthenticatedClient {
    /// Reads the files and runs the exec plugin. Blocks.
    fn load(pinned: &PinnedCluster) -> Result<Self, ApiServerError> {
        let (mut config, files) = configuration(&pinned.cluster)?;
        check(&config, pinned)?;
        let credentials = Credentials::load(&config.auth_info)?;
        config.headers.extend(credentials.authorization.map(|value| (AUTHORIZATION, value)));
        let client = client(&config, credentials.identity, pinned.resolver.clone())?;
        Ok(Self { client, files })
    }
}

impl LoadedFile {
    fn read(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { content: fs::read(&path).ok(), path }
    }

    /// Whether the file has new content. An unreadable file has none: the old may still be valid.
    fn has_changed(&self) -> bool {
        let now = Self::read(&self.path);
        now.content.is_some() && now != *self
    }
}

/// The configuration of `cluster`, and the files it was read from.
fn configuration(cluster: &Cluster) -> Result<(Config, Vec<LoadedFile>), ApiServerError> {
    match cluster {
        Cluster::Pod => {
            let files = ["token", "ca.crt"]
                .map(|file| LoadedFile::read(format!("{SERVICE_ACCOUNT}/{file}")))
                .to_vec();
            Ok((Config::incluster_env().map_err(ApiServerError::InCluster)?, files))
        }
        Cluster::Kubeconfig { path, context } => {
            let kubeconfig = kubeconfig(path.as_ref())?;
            let files = files_of(&kubeconfig, context.as_deref()).unwrap_or_default();
            let files = files.into_iter().map(LoadedFile::read).collect();
            let options = KubeConfigOptions { context: context.clone(), ..Default::default() };
            let config =
                Handle::current().block_on(Config::from_custom_kubeconfig(kubeconfig, &options));
            Ok((config.map_err(ApiServerError::Kubeconfig)?, files))
        }
    }
}

fn kubeconfig(path: Option<&PathBuf>) -> Result<Kubeconfig, ApiServerError> {
    path.map_or_else(Kubeconfig::read, read_from).map_err(ApiServerError::Kubeconfig)
}

/// Reads this kubeconfig. kube panics on UTF-16 with an odd number of bytes.
fn read_from(path: &PathBuf) -> Result<Kubeconfig, KubeconfigError> {
    let is_utf16 =
        |content: &[u8]| content.starts_with(b"\xff\xfe") || content.starts_with(b"\xfe\xff");
    if fs::read(path).is_ok_and(|content| is_utf16(&content) && content.len() % 2 == 1) {
        let error =
            io::Error::new(io::ErrorKind::InvalidData, "its UTF-16 ends within a character");
        return Err(KubeconfigError::ReadConfig(error, path.clone()));
    }
    Kubeconfig::read_from(path)
}

/// The files that a context of a kubeconfig names.
fn files_of(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<Vec<String>> {
    let named = kubeconfig.contexts.iter().find(|named| Some(&*named.name) == context)?;
    let context = named.context.as_ref()?;
    let cluster =
        kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    let user =
        kubeconfig.auth_infos.iter().find(|named| Some(&named.name) == context.user.as_ref());
    let files_of_user = |user: &AuthInfo| {
        [&user.token_file, &user.client_certificate, &user.client_key].map(Clone::clone)
    };
    let user_files = user.and_then(|named| named.auth_info.as_ref()).map(files_of_user);
    Some(
        user_files
            .into_iter()
            .flatten()
            .chain([cluster.certificate_authority.clone()])
            .flatten()
            .collect(),
    )
}

/// Refuses a different API server, and settings that kube accepts but that fail every request.
fn check(config: &Config, pinned: &PinnedCluster) -> Result<(), ApiServerError> {
    let address = config.cluster_url.to_string();
    if address != pinned.address {
        return Err(ApiServerError::AddressChanged {
            pinned: pinned.address.clone(),
            current: address,
        });
    }
    if !matches!(config.cluster_url.scheme_str(), Some("http" | "https")) {
        return Err(ApiServerError::Server(address));
    }
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(ApiServerError::NoCertificate);
    }
    match &config.proxy_url {
        Some(proxy) => Err(ApiServerError::Proxy(proxy.to_string())),
        None => Ok(()),
    }
}
