//! Charts and manifests as Helm and kustomize render them, without running a node.
//!
//! The tools are real and come, like the schemas, from tests/servers/charts/build.sh. Their output
//! is compared with the sidecar's own flags, rights, and refusals. The tests on a cluster check
//! that a rendered sidecar works.

/// Schemas of several Kubernetes releases, and a real API server, accept the rendered objects.
mod acceptance;

/// The application chart of the library's README, verbatim.
mod application;

/// The same sidecar in both charts and in the manifests.
mod equality;

/// Pods whose application runs by `baton exec`, without a sidecar.
mod exec;

/// Values that are refused before they reach a cluster.
mod refusals;

/// Renders without a cluster, as Argo CD and Flux make them.
mod gitops;

/// Hostile values for every key.
mod hostile;

/// Optional objects around elections, such as network policies.
mod hardening;

/// Pods that get their sidecar from the chart's admission policy on a real API server.
mod injection;

/// Alerts, the dashboard, and scrape configuration.
mod monitoring;

/// A real Prometheus that scrapes the targets that the chart selects.
mod scraping;

/// A Service that leads to the leader only.
mod routing;

/// A release on a real API server: install, upgrade, and uninstall.
mod release;

/// The sidecar's configuration and rights.
mod sidecar;

/// Requests to a real API server.
mod server;

/// Elections over ZooKeeper instead of a Lease.
mod zookeeper;

/// Elections over etcd instead of a Lease.
mod etcd;

/// A token that only the sidecar has.
mod token;

/// Schemas of Kubernetes objects for kubeconform.
mod schemas;

/// Helm, kustomize, and kubeconform as processes.
mod tools;
