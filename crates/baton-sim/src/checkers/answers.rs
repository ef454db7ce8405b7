//! The order of answers: polls, waiting requests, and the status file tell the same changes.
//!
//! Pure. [`Answers`] is what the workers of one process have heard. Start with [`answers_agree`].
//! Each function is one property.

use super::exclusion::name;
use super::state::CheckerState;
use crate::scenario::Push;
use crate::trace::{TraceContext, TraceEvent, Worker};
use baton_election::claim::FencingToken;
use baton_election::instant::Instant;
use baton_election::leadership::{Answer, Status};
use baton_election::machine::Election;

/// The answers of one process so far.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Answers {
    /// Which listeners there are.
    push: Push,
    /// The newest revision in any answer, and the role that it stands for.
    newest: Option<(u64, Role)>,
    /// The revisions that the waiting request and the status file have heard of.
    waiter: u64,
    file: u64,
    /// When the promise in the status file expires.
    file_until: Option<Instant>,
}

/// The name of a standing, and the token of a leader.
type Role = (&'static str, Option<FencingToken>);

impl Answers {
    pub(super) fn of(push: Push) -> Self {
        Self { push, ..Self::default() }
    }

    /// The answers of the next process of the same candidate.
    pub(super) fn restarted(self) -> Self {
        Self::of(self.push)
    }

    /// A worker gets an answer, with a promise until `until` if it is "leading".
    pub(super) fn add(&mut self, worker: Worker, answer: &Answer, until: Option<Instant>) {
        self.newest = Some((answer.revision, role(answer)));
        match worker {
            Worker::Named(_) | Worker::Anonymous => {}
            Worker::Waiting => self.waiter = answer.revision,
            Worker::FileReader => (self.file, self.file_until) = (answer.revision, until),
        }
    }
}

/// The revision never decreases, and one revision stands for one role.
pub(super) fn answers_agree<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::QueryAnswered(number, worker, answer, _) = event else { return None };
    let (revision, role_before) = state.candidates[*number].run.answers.newest?;
    let is_same_role = role(answer) == role_before;
    let agrees = revision < answer.revision || revision == answer.revision && is_same_role;
    (!agrees).then(|| {
        format!(
            "{} answers {worker:?} with {answer:?} after {role_before:?} of revision {revision}",
            name(*number)
        )
    })
}

/// Before a worker polls, the waiting request and the status file have heard of every change that
/// an earlier poll has heard of.
pub(super) fn listeners_hear_first<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::QueryAnswered(number, Worker::Named(_) | Worker::Anonymous, ..) = event else {
        return None;
    };
    let answers = &state.candidates[*number].run.answers;
    let (newest, _) = answers.newest?;
    let is_behind = answers.push.has_waiter && answers.waiter != newest
        || answers.push.has_file && answers.file != newest;
    is_behind.then(|| format!("{} left a listener behind: {answers:?}", name(*number)))
}

/// The status file of a leader that is not suspended never expires.
pub(super) fn file_lasts_while_leading<E: Election>(
    state: &CheckerState,
    _: &TraceContext<'_>,
    event: &TraceEvent<'_, E>,
) -> Option<String> {
    let TraceEvent::QueryAnswered(number, worker, answer, queried_at) = event else { return None };
    let candidate = &state.candidates[*number];
    let answers = &candidate.run.answers;
    let is_poll = matches!(worker, Worker::Named(_) | Worker::Anonymous);
    let leads = matches!(answer.status, Status::Leading(_));
    let has_led = answers.newest.is_some_and(|(revision, _)| revision == answer.revision);
    let was_suspended = candidate.pauses > 0
        || *queried_at < candidate.paused_at + candidate.timing.answer_validity();
    if !(answers.push.has_file && is_poll && leads && has_led) || was_suspended {
        return None;
    }
    let is_expired = answers.file_until.is_none_or(|until| until <= *queried_at);
    is_expired.then(|| {
        format!("{} leads at {queried_at:?}, but its file does not: {answers:?}", name(*number))
    })
}

fn role(answer: &Answer) -> Role {
    let token = match answer.status {
        Status::Leading(promise) => Some(promise.token),
        Status::Unknown | Status::Following { .. } | Status::Resigning => None,
    };
    (answer.status.standing(), token)
}
