//! Reads what the witness on each node tells, and gives it to the case that it belongs to.
//!
//! An answer belongs to the case of its election, a line to that of its namespace. Nobody's are dropped.

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

/// The pause between two tries to start a witness on a node that is switched off.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct Observer {
    /// By namespace, and by election.
    journals: Mutex<BTreeMap<String, Arc<Journal>>>,
    /// Whose network it is, as the first answer from it said: election and Pod.
    sidecars: Mutex<BTreeMap<String, (String, String)>>,
}

impl Observer {
    /// Listens to every node, to the end of this process.
    pub(super) fn begin(nodes: &[Node]) -> Arc<Self> {
        let this = Arc::new(Self::default());
        for node in nodes {
            let (this, node) = (Arc::clone(&this), node.clone());
            thread::spawn(move || this.listen(&node));
        }
        this
    }

    /// Gives the journal what is heard of a namespace or an election.
    pub(super) fn admit(&self, name: &str, journal: &Arc<Journal>) {
        lock(&self.journals).insert(name.to_owned(), Arc::clone(journal));
    }

    pub(super) fn dismiss(&self, name: &str) {
        lock(&self.journals).remove(name);
    }

    fn listen(&self, node: &Node) -> ! {
        // Whoever starts again after an outage of the node leaves out what was told before.
        let mut last = Duration::ZERO;
        loop {
            let since = format!("{}ms", last.as_millis());
            let mut command = Command::new(&node.engine);
            command.args(["exec", &node.name, "witness", "watch", "--since", &since]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().expect("the engine is there: it made the node");
            let told = BufReader::new(child.stdout.take().expect("it is piped"));
            // What is no record is a line that was cut short with the node's power.
            for record in told.lines().map_while(|line| serde_json::from_str(&line.ok()?).ok()) {
                match record {
                    Record::Answer { network, asked, answered, reply } => {
                        self.hear(&network, asked, answered, reply)
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
            thread::sleep(PAUSE);
        }
    }

    fn hear(
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
                .expect("an identity ends in _ and what is unique");
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
