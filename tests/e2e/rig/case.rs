//! One case: a namespace, an election in it, and the journal of both.

use super::cluster::Cluster;
use super::command::run;
use super::history::{History, Journal, Moment, Silence, check, lock};
use super::pod_watcher::PodWatcher;
use super::unique;
use crate::noise::never_excuse;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) struct Case {
    pub(crate) namespace: String,
    pub(crate) election: String,
    /// The program for `helm` commands: Helm 4, unless a case sets `helm3`.
    pub(crate) helm_program: &'static str,
    pub(crate) cluster: &'static Cluster,
    pub(super) journal: Arc<Journal>,
    pub(super) pod_watcher: PodWatcher,
    pub(super) silences: Mutex<Vec<Silence>>,
    /// Whether the case waited for a leader: then a history without one proves nothing.
    pub(super) expects_leader: Mutex<bool>,
}

impl Case {
    /// Creates a namespace, with an election of the same name.
    pub(crate) fn new(name: &str) -> Self {
        let namespace = unique(name);
        Self::with_election(namespace.clone(), namespace)
    }

    /// Creates a namespace, with an election of another name.
    pub(crate) fn with_election(namespace: String, election: String) -> Self {
        let (cluster, journal) = (Cluster::get(), Arc::new(Journal::begin()));
        cluster.observer.admit(&namespace, &journal);
        cluster.observer.admit(&election, &journal);
        let pod_watcher = PodWatcher::begin(cluster, &namespace, &journal);
        let (silences, expects_leader) = (Mutex::default(), Mutex::default());
        let this = Self {
            namespace,
            election,
            helm_program: "helm",
            cluster,
            journal,
            pod_watcher,
            silences,
            expects_leader,
        };
        this.kubectl(&["create", "namespace", &this.namespace]);
        // Pods need it. After an outage of the API server the controllers create it late.
        this.kubectl(&["wait", "--for=create", "serviceaccount/default", "--timeout=90s"]);
        this
    }

    /// The current time.
    pub(crate) fn now(&self) -> Moment {
        self.journal.clock.now()
    }

    /// Writes an action of the test into the timeline, and returns the time before it.
    pub(crate) fn note(&self, what: &str) -> Moment {
        self.journal.note("----", what)
    }

    /// Stops the observation, and returns the violations and panics of this case.
    fn finish(&self) -> Vec<String> {
        self.journal.close();
        self.pod_watcher.finish();
        self.cluster.observer.dismiss(&self.namespace);
        self.cluster.observer.dismiss(&self.election);
        let elections: BTreeSet<String> =
            lock(&self.expects_leader).then(|| self.election.clone()).into_iter().collect();
        let (answers, silences) =
            (lock(&self.journal.answers).clone(), lock(&self.silences).clone());
        let mut faults = self.journal.panics();
        let violations = check(&History { elections, answers, silences });
        if !faults.is_empty()
            || violations.iter().any(|violation| violation.property.is_timing_independent())
        {
            never_excuse();
        }
        faults.extend(violations.iter().map(ToString::to_string));
        faults
    }
}

impl Drop for Case {
    #[expect(clippy::print_stdout, reason = "the timeline is the test's output")]
    fn drop(&mut self) {
        if thread::panicking() {
            self.note(&format!(
                "warnings of the cluster: {}",
                self.warnings().unwrap_or_else(|error| error)
            ));
        }
        let faults = self.finish();
        let timeline = self.journal.timeline(&faults, usize::MAX);
        println!("{timeline}");
        drop(fs::write(
            Path::new("target/e2e").join(&self.namespace).with_extension("txt"),
            &timeline,
        ));
        drop(run("kubectl", &["delete", "namespace", &self.namespace, "--wait=false"], ""));
        assert!(faults.is_empty() || thread::panicking(), "{}", faults.join("\n"));
    }
}
