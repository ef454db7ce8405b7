//! Reads the records of the witness on each node, and passes them to their case's journal.
//!
//! An answer belongs to the case of its election, and a log line to the case of its namespace.
//! Other records are dropped.

use super::Reply;
use super::history::{Answer, Journal, Outcome, lock};
use super::node::Node;
use super::record::Record;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The pause before the witness of a node is started again, for example after a power loss.
const RESTART_PAUSE: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct Observer {
    /// The journals by namespace and by election.
    journals: Mutex<BTreeMap<String, Arc<Journal>>>,
    /// Election and Pod by network, from the answers in that network.
    sidecars: Mutex<BTreeMap<String, (String, String)>>,
}

impl Observer {
    /// Reads from every node until the process ends.
    pub(super) fn begin(nodes: &[Node]) -> Arc<Self> {
        let this = Arc::new(Self::default());
        for node in nodes {
            let (this, node) = (Arc::clone(&this), node.clone());
            thread::spawn(move || this.listen(&node));
        }
        this
    }

    /// Passes records of a namespace or an election to the journal.
    pub(super) fn admit(&self, name: &str, journal: &Arc<Journal>) {
        lock(&self.journals).insert(name.to_owned(), Arc::clone(journal));
    }

    pub(super) fn dismiss(&self, name: &str) {
        lock(&self.journals).remove(name);
    }

    fn listen(&self, node: &Node) -> ! {
        // A restarted witness skips lines up to this time.
        let mut last = Duration::ZERO;
        loop {
            let since = format!("{}ms", last.as_millis());
            let mut command = Command::new(&node.engine);
            command.args(["exec", &node.name, "witness", "watch", "--since", &since]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().expect("the engine that created the node runs");
            let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
            // A power loss may truncate the last line.
            for record in output.lines().map_while(|line| serde_json::from_str(&line.ok()?).ok()) {
                match record {
                    Record::Answer { network, asked, answered, reply } => {
                        self.record_answer(&network, asked, answered, reply);
                    }
                    Record::Line { namespace, pod, container, run, at, text } => {
                        last = last.max(at);
                        if let Some(journal) = lock(&self.journals).get(&namespace) {
                            journal.note_at(
                                journal.clock.moment(at),
                                &format!("{pod}/{container}/{run}"),
                                text,
                            );
                        }
                    }
                }
            }
            drop(child.wait());
            thread::sleep(RESTART_PAUSE);
        }
    }

    fn record_answer(
        &self,
        network: &str,
        asked: Duration,
        answered: Duration,
        reply: Result<Reply, String>,
    ) {
        let outcome = Outcome::of(reply);
        let mut sidecars = lock(&self.sidecars);
        if let Outcome::Answered(said) = &outcome {
            let (pod, _) = said
                .body
                .identity
                .rsplit_once('_')
                .expect("an identity ends in _ and a unique part");
            sidecars.insert(network.to_owned(), (said.body.election.clone(), pod.to_owned()));
        }
        let Some((election, pod)) = sidecars.get(network) else { return };
        if let Some(journal) = lock(&self.journals).get(election) {
            let [asked, answered] = [asked, answered].map(|at| journal.clock.moment(at));
            lock(&journal.answers).push(Answer {
                candidate: pod.clone(),
                asked,
                answered,
                relied_on: true,
                outcome,
            });
        }
    }
}
