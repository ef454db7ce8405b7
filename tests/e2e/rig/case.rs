//! One case: a namespace, an election in it, and all that is heard of both.

use super::cluster::Cluster;
use super::command::run;
use super::judge::{Answer, History, Journal, Moment, Silence, Timing, eventually, judge, lock, wait_for};
use super::node::Node;
use super::onlooker::Onlooker;
use super::pod::Pod;
use super::{NOISE, PATIENCE};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub(crate) struct Case {
    pub(crate) namespace: String,
    pub(crate) election: String,
    pub(crate) timing: Timing,
    pub(crate) cluster: &'static Cluster,
    journal: Arc<Journal>,
    onlooker: Onlooker,
    silences: Mutex<Vec<Silence>>,
    /// Whether somebody was to lead here: then a history without a leader shows nothing.
    led: Mutex<bool>,
}

/// A term as it was first heard of.
#[derive(Clone, Debug)]
pub(crate) struct Led {
    pub(crate) pod: String,
    pub(crate) identity: String,
    /// When the answer was there.
    pub(crate) heard: Moment,
}

impl Case {
    /// A namespace of that name, in which an election is held that is called the same.
    pub(crate) fn new(name: &str, timing: Timing) -> Self {
        // A cluster that was kept may still be busy with deleting the one of the last run.
        let namespace = format!("{name}-{}", process::id());
        Self::of_election(namespace.clone(), namespace, timing)
    }

    /// The same, where the election has another name.
    pub(crate) fn of_election(namespace: String, election: String, timing: Timing) -> Self {
        let (cluster, journal) = (Cluster::get(), Arc::new(Journal::begin()));
        cluster.observer.admit(&namespace, &journal);
        cluster.observer.admit(&election, &journal);
        let onlooker = Onlooker::begin(cluster, &namespace, &journal);
        let (silences, led) = (Mutex::default(), Mutex::default());
        let this = Self { namespace, election, timing, cluster, journal, onlooker, silences, led };
        this.kubectl(&["create", "namespace", &this.namespace]);
        this
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Moment {
        self.journal.clock.now()
    }

    /// Types a `kubectl` command, with the case's namespace: what it printed.
    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "").unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// The same with something on standard input, and where it may be refused.
    pub(crate) fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        self.note(&format!("$ kubectl {}", arguments.join(" ")));
        run("kubectl", &[&["--namespace", &self.namespace], arguments].concat(), input)
    }

    /// Types a `helm` command, with the case's namespace and `values` as a file: what it printed.
    #[track_caller]
    pub(crate) fn helm(&self, arguments: &[&str], values: &Value) -> String {
        self.note(&format!("$ helm {} --values - <<< '{values}'", arguments.join(" ")));
        let all = [&["--namespace", &self.namespace], arguments, &["--values", "-"]].concat();
        let told = run("helm", &all, &values.to_string());
        told.unwrap_or_else(|error| panic!("helm {}: {error}", arguments.join(" ")))
    }

    /// Writes into the timeline what the test does, and returns the moment before it.
    pub(crate) fn note(&self, what: &str) -> Moment {
        self.journal.note("----", what)
    }

    /// Waits for a Pod that answers "leading" from now on.
    #[track_caller]
    pub(crate) fn leader(&self) -> Led {
        *lock(&self.led) = true;
        self.led(PATIENCE, self.now(), |_| true)
    }

    /// Waits for the first answer "leading" of another than `old` to a question asked after `since`, which has to come
    /// `within` that time.
    #[track_caller]
    pub(crate) fn successor(&self, old: &Led, since: Moment, within: Duration) -> Led {
        let new = self.led(PATIENCE, since, |identity| identity != old.identity);
        let took = new.heard.since(since);
        self.note(&format!("{} leads, {took:?} after that", new.pod));
        assert!(took <= within, "the successor took {took:?}, which is more than {within:?}");
        new
    }

    /// Waits for the successor of a leader that went at `since` and released nothing.
    #[track_caller]
    pub(crate) fn takeover(&self, old: &Led, since: Moment) -> Led {
        self.successor(old, since, self.timing.takeover() + NOISE)
    }

    #[track_caller]
    fn led(&self, within: Duration, since: Moment, wanted: impl Fn(&str) -> bool) -> Led {
        let leads = |answer: &Answer| {
            let is_wanted = answer.identity().is_some_and(|identity| wanted(identity));
            answer.asked >= since && answer.leads_in(&self.election) && is_wanted
        };
        let answer = wait_for(within, "somebody leads", || self.journal.first_answer(leads));
        let identity = answer.identity().expect("it says who leads").clone();
        Led { pod: answer.candidate, identity, heard: answer.answered }
    }

    /// Waits until this Pod's sidecar says that it follows, in answer to a question asked after `since`.
    #[track_caller]
    pub(crate) fn follows(&self, pod: &str, since: Moment) {
        let follows = |answer: &Answer| {
            answer.asked >= since && answer.candidate == pod && answer.standing() == Some("following")
        };
        eventually(PATIENCE, "it follows", || self.journal.first_answer(follows).is_some());
    }

    /// From `since` on no answer of this term may say "leading": judged at the end.
    pub(crate) fn must_be_silent(&self, old: &Led, since: Moment, why: &str) {
        lock(&self.silences).push(Silence { identity: old.identity.clone(), since, why: why.to_owned() });
    }

    /// Until when the last promise that was heard of this term is good.
    pub(crate) fn last_promise(&self, of: &Led) -> Moment {
        self.journal.last_promise(&of.identity).expect("it was heard leading")
    }

    /// How many terms were heard of.
    pub(crate) fn terms(&self) -> usize {
        self.journal.tokens(&self.election).len()
    }

    /// What one run of a container has written so far; 0 is its first run.
    pub(crate) fn log(&self, pod: &str, container: &str, run: u64) -> String {
        self.journal.text(&format!("{pod}/{container}/{run}"))
    }

    /// Waits until that run of a container has written something: it runs.
    #[track_caller]
    pub(crate) fn runs(&self, pod: &str, container: &str, run: u64) {
        let what = format!("{container} of {pod} was started {run} times again");
        eventually(PATIENCE, &what, || !self.log(pod, container, run).is_empty());
    }

    /// The Pods with this label.
    pub(crate) fn pods(&self, label: (&str, &str)) -> Vec<Pod> {
        let all = self.onlooker.pods(self.now());
        all.into_iter().filter(|pod| pod.label(label.0) == Some(label.1)).collect()
    }

    /// A Pod as it is now.
    pub(crate) fn pod(&self, name: &str) -> Pod {
        let all = self.onlooker.pods(self.now());
        all.into_iter().find(|pod| pod.name() == name).unwrap_or_else(|| panic!("there is no Pod {name}"))
    }

    /// The node that a Pod is on.
    pub(crate) fn node(&self, pod: &str) -> &'static Node {
        self.cluster.node(self.pod(pod).node())
    }

    /// What is wrong with this case, after the end of all listening.
    fn finish(&self) -> Vec<String> {
        self.journal.close();
        self.onlooker.finish();
        self.cluster.observer.dismiss(&self.namespace);
        self.cluster.observer.dismiss(&self.election);
        let elections: BTreeSet<String> = lock(&self.led).then(|| self.election.clone()).into_iter().collect();
        let (answers, silences) = (lock(&self.journal.answers).clone(), lock(&self.silences).clone());
        let mut faults = self.journal.panics();
        faults.extend(judge(&History { elections, answers, silences }).iter().map(ToString::to_string));
        faults
    }
}

impl Drop for Case {
    #[expect(clippy::print_stdout, reason = "the timeline is what the case has to show")]
    fn drop(&mut self) {
        let faults = self.finish();
        let story = self.journal.story(&faults, usize::MAX);
        println!("{story}");
        let file = Path::new("target/e2e").join(&self.namespace).with_extension("txt");
        drop(fs::write(file, &story));
        drop(run("kubectl", &["delete", "namespace", &self.namespace, "--wait=false"], ""));
        assert!(faults.is_empty() || thread::panicking(), "{}", faults.join("\n"));
    }
}
