//! Polls a case's Pods from the API server, and notes changes in the timeline.

use super::PATIENCE;
use super::cluster::Cluster;
use super::history::{Journal, Moment, lock, wait_for};
use super::pod::Pod;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct PodWatcher {
    snapshot: Arc<Mutex<Snapshot>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The Pods in the API server's last answer.
struct Snapshot {
    asked: Moment,
    pods: Vec<Pod>,
}

impl PodWatcher {
    /// Polls until the journal is closed.
    pub(super) fn begin(
        cluster: &'static Cluster,
        namespace: &str,
        journal: &Arc<Journal>,
    ) -> Self {
        let snapshot =
            Arc::new(Mutex::new(Snapshot { asked: journal.clock.now(), pods: Vec::new() }));
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let (journal, shared) = (Arc::clone(journal), Arc::clone(&snapshot));
        let thread = thread::spawn(move || {
            let mut noted = BTreeMap::new();
            while !journal.is_closed() {
                let asked = journal.clock.now();
                let answer = cluster.read(&path);
                note_if_new(
                    &journal,
                    &mut noted,
                    "the API server",
                    if answer.is_ok() { "answers" } else { "does not answer" },
                );
                if let Ok(list) = answer {
                    let pods: Vec<Pod> =
                        list["items"].as_array().into_iter().flatten().cloned().map(Pod).collect();
                    note_changes(&journal, &mut noted, &lock(&shared).pods, &pods);
                    *lock(&shared) = Snapshot { asked, pods };
                }
                thread::sleep(POLL_INTERVAL);
            }
        });
        Self { snapshot, thread: Mutex::new(Some(thread)) }
    }

    /// The Pods in an answer to a request after `since`.
    #[track_caller]
    pub(super) fn pods(&self, since: Moment) -> Vec<Pod> {
        wait_for(PATIENCE, "the API server lists the Pods", || {
            let snapshot = lock(&self.snapshot);
            (snapshot.asked >= since).then(|| snapshot.pods.clone())
        })
    }

    /// Waits for the last poll after the journal was closed.
    pub(super) fn finish(&self) {
        if let Some(thread) = lock(&self.thread).take() {
            drop(thread.join());
        }
    }
}

fn note_changes(
    journal: &Journal,
    noted: &mut BTreeMap<String, String>,
    before: &[Pod],
    now: &[Pod],
) {
    for pod in now {
        note_if_new(journal, noted, pod.name(), &pod.to_string());
    }
    for gone in before.iter().filter(|pod| now.iter().all(|other| other.name() != pod.name())) {
        note_if_new(journal, noted, gone.name(), "is gone");
    }
}

/// Notes a state unless it is the last one noted for this name.
fn note_if_new(journal: &Journal, noted: &mut BTreeMap<String, String>, name: &str, state: &str) {
    if noted.get(name).is_none_or(|last| last != state) {
        journal.note(name, state);
        noted.insert(name.to_owned(), state.to_owned());
    }
}
