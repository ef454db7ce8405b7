//! The cluster that `run.sh` has created, and a client of its API server with administrator rights.

use super::command::{run, variable};
use super::node::Node;
use super::observer::Observer;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;

/// The timeout of a request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(super) observer: Arc<Observer>,
    /// The runtime of the client.
    runtime: Handle,
    client: Client,
}

impl Cluster {
    /// The cluster of this run, with a witness on each node.
    pub(crate) fn get() -> &'static Self {
        // A LazyLock would hide the reason of a failure from every test but the first.
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(Self::connect)
    }

    fn connect() -> Self {
        let (engine, cluster) = (variable("ENGINE"), variable("CLUSTER"));
        let nodes =
            run("kind", &["get", "nodes", "--name", &cluster], "").expect("kind lists the nodes");
        let node = |name: &str| Node { engine: engine.clone(), name: name.to_owned() };
        let nodes: Vec<Node> = nodes.split_whitespace().map(node).collect();
        assert_eq!(nodes.len(), 3, "the cluster needs a control plane and two workers");
        let runtime = runtime();
        let client = runtime.block_on(connect()).expect("the kubeconfig is valid");
        let observer = Observer::begin(&nodes);
        Self { nodes, observer, runtime, client }
    }

    /// The node with this name.
    pub(crate) fn node(&self, name: &str) -> &Node {
        self.nodes
            .iter()
            .find(|node| node.name == name)
            .unwrap_or_else(|| panic!("there is no node {name:?}"))
    }

    /// The node with the API server.
    pub(crate) fn control_plane(&self) -> &Node {
        self.nodes
            .iter()
            .find(|node| node.is_control_plane())
            .expect("the cluster has a control plane")
    }

    /// The other nodes.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.is_control_plane())
    }

    /// Reads the object at a path of the API server.
    pub(crate) fn read(&self, path: &str) -> Result<Value, String> {
        let request = hyper::Request::get(path).body(Vec::new()).expect("the path is valid");
        let answer = self
            .runtime
            .block_on(async { timeout(REQUEST_TIMEOUT, self.client.request(request)).await });
        answer.map_err(|elapsed| elapsed.to_string())?.map_err(|error| error.to_string())
    }
}

/// A runtime on its own thread until the process ends. Tests block on it from their threads.
fn runtime() -> Handle {
    let runtime = Builder::new_current_thread().enable_all().build().expect("the runtime starts");
    let handle = runtime.handle().clone();
    thread::spawn(move || runtime.block_on(pending::<()>()));
    handle
}

async fn connect() -> Result<Client, Box<dyn std::error::Error>> {
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read()?, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.proxy_url = None; // the cluster is on this machine, whatever the environment says
    Ok(config.try_into()?)
}
