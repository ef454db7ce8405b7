//! What a case types, as a person would, and what the API server then shows.

use super::PATIENCE;
use super::case::Case;
use super::command::run;
use super::history::{Moment, eventually, succeeds, wait_for};
use super::node::{Node, Outage};
use super::pod::Pod;
use serde_json::Value;

/// The label of the Pods of the shop.
pub(crate) const SHOP: (&str, &str) = ("app", "shop");

impl Case {
    /// Types a `kubectl` command, with the case's namespace: what it printed.
    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.note(&format!("$ kubectl {}", arguments.join(" ")));
        self.run("kubectl", arguments, "")
            .unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// Has the API server make an object, or those of a list.
    #[track_caller]
    pub(crate) fn apply(&self, object: &Value) {
        self.note("$ kubectl apply --filename -");
        let told = self.run("kubectl", &["apply", "--filename", "-"], &object.to_string());
        told.unwrap_or_else(|error| panic!("kubectl apply: {error}"));
    }

    /// Whether somebody may do something: `kubectl auth can-i`.
    pub(crate) fn may(&self, user: &str, verb: &str, what: &str) -> bool {
        // It ends with 1 for "no", as it does where it could not ask: only the word tells.
        let namespace = &self.namespace;
        let told = self.shell(&format!(
            "kubectl --namespace {namespace} auth can-i {verb} {what} --as {user} || true"
        ));
        match told.split_whitespace().next() {
            Some("yes") => true,
            Some("no") => false,
            _ => panic!("kubectl does not say whether {user} may {verb} {what}: {told:?}"),
        }
    }

    /// Empties a node for its upgrade. Pods are sent to it again when what this returns is dropped.
    #[track_caller]
    pub(crate) fn drain(&self, node: &Node) -> Outage {
        let outage = Outage::until("kubectl", &["uncordon", &node.name]);
        self.kubectl(&[
            "drain",
            &node.name,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--timeout=120s",
        ]);
        outage
    }

    /// Types a `helm` command, with the case's namespace: what it printed.
    #[track_caller]
    pub(crate) fn helm(&self, arguments: &[&str]) -> String {
        self.note(&format!("$ {} {}", self.helm_program, arguments.join(" ")));
        self.run(self.helm_program, arguments, "")
            .unwrap_or_else(|error| panic!("helm {}: {error}", arguments.join(" ")))
    }

    /// The same with `values` as a file.
    #[track_caller]
    pub(crate) fn helm_with(&self, arguments: &[&str], values: &Value) -> String {
        self.note(&format!(
            "$ {} {} --values - <<< '{values}'",
            self.helm_program,
            arguments.join(" ")
        ));
        let told = self.run(
            self.helm_program,
            &[arguments, &["--values", "-"]].concat(),
            &values.to_string(),
        );
        told.unwrap_or_else(|error| panic!("helm {}: {error}", arguments.join(" ")))
    }

    /// Types a line into a shell: what it printed.
    #[track_caller]
    pub(crate) fn shell(&self, line: &str) -> String {
        self.note(&format!("$ {line}"));
        run("bash", &["-c", line], "").unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn run(&self, program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
        run(program, &[&["--namespace", &self.namespace], arguments].concat(), input)
    }

    /// The Pods with this label, as they are now.
    pub(crate) fn pods(&self, label: (&str, &str)) -> Vec<Pod> {
        let all = self.onlooker.pods(self.now());
        all.into_iter().filter(|pod| pod.label(label.0) == Some(label.1)).collect()
    }

    /// A Pod as it is now.
    pub(crate) fn pod(&self, name: &str) -> Pod {
        let all = self.onlooker.pods(self.now());
        all.into_iter()
            .find(|pod| pod.name() == name)
            .unwrap_or_else(|| panic!("there is no Pod {name}"))
    }

    /// What the cluster has complained of in this namespace: a Pod that was refused is nowhere else.
    pub(crate) fn complaints(&self) -> Result<String, String> {
        let columns = "--output=custom-columns=WHO:.involvedObject.name,WHY:.message";
        self.run(
            "kubectl",
            &["get", "events", "--field-selector=type=Warning", "--no-headers", columns],
            "",
        )
    }

    /// The node that a Pod is on.
    pub(crate) fn node(&self, pod: &str) -> &'static Node {
        self.cluster.node(self.pod(pod).node())
    }

    /// Waits until so many Pods with this label are ready, and no other is left.
    #[track_caller]
    pub(crate) fn settle(&self, label: (&str, &str), count: usize) {
        eventually(PATIENCE, &format!("{count} Pods are ready, and no other is left"), || {
            let pods = self.pods(label);
            pods.len() == count && pods.iter().all(|pod| pod.is_ready() && !pod.is_terminating())
        });
    }

    /// Waits until nothing is left in the namespace but what each has.
    #[track_caller]
    pub(crate) fn assert_nothing_is_left(&self) {
        let kinds =
            "all,configmaps,secrets,serviceaccounts,roles,rolebindings,leases,endpointslices";
        succeeds(PATIENCE, "nothing is left", || {
            let left = self.kubectl(&["get", kinds, "--output=name", "--ignore-not-found"]);
            let is_bare = left.lines().eq(["configmap/kube-root-ca.crt", "serviceaccount/default"]);
            if is_bare { Ok(()) } else { Err(left) }
        });
    }

    /// Waits until the API server answers: when it did.
    #[track_caller]
    pub(crate) fn await_api_server(&self) -> Moment {
        wait_for(PATIENCE, "the API server answers", || self.cluster.read("/version").ok());
        self.note("the API server answers")
    }
}
