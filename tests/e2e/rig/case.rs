//! One case: a namespace, an election in it, and all that is heard of both.

use super::cluster::Cluster;
use super::command::run;
use super::history::{History, Journal, Moment, Silence, check, lock};
use super::onlooker::Onlooker;
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
    /// What types its `helm` commands: Helm 4, unless a case says `helm3`.
    pub(crate) helm_program: &'static str,
    pub(crate) cluster: &'static Cluster,
    pub(super) journal: Arc<Journal>,
    pub(super) onlooker: Onlooker,
    pub(super) silences: Mutex<Vec<Silence>>,
    /// Whether somebody was to lead here: then a history without a leader shows nothing.
    pub(super) led: Mutex<bool>,
}

impl Case {
    /// A namespace of that name, in which an election is held that is called the same.
    pub(crate) fn new(name: &str) -> Self {
        let namespace = unique(name);
        Self::of_election(namespace.clone(), namespace)
    }

    /// The same, where the election has another name.
    pub(crate) fn of_election(namespace: String, election: String) -> Self {
        let (cluster, journal) = (Cluster::get(), Arc::new(Journal::begin()));
        cluster.observer.admit(&namespace, &journal);
        cluster.observer.admit(&election, &journal);
        let onlooker = Onlooker::begin(cluster, &namespace, &journal);
        let (silences, led) = (Mutex::default(), Mutex::default());
        let this = Self {
            namespace,
            election,
            helm_program: "helm",
            cluster,
            journal,
            onlooker,
            silences,
            led,
        };
        this.kubectl(&["create", "namespace", &this.namespace]);
        // Without one no Pod is taken. The controllers make it, which an outage of the API server may have set back.
        this.kubectl(&["wait", "--for=create", "serviceaccount/default", "--timeout=90s"]);
        this
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Moment {
        self.journal.clock.now()
    }

    /// Writes into the timeline what the test does, and returns the moment before it.
    pub(crate) fn note(&self, what: &str) -> Moment {
        self.journal.note("----", what)
    }

    /// What is wrong with this case, after the end of all listening.
    fn finish(&self) -> Vec<String> {
        self.journal.close();
        self.onlooker.finish();
        self.cluster.observer.dismiss(&self.namespace);
        self.cluster.observer.dismiss(&self.election);
        let elections: BTreeSet<String> =
            lock(&self.led).then(|| self.election.clone()).into_iter().collect();
        let (answers, silences) =
            (lock(&self.journal.answers).clone(), lock(&self.silences).clone());
        let mut faults = self.journal.panics();
        let broken = check(&History { elections, answers, silences });
        if !faults.is_empty()
            || broken.iter().any(|violation| violation.property.is_timing_independent())
        {
            never_excuse();
        }
        faults.extend(broken.iter().map(ToString::to_string));
        faults
    }
}

impl Drop for Case {
    #[expect(clippy::print_stdout, reason = "the timeline is what the case has to show")]
    fn drop(&mut self) {
        if thread::panicking() {
            self.note(&format!(
                "the cluster has complained: {}",
                self.complaints().unwrap_or_else(|error| error)
            ));
        }
        let faults = self.finish();
        let story = self.journal.timeline(&faults, usize::MAX);
        println!("{story}");
        drop(fs::write(
            Path::new("target/e2e").join(&self.namespace).with_extension("txt"),
            &story,
        ));
        drop(run("kubectl", &["delete", "namespace", &self.namespace, "--wait=false"], ""));
        assert!(faults.is_empty() || thread::panicking(), "{}", faults.join("\n"));
    }
}
