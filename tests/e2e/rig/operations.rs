//! The commands of a case (`kubectl`, `helm`, `bash`), and lookups in the API server.

use super::PATIENCE;
use super::case::Case;
use super::command::run;
use super::history::{Moment, eventually, succeeds, wait_for};
use super::node::{Node, Outage};
use super::pod::Pod;
use serde_json::Value;

/// The label of the shop's Pods.
pub(crate) const SHOP: (&str, &str) = ("app", "shop");

impl Case {
    /// Runs `kubectl` in the case's namespace, and returns its output.
    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.note(&format!("$ kubectl {}", arguments.join(" ")));
        self.run("kubectl", arguments, "")
            .unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// Applies an object or a list of objects.
    #[track_caller]
    pub(crate) fn apply(&self, object: &Value) {
        self.note("$ kubectl apply --filename -");
        let result = self.run("kubectl", &["apply", "--filename", "-"], &object.to_string());
        result.unwrap_or_else(|error| panic!("kubectl apply: {error}"));
    }

    /// Whether a user has a right, by `kubectl auth can-i`.
    pub(crate) fn can_i(&self, user: &str, verb: &str, what: &str) -> bool {
        // The exit code is 1 for "no" and for errors, so only the output counts.
        let namespace = &self.namespace;
        let answer = self.shell(&format!(
            "kubectl --namespace {namespace} auth can-i {verb} {what} --as {user} || true"
        ));
        match answer.split_whitespace().next() {
            Some("yes") => true,
            Some("no") => false,
            _ => panic!("kubectl auth can-i {verb} {what} --as {user}: {answer:?}"),
        }
    }

    /// Drains a node. It accepts Pods again when the result is dropped.
    #[track_caller]
    pub(crate) fn drain(&self, node: &Node) -> Outage {
        let outage = Outage::ended_by("kubectl", &["uncordon", &node.name]);
        self.kubectl(&[
            "drain",
            &node.name,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--timeout=120s",
        ]);
        outage
    }

    /// Runs `helm` in the case's namespace, and returns its output.
    #[track_caller]
    pub(crate) fn helm(&self, arguments: &[&str]) -> String {
        self.note(&format!("$ {} {}", self.helm_program, arguments.join(" ")));
        self.run(self.helm_program, arguments, "")
            .unwrap_or_else(|error| panic!("helm {}: {error}", arguments.join(" ")))
    }

    /// Runs `helm` with a file of values.
    #[track_caller]
    pub(crate) fn helm_with(&self, arguments: &[&str], values: &Value) -> String {
        self.note(&format!(
            "$ {} {} --values - <<< '{values}'",
            self.helm_program,
            arguments.join(" ")
        ));
        let result = self.run(
            self.helm_program,
            &[arguments, &["--values", "-"]].concat(),
            &values.to_string(),
        );
        result.unwrap_or_else(|error| panic!("helm {}: {error}", arguments.join(" ")))
    }

    /// Runs a line of bash, and returns its output.
    #[track_caller]
    pub(crate) fn shell(&self, line: &str) -> String {
        self.note(&format!("$ {line}"));
        run("bash", &["-c", line], "").unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn run(&self, program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
        run(program, &[&["--namespace", &self.namespace], arguments].concat(), input)
    }

    /// The current Pods with this label.
    pub(crate) fn pods(&self, label: (&str, &str)) -> Vec<Pod> {
        let all = self.pod_watcher.pods(self.now());
        all.into_iter().filter(|pod| pod.label(label.0) == Some(label.1)).collect()
    }

    /// The current state of a Pod.
    pub(crate) fn pod(&self, name: &str) -> Pod {
        let all = self.pod_watcher.pods(self.now());
        all.into_iter()
            .find(|pod| pod.name() == name)
            .unwrap_or_else(|| panic!("there is no Pod {name}"))
    }

    /// The warning events of the namespace, which are the only trace of refused Pods.
    pub(crate) fn warnings(&self) -> Result<String, String> {
        let columns = "--output=custom-columns=OBJECT:.involvedObject.name,MESSAGE:.message";
        self.run(
            "kubectl",
            &["get", "events", "--field-selector=type=Warning", "--no-headers", columns],
            "",
        )
    }

    /// The node of a Pod.
    pub(crate) fn node(&self, pod: &str) -> &'static Node {
        self.cluster.node(self.pod(pod).node())
    }

    /// Waits until exactly `count` Pods with this label exist, all of them ready.
    #[track_caller]
    pub(crate) fn wait_for_pods(&self, label: (&str, &str), count: usize) {
        eventually(PATIENCE, &format!("exactly {count} Pods exist and are ready"), || {
            let pods = self.pods(label);
            pods.len() == count && pods.iter().all(|pod| pod.is_ready() && !pod.is_terminating())
        });
    }

    /// Waits until the namespace has only the objects of an empty namespace.
    #[track_caller]
    pub(crate) fn assert_namespace_is_empty(&self) {
        let kinds =
            "all,configmaps,secrets,serviceaccounts,roles,rolebindings,leases,endpointslices";
        succeeds(PATIENCE, "the namespace is empty", || {
            let left = self.kubectl(&["get", kinds, "--output=name", "--ignore-not-found"]);
            let is_empty =
                left.lines().eq(["configmap/kube-root-ca.crt", "serviceaccount/default"]);
            if is_empty { Ok(()) } else { Err(left) }
        });
    }

    /// Waits until the API server answers, and returns the time.
    #[track_caller]
    pub(crate) fn await_api_server(&self) -> Moment {
        wait_for(PATIENCE, "the API server answers", || self.cluster.read("/version").ok());
        self.note("the API server answers")
    }
}
