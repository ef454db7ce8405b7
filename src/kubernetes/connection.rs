//! How one API server is reached: in a Pod by its environment and service account, elsewhere by a kubeconfig.
//!
//! Touches files and environment (through kube), and runs the program that a kubeconfig may name for credentials; all
//! of it where it may block, one look at a time, since disks and programs may hang. Start with [`Connections`].
//! Credentials change while we live (kubelet replaces a token long before it expires), and so do certificates; the
//! cluster does not: another one holds another election.

use super::client::client;
use super::connect_error::SERVICE_ACCOUNT;
pub use super::connect_error::{ConnectError, ProgramError};
use super::credentials;
use super::credentials::Credentials;
use crate::config::Cluster;
use crate::process::blocking::{Blocking, run_blocking};
use crate::process::resolver::Resolver;
use k8s_openapi::ByteString;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use std::cell::RefCell;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long the first look may take: longer than a program may run.
const START: Duration = Duration::from_secs(20);

/// How long a request may wait for the look that goes before it.
const GLANCE: Duration = Duration::from_millis(100);

/// How the log names a look that panicked.
const LOOK: &str = "the look for credentials";

/// The way to one API server, by the credentials of the moment.
pub(crate) struct Connections {
    origin: Origin,
    /// Absent until the program has given the first credentials.
    current: RefCell<Option<Connection>>,
    /// The look that is under way: it outlives whoever has stopped waiting for it, and the next one waits for the same.
    look: Mutex<Option<(Look, Blocking<Looked>)>>,
}

type Looked = Result<Option<Connection>, ConnectError>;

/// Which API server this is, and stays.
#[derive(Clone)]
struct Origin {
    cluster: Cluster,
    address: String,
    /// The namespace of the Pod, or of the kubeconfig's context.
    namespace: String,
    /// It outlives the credentials of a client.
    resolver: Resolver,
}

/// What a look is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Whether files were replaced.
    Files,
    /// Other credentials: those that we have were refused.
    Anew,
}

/// A client with the credentials of one moment.
struct Connection {
    client: Client,
    files: Vec<Copied>,
}

/// A file as it was just before it was used.
#[derive(Clone, PartialEq, Eq)]
struct Copied {
    path: PathBuf,
    content: Option<Vec<u8>>,
}

impl Connections {
    /// The way to `cluster`, which is looked up now, once and for all. A program that fails may
    /// give credentials later, so it is run again by the first request.
    pub(crate) async fn open(cluster: &Cluster) -> Result<Self, ConnectError> {
        let cluster = cluster.clone();
        let opening = run_blocking(LOOK, move || {
            let origin = Origin::of(cluster)?;
            match Connection::open(&origin) {
                Ok(connection) => Ok((Some(connection), origin)),
                Err(ConnectError::Program(error)) if error.may_pass() => Ok((None, origin)),
                Err(error) => Err(error),
            }
        });
        let (connection, origin) =
            timeout(START, opening).await.map_err(|_elapsed| ConnectError::Late(START))??;
        Ok(Self { origin, current: RefCell::new(connection), look: Mutex::default() })
    }

    /// The namespace of the Pod, or of the kubeconfig's context.
    pub(crate) fn namespace(&self) -> String {
        self.origin.namespace.clone()
    }

    /// The client with the credentials of this moment.
    ///
    /// A look that hangs or gives no usable result delays nothing and is not reported: the present
    /// credentials may still be good, and if not, [`Self::renew`] reports the cause. An error says
    /// why there are no credentials at all.
    pub(crate) async fn client(&self) -> Result<Client, ConnectError> {
        if self.at_hand().is_some() {
            timeout(GLANCE, self.take_in(Look::Files)).await.ok();
        }
        loop {
            match self.at_hand() {
                Some(client) => return Ok(client),
                None => self.renew().await?,
            }
        }
    }

    fn at_hand(&self) -> Option<Client> {
        self.current.borrow().as_ref().map(|connection| connection.client.clone())
    }

    /// Looks for other credentials, since the present ones were refused or are missing.
    pub(crate) async fn renew(&self) -> Result<(), ConnectError> {
        self.take_in(Look::Anew).await
    }

    async fn take_in(&self, wanted: Look) -> Result<(), ConnectError> {
        let mut look = self.look.lock().await;
        loop {
            let (begun, looked) = look.get_or_insert_with(|| (wanted, self.begin(wanted)));
            let (begun, looked) = (*begun, looked.await);
            *look = None;
            let found = looked?;
            let is_enough = begun == wanted || found.is_some();
            if let Some(connection) = found {
                self.current.replace(Some(connection));
            }
            if is_enough {
                return Ok(());
            }
        }
    }

    fn begin(&self, look: Look) -> Blocking<Looked> {
        let origin = self.origin.clone();
        let files = match look {
            Look::Files => {
                self.current.borrow().as_ref().map(|connection| connection.files.clone())
            }
            Look::Anew => None,
        };
        run_blocking(LOOK, move || match files {
            Some(files) if !files.iter().any(Copied::was_replaced) => Ok(None),
            Some(_) | None => Connection::open(&origin).map(Some),
        })
    }
}

impl Origin {
    /// Where `cluster` is now. A context that is not named is the current one, and stays it.
    fn of(cluster: Cluster) -> Result<Self, ConnectError> {
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
        let (config, _) = found(&cluster)?;
        let (address, namespace) = (config.cluster_url.to_string(), config.default_namespace);
        Ok(Self { cluster, address, namespace, resolver: Resolver::default() })
    }
}

impl Connection {
    /// What stands in the files now, and what the program prints. Blocks.
    fn open(origin: &Origin) -> Result<Self, ConnectError> {
        let (mut config, files) = found(&origin.cluster)?;
        check(&config, origin)?;
        identify(&mut config.auth_info)?;
        let client = client(&config, origin.resolver.clone()).map_err(ConnectError::Client)?;
        Ok(Self { client, files })
    }
}

impl Copied {
    fn of(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { content: fs::read(&path).ok(), path }
    }

    /// One that cannot be read says nothing: what was in it may still be good.
    fn was_replaced(&self) -> bool {
        let now = Self::of(&self.path);
        now.content.is_some() && now != *self
    }
}

/// How `cluster` is reached, and the files that this was read from.
fn found(cluster: &Cluster) -> Result<(Config, Vec<Copied>), ConnectError> {
    match cluster {
        Cluster::Pod => {
            let files = ["token", "ca.crt"]
                .map(|file| Copied::of(format!("{SERVICE_ACCOUNT}/{file}")))
                .to_vec();
            Ok((Config::incluster_env().map_err(ConnectError::InCluster)?, files))
        }
        Cluster::Kubeconfig { path, context } => {
            let kubeconfig = kubeconfig(path.as_ref())?;
            let files = files_of(&kubeconfig, context.as_deref()).unwrap_or_default();
            let files = files.into_iter().map(Copied::of).collect();
            let options = KubeConfigOptions { context: context.clone(), ..Default::default() };
            let config =
                Handle::current().block_on(Config::from_custom_kubeconfig(kubeconfig, &options));
            Ok((config.map_err(ConnectError::Kubeconfig)?, files))
        }
    }
}

fn kubeconfig(path: Option<&PathBuf>) -> Result<Kubeconfig, ConnectError> {
    path.map_or_else(Kubeconfig::read, read_from).map_err(ConnectError::Kubeconfig)
}

/// What stands in this file. kube takes UTF-16 too, and panics where the last character of it is cut.
fn read_from(path: &PathBuf) -> Result<Kubeconfig, KubeconfigError> {
    let is_utf16 =
        |content: &[u8]| content.starts_with(b"\xff\xfe") || content.starts_with(b"\xfe\xff");
    if fs::read(path).is_ok_and(|content| is_utf16(&content) && content.len() % 2 == 1) {
        let cut = io::Error::new(io::ErrorKind::InvalidData, "its UTF-16 ends within a character");
        return Err(KubeconfigError::ReadConfig(cut, path.clone()));
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
    let of_user = |user: &AuthInfo| {
        [&user.token_file, &user.client_certificate, &user.client_key].map(Clone::clone)
    };
    let of_user = user.and_then(|named| named.auth_info.as_ref()).map(of_user);
    Some(
        of_user
            .into_iter()
            .flatten()
            .chain([cluster.certificate_authority.clone()])
            .flatten()
            .collect(),
    )
}

/// Refuses what kube takes and fails with at each request, and what leads to another election.
fn check(config: &Config, origin: &Origin) -> Result<(), ConnectError> {
    let address = config.cluster_url.to_string();
    if address != origin.address {
        return Err(ConnectError::Elsewhere { was: origin.address.clone(), is: address });
    }
    if !matches!(config.cluster_url.scheme_str(), Some("http" | "https")) {
        return Err(ConnectError::Server(address));
    }
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(ConnectError::NoCertificate);
    }
    match &config.proxy_url {
        Some(proxy) => Err(ConnectError::Proxy(proxy.to_string())),
        None => Ok(()),
    }
}

/// Puts the credentials themselves in the place of the file or the program that they come from: left to itself kube
/// would look there by a clock of its own, send the line's end of a token with it, and panic over one in the middle.
///
/// The order is kube's: user and password, token, token file, program.
fn identify(user: &mut AuthInfo) -> Result<(), ConnectError> {
    if let Some(provider) = &user.auth_provider {
        return Err(ConnectError::AuthProvider(provider.name.clone()));
    }
    // An empty token is what a template leaves.
    let token = user.token.take().filter(|token| !token.expose_secret().is_empty());
    let (file, program) = (user.token_file.take(), user.exec.take());
    if user.username.is_some() && user.password.is_some() {
        return Ok(());
    }
    if let Some(token) = token {
        user.token = Some(sendable(token.expose_secret(), "the kubeconfig")?);
    } else if let Some(path) = file.map(PathBuf::from) {
        let text = fs::read_to_string(&path)
            .map_err(|source| ConnectError::TokenFile { path: path.clone(), source })?;
        user.token = Some(sendable(&text, path.display())?);
    } else if let Some(program) = program {
        match Handle::current().block_on(credentials::run(&program))? {
            Credentials::Token(token) => {
                let place = format!("what {} printed", program.command.unwrap_or_default());
                user.token = Some(sendable(&token, place)?);
            }
            Credentials::Certificate { certificate, key } => {
                user.client_certificate_data = Some(as_data(certificate));
                user.client_key_data = Some(as_data(key).into());
            }
        }
    }
    Ok(())
}

fn sendable(text: &str, place: impl Display) -> Result<SecretString, ConnectError> {
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ConnectError::Token(place.to_string()));
    }
    Ok(token.into())
}

/// PEM as a kubeconfig has it where no file is named: in base64.
fn as_data(pem: String) -> String {
    match serde_json::to_value(ByteString(pem.into_bytes())) {
        Ok(Value::String(data)) => data,
        Ok(_) | Err(_) => unreachable!("bytes are written as a text"),
    }
}
