//! All answers of a test, and the checker of their safety properties.
//!
//! Pure: [`judge`] takes the answers of all candidates on one clock and returns every violation.
//! Its own tests violate each property once.
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
    pub(crate) heard: Heard,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Heard {
    Said(Said),
    /// A response that is not an answer to `/leader`.
    Nonsense(String),
    /// No response: a refused connection, a timeout.
    Nothing(String),
}

#[derive(Clone, PartialEq)]
pub(crate) struct Said {
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
pub(crate) struct Fault {
    pub(crate) rule: Rule,
    detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
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

impl Rule {
    /// Whether this must hold however slow the machine is.
    pub(crate) fn is_timeless(self) -> bool {
        match self {
            Self::Shape | Self::Exclusion | Self::Token | Self::Silence => true,
            Self::Void => false,
        }
    }
}

impl Answer {
    /// Whether this says that the candidate leads the election.
    pub(crate) fn leads_in(&self, election: &str) -> bool {
        self.said().is_some_and(|said| said.body.is_leader && said.body.election == election)
    }

    /// The identity of the candidate.
    pub(crate) fn identity(&self) -> Option<&String> {
        self.said().map(|said| &said.body.identity)
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.said().and_then(|said| said.body.token.as_deref())
    }

    pub(crate) fn standing(&self) -> Option<&str> {
        self.said().map(|said| said.body.standing.as_str())
    }

    /// The leader that this candidate names.
    pub(crate) fn leader(&self) -> Option<&String> {
        self.said().and_then(|said| said.body.leader.as_ref())
    }

    /// The end of the promise in this answer.
    pub(crate) fn promised_until(&self) -> Option<Moment> {
        let leading = self.said().filter(|said| said.body.is_leader)?;
        Some(self.asked + Duration::from_millis(leading.body.valid_for_ms))
    }

    fn said(&self) -> Option<&Said> {
        match &self.heard {
            Heard::Said(said) => Some(said),
            Heard::Nonsense(_) | Heard::Nothing(_) => None,
        }
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(Said { status, body, .. }) => {
                write!(f, "{status} {}", body.standing)?;
                match (&body.token, &body.leader) {
                    (Some(token), _) => write!(f, ", token {token}, for {} ms", body.valid_for_ms),
                    (None, Some(leader)) => write!(f, " {leader}"),
                    (None, None) => Ok(()),
                }
            }
            Self::Nonsense(what) => write!(f, "malformed: {what}"),
            Self::Nothing(error) => write!(f, "no answer: {error}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.detail)
    }
}

impl Heard {
    /// Parses a response.
    pub(crate) fn of(reply: Result<Reply, String>) -> Self {
        let Reply { status, fencing_token, body } = match reply {
            Ok(reply) => reply,
            Err(error) => return Self::Nothing(error),
        };
        match serde_json::from_str(&body) {
            Ok(body) => Self::Said(Said { status, fencing_token, body }),
            Err(error) => Self::Nonsense(format!("{status} {body:?}: {error}")),
        }
    }
}

/// Every violation in a history.
pub(crate) fn judge(history: &History) -> Vec<Fault> {
    let mut faults: Vec<Fault> = history.answers.iter().filter_map(misshapen).collect();
    for election in &history.elections {
        let claims: Vec<Claim<'_>> =
            history.answers.iter().filter_map(|answer| Claim::of(answer, election)).collect();
        faults.extend(void(election, history, &claims));
        faults.extend(overlaps(claims.clone()));
        faults.extend(token_regressions(&claims));
    }
    faults.extend(history.silences.iter().filter_map(|silence| broken(silence, &history.answers)));
    faults
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

fn misshapen(answer: &Answer) -> Option<Fault> {
    let detail = match &answer.heard {
        Heard::Nothing(_) => return None,
        Heard::Nonsense(what) => what.clone(),
        Heard::Said(said) => contradiction(said, answer.relied_on)?,
    };
    let Answer { candidate, asked, heard, .. } = answer;
    Some(Fault {
        rule: Rule::Shape,
        detail: format!("{candidate}, asked {asked:?}: {detail}: {heard}"),
    })
}

/// The first inconsistency in one answer.
fn contradiction(Said { status, fencing_token, body }: &Said, relied_on: bool) -> Option<String> {
    let leads = body.is_leader;
    let rules = [
        (*status == if leads { 200 } else { 503 }, "the status"),
        (body.token.is_some() == leads, "the token"),
        (body.token.as_ref().is_none_or(|token| token.parse::<u128>().is_ok()), "the token's form"),
        (*fencing_token == body.token, "the header"),
        ((body.standing == "leading") == leads, "the standing"),
        ((body.valid_for_ms > 0) == (leads && relied_on), "valid_for_ms"),
        (!leads || body.leader.as_ref() == Some(&body.identity), "the leader"),
    ];
    let broken = rules.iter().find(|(holds, _)| !holds);
    broken.map(|(_, what)| format!("{what} contradicts is_leader = {leads}"))
}

fn void(election: &str, history: &History, claims: &[Claim<'_>]) -> Option<Fault> {
    let answers = history.answers.iter().filter_map(Answer::said);
    let count = answers.filter(|said| said.body.election == election).count();
    let promised = claims.iter().any(|claim| claim.answered < claim.until);
    let fault = || Fault {
        rule: Rule::Void,
        detail: format!(
            "{election}: {count} answers, {} of them leading, prove nothing",
            claims.len()
        ),
    };
    (count < FEWEST_ANSWERS || !promised).then(fault)
}

/// A single pass over the claims by their start is enough: if any two terms overlap, some claim
/// also overlaps the earlier one that ends last.
fn overlaps(mut claims: Vec<Claim<'_>>) -> Vec<Fault> {
    claims.retain(|claim| claim.answered < claim.until);
    claims.sort_by_key(|claim| claim.answered);
    let mut faults = Vec::new();
    let mut furthest: Option<Claim<'_>> = None;
    for claim in claims {
        if let Some(other) =
            furthest.filter(|other| other.until > claim.answered && other.term() != claim.term())
        {
            faults.push(Fault {
                rule: Rule::Exclusion,
                detail: format!("two lead: {other}; {claim}"),
            });
        }
        if furthest.is_none_or(|other| other.until < claim.until) {
            furthest = Some(claim);
        }
    }
    faults
}

/// Compares each claim with the largest token among those answered before it was requested. Two
/// concurrent requests have no order.
fn token_regressions(claims: &[Claim<'_>]) -> Vec<Fault> {
    let mut answered = claims.to_vec();
    answered.sort_by_key(|claim| claim.answered);
    let mut answered = answered.into_iter().peekable();
    let mut asked = claims.to_vec();
    asked.sort_by_key(|claim| claim.asked);

    let mut faults = Vec::new();
    let mut largest: Option<Claim<'_>> = None;
    for claim in asked {
        while let Some(earlier) = answered.next_if(|earlier| earlier.answered <= claim.asked) {
            largest = largest.filter(|largest| largest.token >= earlier.token).or(Some(earlier));
        }
        if let Some(earlier) =
            largest.filter(|earlier| earlier.term() != claim.term() && earlier.token >= claim.token)
        {
            faults.push(Fault {
                rule: Rule::Token,
                detail: format!("not larger than before: {earlier}; {claim}"),
            });
        }
    }
    faults
}

fn broken(Silence { identity, since, why }: &Silence, answers: &[Answer]) -> Option<Fault> {
    let later = |answer: &&Answer| answer.identity() == Some(identity) && answer.asked > *since;
    let wrong = answers
        .iter()
        .filter(later)
        .find(|answer| answer.said().is_some_and(|said| said.body.is_leader))?;
    let detail = format!(
        "{identity} answered leading, asked {:?}, although {why} at {since:?}",
        wrong.asked
    );
    Some(Fault { rule: Rule::Silence, detail })
}
