//! All answers of a test, and the checker of their safety properties.
//!
//! Pure. Start with [`check`], which takes the answers of all candidates on one clock and returns
//! every violation. Its own tests violate each property once.
//!
//! An application may act on an answer from the moment it arrives until `valid_for_ms` after the
//! moment of the request. These spans must never overlap between two terms:
//!
//! ```text
//! a  asked ──── answered ████████████████ asked + valid_for_ms
//! b                          asked ── answered ████████        a violation
//! ```

mod tests;

use super::{Moment, Reply};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The fewest answers of an election that prove anything.
const FEWEST_ANSWERS: usize = 10;

/// The input of the checker.
pub(crate) struct History {
    /// The elections that had candidates: each must have had a leader.
    pub(crate) elections: BTreeSet<String>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) silences: Vec<Silence>,
}

/// A request to one candidate, and its outcome.
#[derive(Clone)]
pub(crate) struct Answer {
    /// The candidate's label in the timeline.
    pub(crate) candidate: String,
    pub(crate) asked: Moment,
    pub(crate) answered: Moment,
    /// Whether the request asked for a promise, or only for the state.
    pub(crate) relied_on: bool,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Outcome {
    Answered(Statement),
    /// A response that is not an answer to `/leader`.
    Malformed(String),
    /// No response: a refused connection, a timeout.
    Unanswered(String),
}

#[derive(Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) status: u16,
    pub(crate) fencing_token: Option<String>,
    pub(crate) body: Body,
}

#[derive(Clone, PartialEq, Deserialize)]
pub(crate) struct Body {
    pub(crate) election: String,
    pub(crate) identity: String,
    pub(crate) standing: String,
    pub(crate) is_leader: bool,
    pub(crate) leader: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) valid_for_ms: u64,
}

/// From `since` on, this identity must not answer "leading".
#[derive(Clone)]
pub(crate) struct Silence {
    pub(crate) identity: String,
    pub(crate) since: Moment,
    pub(crate) why: String,
}

/// A violated property.
#[derive(Debug, PartialEq)]
pub(crate) struct Violation {
    pub(crate) property: Property,
    detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Property {
    /// Status, header, and body of an answer are complete and consistent.
    Shape,
    /// No two terms are valid at one instant.
    Exclusion,
    /// A later term has a larger token.
    Token,
    /// A candidate that has ended or lost its term does not lead.
    Silence,
    /// There are enough answers for a check.
    Void,
}

impl Property {
    /// Whether this must hold however slow the machine is.
    pub(crate) fn is_timing_independent(self) -> bool {
        match self {
            Self::Shape | Self::Exclusion | Self::Token | Self::Silence => true,
            Self::Void => false,
        }
    }
}

impl Answer {
    /// Whether this says that the candidate leads the election.
    pub(crate) fn leads_in(&self, election: &str) -> bool {
        self.statement().is_some_and(|statement| {
            statement.body.is_leader && statement.body.election == election
        })
    }

    /// The identity of the candidate.
    pub(crate) fn identity(&self) -> Option<&String> {
        self.statement().map(|statement| &statement.body.identity)
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.statement().and_then(|statement| statement.body.token.as_deref())
    }

    pub(crate) fn standing(&self) -> Option<&str> {
        self.statement().map(|statement| statement.body.standing.as_str())
    }

    /// The leader that this candidate names.
    pub(crate) fn leader(&self) -> Option<&String> {
        self.statement().and_then(|statement| statement.body.leader.as_ref())
    }

    /// The end of the promise in this answer.
    pub(crate) fn promised_until(&self) -> Option<Moment> {
        let leading = self.statement().filter(|statement| statement.body.is_leader)?;
        Some(self.asked + Duration::from_millis(leading.body.valid_for_ms))
    }

    fn statement(&self) -> Option<&Statement> {
        match &self.outcome {
            Outcome::Answered(statement) => Some(statement),
            Outcome::Malformed(_) | Outcome::Unanswered(_) => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(Statement { status, body, .. }) => {
                write!(f, "{status} {}", body.standing)?;
                match (&body.token, &body.leader) {
                    (Some(token), _) => write!(f, ", token {token}, for {} ms", body.valid_for_ms),
                    (None, Some(leader)) => write!(f, " {leader}"),
                    (None, None) => Ok(()),
                }
            }
            Self::Malformed(what) => write!(f, "malformed: {what}"),
            Self::Unanswered(error) => write!(f, "no answer: {error}"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.property, self.detail)
    }
}

impl Outcome {
    /// Parses a response.
    pub(crate) fn of(reply: Result<Reply, String>) -> Self {
        let Reply { status, fencing_token, body } = match reply {
            Ok(reply) => reply,
            Err(error) => return Self::Unanswered(error),
        };
        match serde_json::from_str(&body) {
            Ok(body) => Self::Answered(Statement { status, fencing_token, body }),
            Err(error) => Self::Malformed(format!("{status} {body:?}: {error}")),
        }
    }
}

/// Every violation in a history.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut violations: Vec<Violation> =
        history.answers.iter().filter_map(shape_violation).collect();
    for election in &history.elections {
        let claims: Vec<Claim<'_>> =
            history.answers.iter().filter_map(|answer| Claim::of(answer, election)).collect();
        violations.extend(void_violation(election, history, &claims));
        violations.extend(overlaps(claims.clone()));
        violations.extend(token_regressions(&claims));
    }
    violations.extend(
        history.silences.iter().filter_map(|silence| silence_violation(silence, &history.answers)),
    );
    violations
}

/// An answer "leading", as an application may use it.
#[derive(Clone, Copy)]
struct Claim<'a> {
    identity: &'a str,
    token: u128,
    asked: Moment,
    answered: Moment,
    until: Moment,
}

impl<'a> Claim<'a> {
    fn of(answer: &'a Answer, election: &str) -> Option<Self> {
        if !answer.leads_in(election) {
            return None;
        }
        Some(Self {
            identity: answer.identity()?,
            token: answer.token()?.parse().ok()?,
            asked: answer.asked,
            answered: answer.answered,
            until: answer.promised_until()?,
        })
    }

    fn term(&self) -> (u128, &str) {
        (self.token, self.identity)
    }
}

impl fmt::Display for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, token, asked, answered, until } = self;
        write!(
            f,
            "{identity} with token {token}, asked {asked:?}, answered {answered:?}, until {until:?}"
        )
    }
}

fn shape_violation(answer: &Answer) -> Option<Violation> {
    let detail = match &answer.outcome {
        Outcome::Unanswered(_) => return None,
        Outcome::Malformed(what) => what.clone(),
        Outcome::Answered(statement) => contradiction(statement, answer.relied_on)?,
    };
    let Answer { candidate, asked, outcome, .. } = answer;
    Some(Violation {
        property: Property::Shape,
        detail: format!("{candidate}, asked {asked:?}: {detail}: {outcome}"),
    })
}

/// The first inconsistency in one answer.
fn contradiction(
    Statement { status, fencing_token, body }: &Statement,
    relied_on: bool,
) -> Option<String> {
    let leads = body.is_leader;
    let requirements = [
        (*status == if leads { 200 } else { 503 }, "the status"),
        (body.token.is_some() == leads, "the token"),
        (body.token.as_ref().is_none_or(|token| token.parse::<u128>().is_ok()), "the token's form"),
        (*fencing_token == body.token, "the header"),
        ((body.standing == "leading") == leads, "the standing"),
        ((body.valid_for_ms > 0) == (leads && relied_on), "valid_for_ms"),
        (!leads || body.leader.as_ref() == Some(&body.identity), "the leader"),
    ];
    let broken = requirements.iter().find(|(holds, _)| !holds);
    broken.map(|(_, what)| format!("{what} contradicts is_leader = {leads}"))
}

fn void_violation(election: &str, history: &History, claims: &[Claim<'_>]) -> Option<Violation> {
    let answers = history.answers.iter().filter_map(Answer::statement);
    let count = answers.filter(|statement| statement.body.election == election).count();
    let promised = claims.iter().any(|claim| claim.answered < claim.until);
    let violation = || Violation {
        property: Property::Void,
        detail: format!(
            "{election}: {count} answers, {} of them leading, prove nothing",
            claims.len()
        ),
    };
    (count < FEWEST_ANSWERS || !promised).then(violation)
}

/// The overlaps of terms. A single pass over the claims by their start finds one if there is any: a
/// claim that overlaps another term also overlaps the earlier claim that ends last.
fn overlaps(mut claims: Vec<Claim<'_>>) -> Vec<Violation> {
    claims.retain(|claim| claim.answered < claim.until);
    claims.sort_by_key(|claim| claim.answered);
    let mut violations = Vec::new();
    let mut furthest: Option<Claim<'_>> = None;
    for claim in claims {
        if let Some(other) =
            furthest.filter(|other| other.until > claim.answered && other.term() != claim.term())
        {
            violations.push(Violation {
                property: Property::Exclusion,
                detail: format!("two lead: {other}; {claim}"),
            });
        }
        if furthest.is_none_or(|other| other.until < claim.until) {
            furthest = Some(claim);
        }
    }
    violations
}

/// Compares each claim with the largest token among those answered before it was requested. Two
/// concurrent requests have no order.
fn token_regressions(claims: &[Claim<'_>]) -> Vec<Violation> {
    let mut answered = claims.to_vec();
    answered.sort_by_key(|claim| claim.answered);
    let mut answered = answered.into_iter().peekable();
    let mut asked = claims.to_vec();
    asked.sort_by_key(|claim| claim.asked);

    let mut violations = Vec::new();
    let mut largest: Option<Claim<'_>> = None;
    for claim in asked {
        while let Some(earlier) = answered.next_if(|earlier| earlier.answered <= claim.asked) {
            largest = largest.filter(|largest| largest.token >= earlier.token).or(Some(earlier));
        }
        if let Some(earlier) =
            largest.filter(|earlier| earlier.term() != claim.term() && earlier.token >= claim.token)
        {
            violations.push(Violation {
                property: Property::Token,
                detail: format!("not larger than before: {earlier}; {claim}"),
            });
        }
    }
    violations
}

fn silence_violation(
    Silence { identity, since, why }: &Silence,
    answers: &[Answer],
) -> Option<Violation> {
    let later = |answer: &&Answer| answer.identity() == Some(identity) && answer.asked > *since;
    let wrong = answers
        .iter()
        .filter(later)
        .find(|answer| answer.statement().is_some_and(|statement| statement.body.is_leader))?;
    let detail = format!(
        "{identity} answered leading, asked {:?}, although {why} at {since:?}",
        wrong.asked
    );
    Some(Violation { property: Property::Silence, detail })
}
