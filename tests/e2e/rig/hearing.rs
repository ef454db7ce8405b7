//! What a case waits for and looks up in what was heard of its sidecars and applications.

use super::case::Case;
use super::history::{Answer, Moment, Silence, eventually, lock, wait_for};
use super::{NOISE, PATIENCE, TIMING};
use serde_json::Value;
use std::time::Duration;

/// A term as it was first heard of.
#[derive(Clone, Debug)]
pub(crate) struct Led {
    pub(crate) pod: String,
    pub(crate) identity: String,
    /// When the answer was there.
    pub(crate) heard: Moment,
}

impl Case {
    /// Waits for a Pod that answers "leading" from now on.
    #[track_caller]
    pub(crate) fn leader(&self) -> Led {
        *lock(&self.led) = true;
        self.led(self.now(), "somebody leads", |_| true)
    }

    /// Waits for the first answer "leading" of another than `old` to a question asked after `since`, which has to come
    /// `within` that time.
    #[track_caller]
    pub(crate) fn successor(&self, old: &Led, since: Moment, within: Duration) -> Led {
        let what = format!("another leads than {}", old.identity);
        let new = self.led(since, &what, |identity| identity != old.identity);
        let took = new.heard.since(since);
        self.note(&format!("{} leads, {took:?} after that", new.pod));
        assert!(took <= within, "the successor took {took:?}, which is more than {within:?}");
        new
    }

    /// Waits for the successor of a leader that went at `since` and released nothing.
    #[track_caller]
    pub(crate) fn takeover(&self, old: &Led, since: Moment) -> Led {
        self.successor(old, since, TIMING.takeover() + NOISE)
    }

    #[track_caller]
    fn led(&self, since: Moment, what: &str, wanted: impl Fn(&str) -> bool) -> Led {
        let leads = |answer: &Answer| {
            let is_wanted = answer.identity().is_some_and(|identity| wanted(identity));
            answer.asked >= since && answer.leads_in(&self.election) && is_wanted
        };
        let answer = wait_for(PATIENCE, what, || self.journal.first_answer(leads));
        let identity = answer.identity().expect("it says who leads").clone();
        Led { pod: answer.candidate, identity, heard: answer.answered }
    }

    /// Waits until this Pod's sidecar says that it follows, in answer to a question asked after `since`.
    #[track_caller]
    pub(crate) fn follows(&self, pod: &str, since: Moment) {
        let follows = |answer: &Answer| {
            answer.asked >= since
                && answer.candidate == pod
                && answer.standing() == Some("following")
        };
        eventually(PATIENCE, "it follows", || self.journal.first_answer(follows).is_some());
    }

    /// When this Pod's sidecar answered last.
    #[track_caller]
    pub(crate) fn last_heard(&self, pod: &str) -> Moment {
        let answers = lock(&self.journal.answers);
        let own =
            answers.iter().filter(|answer| answer.candidate == pod && answer.standing().is_some());
        own.map(|answer| answer.answered).max().expect("it has answered")
    }

    /// From `since` on no answer of this term may say "leading": judged at the end.
    pub(crate) fn must_be_silent(&self, old: &Led, since: Moment, why: &str) {
        lock(&self.silences).push(Silence {
            identity: old.identity.clone(),
            since,
            why: why.to_owned(),
        });
    }

    /// How many terms were heard of.
    pub(crate) fn terms(&self) -> usize {
        self.journal.tokens(&self.election).len()
    }

    /// Writes into the timeline how long nobody was heard leading at each change of leader since the first, and holds
    /// each of these times to a bound. A handoff is judged by that: when kubelet tells a Pod to end is not the sidecar's.
    #[track_caller]
    pub(crate) fn assert_gaps_within(&self, bound: Duration) {
        let mut leading = lock(&self.journal.answers).clone();
        leading.retain(|answer| answer.leads_in(&self.election));
        leading.sort_by_key(|answer| answer.answered);
        let changes = leading.windows(2).filter(|pair| pair[0].identity() != pair[1].identity());
        let gaps: Vec<Duration> =
            changes.map(|pair| pair[1].answered.since(pair[0].answered)).collect();
        self.note(&format!("without a leader: {:?}, as {gaps:?}", gaps.iter().sum::<Duration>()));
        assert!(gaps.iter().all(|gap| *gap <= bound), "one of {gaps:?} is more than {bound:?}");
    }

    /// What one run of a container has written so far; 0 is its first run.
    pub(crate) fn log(&self, pod: &str, container: &str, run: u64) -> String {
        self.journal.text(&format!("{pod}/{container}/{run}"))
    }

    /// Waits until that run of a container has written this.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, pod: &str, container: &str, run: u64, wanted: &str) {
        let what = format!("run {run} of {container} of {pod} says {wanted:?}");
        eventually(PATIENCE, &what, || self.log(pod, container, run).contains(wanted));
    }

    /// Waits until a container was started so many times again, and has written something since.
    #[track_caller]
    pub(crate) fn wait_for_run(&self, pod: &str, container: &str, run: u64) {
        let what = format!("{container} of {pod} was started {run} times again");
        eventually(PATIENCE, &what, || !self.log(pod, container, run).is_empty());
    }

    /// Waits until a sidecar whose Pod's name begins so has logged this event: when that was, and its message.
    #[track_caller]
    pub(crate) fn event(&self, event: &str, pod: &str) -> (Moment, String) {
        let message = |text: &str| {
            let line: Value =
                serde_json::from_str(text).ok().filter(|line: &Value| line["event"] == event)?;
            line["message"].as_str().map(str::to_owned)
        };
        wait_for(PATIENCE, &format!("{pod} logs {event}"), || {
            self.journal.find(|who, text| if who.starts_with(pod) { message(text) } else { None })
        })
    }
}
