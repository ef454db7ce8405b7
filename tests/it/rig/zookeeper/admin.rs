//! An administrator of ZooKeeper servers, who may read and change everything.

use super::super::history::lock;
use baton::process::resolver::Resolver;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use zookeeper_client::access::{AccessList, AclEntry, GetAcl, SetAcl};
use zookeeper_client::client::{CallError, Client, SessionRequest};
use zookeeper_client::credentials::Credential;
use zookeeper_client::dial::Dialer;
use zookeeper_client::operations::{
    Access, Create, CreateMode, GetChildren, GetData, Multi, Op, OpFailure, Znode,
};
use zookeeper_client::servers::Servers;
use zookeeper_client::wire::{Code, Operation};

/// How long a connection to a running server may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

pub(crate) struct Admin {
    /// `Some` until it is dropped.
    runtime: Option<Runtime>,
    client: Mutex<Client<Resolver>>,
}

impl Admin {
    pub(super) fn of(servers: &str, credentials: &str) -> Self {
        let servers: Servers = servers.parse().expect("the rig's connect strings are valid");
        let all = (!credentials.is_empty())
            .then(|| Credential::parse_all(credentials).expect("the test's credentials are valid"));
        let credentials = all.unwrap_or_default();
        let client = Client::new(&servers, Dialer { tls: None, credentials }, Resolver::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("there are threads");
        Self { runtime: Some(runtime), client: Mutex::new(client) }
    }

    pub(crate) fn children(&self, path: &str) -> Result<Vec<String>, Code> {
        let mut names = self.call(&GetChildren { path: path.to_owned() })?;
        names.sort();
        Ok(names)
    }

    pub(crate) fn read(&self, path: &str) -> Result<Znode, Code> {
        self.call(&GetData { path: path.to_owned(), watch: false })
    }

    /// Creates a persistent znode.
    pub(crate) fn create(&self, path: &str, data: &str) -> Result<String, Code> {
        self.create_as(CreateMode::Persistent, path, data)
    }

    /// Creates an ephemeral znode, which ends with this administrator's session. Calls keep it
    /// alive.
    pub(crate) fn create_ephemeral(&self, path: &str) -> Result<String, Code> {
        self.create_as(CreateMode::Ephemeral, path, "other")
    }

    fn create_as(&self, mode: CreateMode, path: &str, data: &str) -> Result<String, Code> {
        let (path, data) = (path.to_owned(), data.as_bytes().to_vec());
        self.call(&Create { path, data, mode, access: Access::Open })
    }

    /// Forbids everyone to read a znode.
    pub(crate) fn hide(&self, path: &str) -> Result<(), Code> {
        const ALL_BUT_READ: i32 = 30;
        self.set_access(path, &[(ALL_BUT_READ, "world", "anyone")])
    }

    /// Sets an access list; each entry has permissions, scheme, and identity.
    pub(crate) fn set_access(&self, path: &str, entries: &[(i32, &str, &str)]) -> Result<(), Code> {
        const ANY_VERSION: i32 = -1;
        let entry = |(permissions, scheme, id): &(i32, &str, &str)| {
            let (scheme, id) = ((*scheme).to_owned(), (*id).to_owned());
            AclEntry { permissions: *permissions, scheme, id }
        };
        let list =
            AccessList { entries: entries.iter().map(entry).collect(), version: ANY_VERSION };
        self.call(&SetAcl { path: path.to_owned(), list })
    }

    /// A znode's access list, as zkCli prints it.
    pub(crate) fn access(&self, path: &str) -> Result<String, Code> {
        self.call(&GetAcl { path: path.to_owned() }).map(|list| list.to_string())
    }

    pub(crate) fn delete(&self, path: &str) -> Result<(), Code> {
        let done = self.call(&Multi(vec![Op::Delete(path.to_owned())]))?;
        done.map_err(|OpFailure { code, .. }| code)
    }

    /// Runs on a thread of its own, since the test may be inside a runtime.
    fn call<R: Operation<Reply: Send> + Sync>(&self, request: &R) -> Result<R::Reply, Code> {
        let called = thread::scope(|threads| threads.spawn(|| self.call_here(request)).join());
        called.expect("the servers admit the administrator")
    }

    /// Opens a new session if the previous one has expired.
    fn call_here<R: Operation>(&self, request: &R) -> Result<R::Reply, Code> {
        let client = lock(&self.client);
        self.runtime.as_ref().expect("it is not dropped yet").block_on(async {
            for _ in 0..5 {
                // A hanging server answers nothing. A call that times out closes its connection.
                match timeout(ANSWER, client.call(request)).await {
                    Ok(Ok(reply)) => return Ok(reply),
                    Ok(Err(CallError::Refused(code))) if code != Code::SessionExpired => {
                        return Err(code);
                    }
                    Err(_)
                    | Ok(Err(CallError::Refused(_) | CallError::NotSent | CallError::Unknown(_))) =>
                    {
                        let connected =
                            client.connect(SessionRequest::New, PATIENCE, PATIENCE).await;
                        connected.expect("a server grants a session");
                    }
                }
            }
            panic!("the servers lose every connection");
        })
    }
}

/// Does not wait: the test may be inside a runtime, which must not wait for another to shut down.
impl Drop for Admin {
    fn drop(&mut self) {
        self.runtime.take().expect("it is dropped once").shutdown_background();
    }
}
