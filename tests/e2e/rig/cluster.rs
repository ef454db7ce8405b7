//! The cluster that `run.sh` has made, and its API server as an administrator reads it.

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

/// How long an answer of the API server may take.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(super) observer: Arc<Observer>,
    /// What its client runs on.
    runtime: Handle,
    client: Client,
}

impl Cluster {
    /// The one cluster of this run, with a witness on each node.
    pub(crate) fn get() -> &'static Self {
        // Not a LazyLock: where there is none, each test says why.
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(Self::connect)
    }

    fn connect() -> Self {
        let (engine, cluster) = (variable("ENGINE"), variable("CLUSTER"));
        let nodes =
            run("kind", &["get", "nodes", "--name", &cluster], "").expect("kind knows its nodes");
        let node = |name: &str| Node { engine: engine.clone(), name: name.to_owned() };
        let nodes: Vec<Node> = nodes.split_whitespace().map(node).collect();
        assert_eq!(nodes.len(), 3, "a control plane and two workers");
        let runtime = runtime();
        let client = runtime.block_on(connect()).expect("the kubeconfig is kind's");
        let observer = Observer::begin(&nodes);
        Self { nodes, observer, runtime, client }
    }

    /// The node of that name.
    pub(crate) fn node(&self, name: &str) -> &Node {
        self.nodes
            .iter()
            .find(|node| node.name == name)
            .unwrap_or_else(|| panic!("there is no node {name:?}"))
    }

    /// The node of the API server.
    pub(crate) fn control_plane(&self) -> &Node {
        self.nodes.iter().find(|node| node.is_control_plane()).expect("kind names it so")
    }

    /// The others.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.is_control_plane())
    }

    /// The object at a path of the API server.
    pub(crate) fn read(&self, path: &str) -> Result<Value, String> {
        let request = hyper::Request::get(path).body(Vec::new()).expect("it is a path");
        let answer =
            self.runtime.block_on(async { timeout(PATIENCE, self.client.request(request)).await });
        answer.map_err(|late| late.to_string())?.map_err(|error| error.to_string())
    }
}

/// A runtime on a thread of its own, to the end of this process: tests block on it from theirs.
fn runtime() -> Handle {
    let runtime =
        Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let handle = runtime.handle().clone();
    thread::spawn(move || runtime.block_on(pending::<()>()));
    handle
}

async fn connect() -> Result<Client, Box<dyn std::error::Error>> {
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read()?, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.proxy_url = None; // whatever the environment says: it is on this machine
    Ok(config.try_into()?)
}
