//! Waits for and looks up answers and log lines of a case's sidecars and applications.

use super::case::Case;
use super::history::{Answer, Moment, Silence, eventually, lock, wait_for};
use super::{NOISE, PATIENCE, TIMING};
use serde_json::Value;
use std::time::Duration;

/// A leader and its first answer "leading".
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    pub(crate) pod: String,
    pub(crate) identity: String,
    /// When the answer arrived.
    pub(crate) answered_at: Moment,
}

impl Case {
    /// Waits for an answer "leading" to a request after this call.
    #[track_caller]
    pub(crate) fn leader(&self) -> Leader {
        *lock(&self.expects_leader) = true;
        self.wait_for_leading(self.now(), "a candidate leads", |_| true)
    }

    /// Waits for the first answer "leading" of another candidate than `old` to a request after
    /// `since`. Panics if it takes longer than `within`.
    #[track_caller]
    pub(crate) fn successor(&self, old: &Leader, since: Moment, within: Duration) -> Leader {
        let what = format!("another candidate than {} leads", old.identity);
        let new = self.wait_for_leading(since, &what, |identity| identity != old.identity);
        let took = new.answered_at.since(since);
        self.note(&format!("{} leads, {took:?} later", new.pod));
        assert!(took <= within, "the successor took {took:?}, more than {within:?}");
        new
    }

    /// Waits for the successor of a leader that failed at `since` without a release.
    #[track_caller]
    pub(crate) fn takeover(&self, old: &Leader, since: Moment) -> Leader {
        self.successor(old, since, TIMING.takeover() + NOISE)
    }

    #[track_caller]
    fn wait_for_leading(&self, since: Moment, what: &str, wanted: impl Fn(&str) -> bool) -> Leader {
        let leads = |answer: &Answer| {
            let is_wanted = answer.identity().is_some_and(|identity| wanted(identity));
            answer.asked >= since && answer.leads_in(&self.election) && is_wanted
        };
        let answer = wait_for(PATIENCE, what, || self.journal.first_answer(leads));
        let identity = answer.identity().expect("a leader names itself").clone();
        Leader { pod: answer.candidate, identity, answered_at: answer.answered }
    }

    /// Waits until this Pod's sidecar answers "following" to a request after `since`.
    #[track_caller]
    pub(crate) fn wait_for_follower(&self, pod: &str, since: Moment) {
        let follows = |answer: &Answer| {
            answer.asked >= since
                && answer.candidate == pod
                && answer.standing() == Some("following")
        };
        eventually(PATIENCE, &format!("{pod} follows"), || {
            self.journal.first_answer(follows).is_some()
        });
    }

    /// When this Pod's sidecar last answered.
    #[track_caller]
    pub(crate) fn last_answer(&self, pod: &str) -> Moment {
        let answers = lock(&self.journal.answers);
        let own =
            answers.iter().filter(|answer| answer.candidate == pod && answer.standing().is_some());
        own.map(|answer| answer.answered).max().expect("the sidecar has answered")
    }

    /// Forbids answers "leading" of this leader from `since` on. Checked when the case ends.
    pub(crate) fn must_not_lead(&self, old: &Leader, since: Moment, why: &str) {
        lock(&self.silences).push(Silence {
            identity: old.identity.clone(),
            since,
            why: why.to_owned(),
        });
    }

    /// The number of terms so far.
    pub(crate) fn terms(&self) -> usize {
        self.journal.tokens(&self.election).len()
    }

    /// Notes the time without a leader at each change so far, and panics if one exceeds `bound`.
    /// This measures a handoff without the time that kubelet takes to stop a Pod.
    #[track_caller]
    pub(crate) fn assert_gaps_within(&self, bound: Duration) {
        let mut leading = lock(&self.journal.answers).clone();
        leading.retain(|answer| answer.leads_in(&self.election));
        leading.sort_by_key(|answer| answer.answered);
        let changes = leading.windows(2).filter(|pair| pair[0].identity() != pair[1].identity());
        let gaps: Vec<Duration> =
            changes.map(|pair| pair[1].answered.since(pair[0].answered)).collect();
        self.note(&format!(
            "without a leader: {:?} in total, {gaps:?}",
            gaps.iter().sum::<Duration>()
        ));
        assert!(gaps.iter().all(|gap| *gap <= bound), "one of {gaps:?} exceeds {bound:?}");
    }

    /// The log of one run of a container so far. Run 0 is the first.
    pub(crate) fn log(&self, pod: &str, container: &str, run: u64) -> String {
        self.journal.text(&format!("{pod}/{container}/{run}"))
    }

    /// Waits until this run of a container has logged `wanted`.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, pod: &str, container: &str, run: u64, wanted: &str) {
        let what = format!("run {run} of {container} in {pod} logs {wanted:?}");
        eventually(PATIENCE, &what, || self.log(pod, container, run).contains(wanted));
    }

    /// Waits until a container was restarted `run` times and has logged something since.
    #[track_caller]
    pub(crate) fn wait_for_run(&self, pod: &str, container: &str, run: u64) {
        let what = format!("{container} in {pod} was restarted {run} times");
        eventually(PATIENCE, &what, || !self.log(pod, container, run).is_empty());
    }

    /// Waits until a sidecar logs this event, for Pods with this name prefix. Returns time and
    /// message.
    #[track_caller]
    pub(crate) fn wait_for_event(&self, event: &str, pod: &str) -> (Moment, String) {
        let message = |text: &str| {
            let line: Value =
                serde_json::from_str(text).ok().filter(|line: &Value| line["event"] == event)?;
            line["message"].as_str().map(str::to_owned)
        };
        wait_for(PATIENCE, &format!("{pod} logs {event}"), || {
            self.journal
                .find(|source, text| if source.starts_with(pod) { message(text) } else { None })
        })
    }

    /// Waits until this Pod's sidecar has written its addresses into the IPv4 slice, at `since` or
    /// later. Returns that time.
    #[track_caller]
    pub(crate) fn wait_for_published(&self, pod: &str, since: Moment) -> Moment {
        let published = |source: &str, text: &str| {
            let is_ours = source.starts_with(pod) && text.contains("endpoint_published");
            (is_ours && text.contains("ipv4")).then_some(())
        };
        let found = || self.journal.find_since(since, published);
        wait_for(PATIENCE, &format!("{pod} publishes its addresses"), found).0
    }

    /// Waits until a peer's candidate, in a Pod with this name prefix, logs at `since` or later that
    /// its work has started. Returns that time and the Pod.
    #[track_caller]
    pub(crate) fn wait_for_peer_to_lead(&self, prefix: &str, since: Moment) -> (Moment, String) {
        let pod = |source: &str, text: &str| {
            let line: Value = serde_json::from_str(text).ok()?;
            let (pod, _) = source.split_once('/')?;
            let starts = line["event"] == "started_leading" && pod.starts_with(prefix);
            starts.then(|| pod.to_owned())
        };
        wait_for(PATIENCE, "a candidate of the peer leads", || self.journal.find_since(since, pod))
    }
}
