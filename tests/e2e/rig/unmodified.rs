//! An unmodified application: a shell loop in an image that knows nothing of Baton, run by
//! `baton exec`, with one replica on each node.
//!
//! Installs it, and checks when its processes lived. They print a sign of life every 100 ms, also
//! while the ledger cannot be reached. Start with [`Case::install_unmodified`].

use super::case::Case;
use super::command::variable;
use super::history::Moment;
use super::observations::Leader;
use super::operations::SHOP;
use super::shop::merge;
use crate::noise::never_excuse;
use serde_json::{Value, json};
use std::time::Duration;

/// A line by which a process of the application shows that it runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LifeSign {
    /// In hundredths of a second, rounded down.
    at: Moment,
    token: u128,
    pod: String,
}

impl LifeSign {
    /// Parses `alive with token TOKEN at SECONDS`.
    fn of(case: &Case, source: &str, text: &str) -> Option<Self> {
        let (token, seconds) = text.strip_prefix("alive with token ")?.split_once(" at ")?;
        let since_boot = Duration::from_secs_f64(seconds.parse().ok()?);
        let pod = source.split('/').next()?.to_owned();
        Some(Self { at: case.journal.clock.moment(since_boot), token: token.parse().ok()?, pod })
    }
}

impl Case {
    /// Installs the application with these overrides. Returns when three replicas are ready on
    /// three nodes, the leader's command writes to the ledger, and its node is a worker, which a
    /// fault may hit.
    #[track_caller]
    pub(crate) fn install_unmodified(&self, overrides: Value) -> Leader {
        // The ensemble's image has a shell, and is loaded on every node.
        let mut values =
            json!({ "replicas": 2, "unmodified": { "image": variable("ZOOKEEPER_IMAGE") } });
        merge(&mut values, overrides);
        self.helm_with(&["install", "shop", "tests/e2e/shop"], &self.values(values));
        // The first two start on the workers.
        self.wait_for_pods(SHOP, 2);
        let leader = self.leader();
        self.kubectl(&["scale", "deployment/shop", "--replicas=3"]);
        self.wait_for_pods(SHOP, 3);
        let mut nodes: Vec<String> =
            self.pods(SHOP).iter().map(|pod| pod.node().to_owned()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), 3, "the three replicas share nodes: {nodes:?}");
        let node = self.node(&leader.pod);
        assert!(self.cluster.workers().any(|worker| worker.name == node.name), "{node:?}");
        self.wait_for_command(&leader.pod);
        leader
    }

    /// Waits until the command of this Pod has started and the ledger has accepted a line of it.
    #[track_caller]
    pub(crate) fn wait_for_command(&self, pod: &str) {
        self.wait_for_log(pod, "application", 0, "the ledger answered 200");
    }

    /// When a process of this Pod's application last ran.
    #[track_caller]
    pub(crate) fn last_life_sign(&self, pod: &str) -> Moment {
        let signs = self.life_signs();
        let own = signs.iter().filter(|sign| sign.pod == pod).map(|sign| sign.at);
        own.max().unwrap_or_else(|| panic!("no command ran in {pod}"))
    }

    /// Panics unless exactly these Pods ran the command and wrote, in this order, one at a time, with
    /// increasing tokens. The ledger and the signs of life must both show that.
    #[track_caller]
    pub(crate) fn assert_one_writer_at_a_time(&self, writers: &[&str]) {
        let report = self.assert_ledger_is_clean();
        let wrote: Vec<&str> = report.terms.iter().map(|term| &*term.writer).collect();
        assert_eq!(wrote, writers, "{report:?}");
        let mut signs = self.life_signs();
        signs.sort_unstable();
        for pair in signs.windows(2) {
            let [earlier, later] = pair else { unreachable!("a window of two") };
            let is_same_term = later.token == earlier.token && later.pod == earlier.pod;
            if !is_same_term && later.token <= earlier.token {
                never_excuse();
                panic!("two commands ran at once, or a token went back: {earlier:?}, {later:?}");
            }
        }
        signs.dedup_by(|later, earlier| later.token == earlier.token);
        let ran: Vec<&str> = signs.iter().map(|sign| &*sign.pod).collect();
        assert_eq!(ran, writers);
    }

    /// The signs of life of all replicas so far.
    fn life_signs(&self) -> Vec<LifeSign> {
        self.journal.find_all(|source, text| LifeSign::of(self, source, text))
    }
}
