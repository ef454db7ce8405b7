//! Charts and manifests, without a node that runs them: what Helm and kustomize make of them, judged as data.
//!
//! The programs are real, Helm in both versions; they and the schemas come from tests/servers/charts/build.sh. What they
//! render is compared with what the sidecar itself says: its flags, its rights, its refusals. That it works when
//! it runs is for the tests on a cluster.

/// Whether API servers take what is rendered: the schemas of several releases, and one real server.
mod acceptance;

/// The application's chart of the library's README, word for word.
mod application;

/// One sidecar everywhere: in both charts and in the manifests.
mod equality;

/// What is refused before it reaches a cluster.
mod refusals;

/// What can be put around elections.
mod hardening;

/// Pods that a real API server gives their sidecar, by the chart's policy.
mod injection;

/// Alerts, dashboard, and what Prometheus is told to scrape.
mod monitoring;

/// A real Prometheus, with targets that the chart selects.
mod scraping;

/// A release on a real API server: installed, upgraded, and gone without a trace.
mod release;

/// What the sidecar is told, and what it may do.
mod sidecar;

/// Objects as a real API server takes them.
mod server;

/// An ensemble of ZooKeeper in place of a Lease.
mod zookeeper;

/// Schemas of Kubernetes' objects, as kubeconform reads them.
mod schemas;

/// Helm, kustomize and kubeconform as processes, and what they print as data.
mod tools;
