//! Looks at a case's Pods through the API server, and writes into its timeline whatever changes.

use super::PATIENCE;
use super::cluster::Cluster;
use super::history::{Journal, Moment, lock, wait_for};
use super::pod::Pod;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often to look.
const LOOK: Duration = Duration::from_millis(250);

pub(super) struct Onlooker {
    seen: Arc<Mutex<Seen>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the API server said when it was last asked.
struct Seen {
    asked: Moment,
    pods: Vec<Pod>,
}

impl Onlooker {
    /// Looks until the journal is closed.
    pub(super) fn begin(
        cluster: &'static Cluster,
        namespace: &str,
        journal: &Arc<Journal>,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Seen { asked: journal.clock.now(), pods: Vec::new() }));
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let (journal, seen_here) = (Arc::clone(journal), Arc::clone(&seen));
        let thread = thread::spawn(move || {
            let mut told = BTreeMap::new();
            while !journal.is_closed() {
                let asked = journal.clock.now();
                let answer = cluster.read(&path);
                tell(
                    &journal,
                    &mut told,
                    "the API server",
                    if answer.is_ok() { "answers" } else { "does not answer" },
                );
                if let Ok(list) = answer {
                    let pods: Vec<Pod> =
                        list["items"].as_array().into_iter().flatten().cloned().map(Pod).collect();
                    tell_changes(&journal, &mut told, &lock(&seen_here).pods, &pods);
                    *lock(&seen_here) = Seen { asked, pods };
                }
                thread::sleep(LOOK);
            }
        });
        Self { seen, thread: Mutex::new(Some(thread)) }
    }

    /// The Pods as the API server showed them when it was asked after `since`.
    #[track_caller]
    pub(super) fn pods(&self, since: Moment) -> Vec<Pod> {
        wait_for(PATIENCE, "the API server shows the Pods", || {
            let seen = lock(&self.seen);
            (seen.asked >= since).then(|| seen.pods.clone())
        })
    }

    /// Waits for the last look, after the journal was closed.
    pub(super) fn finish(&self) {
        if let Some(thread) = lock(&self.thread).take() {
            drop(thread.join());
        }
    }
}

fn tell_changes(
    journal: &Journal,
    told: &mut BTreeMap<String, String>,
    before: &[Pod],
    now: &[Pod],
) {
    for pod in now {
        tell(journal, told, pod.name(), &pod.to_string());
    }
    for gone in before.iter().filter(|pod| now.iter().all(|other| other.name() != pod.name())) {
        tell(journal, told, gone.name(), "is gone");
    }
}

/// Notes what was not told of somebody already.
fn tell(journal: &Journal, told: &mut BTreeMap<String, String>, who: &str, what: &str) {
    if told.get(who).is_none_or(|told| told != what) {
        journal.note(who, what);
        told.insert(who.to_owned(), what.to_owned());
    }
}
