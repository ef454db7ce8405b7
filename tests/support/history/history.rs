//! What was heard, and the judgement over it.
//!
//! Pure: [`judge`] takes the answers of all candidates on one clock and says what must not be. Its own tests
//! plant each fault once.
//!
//! An application may act on an answer from the moment at which it has it until `valid_for_ms` after the
//! moment at which it asked. These spans are what must never overlap between two terms:
//!
//! ```text
//! a  asked ──── answered ████████████████ asked + valid_for_ms
//! b                          asked ── answered ████████        a fault
//! ```

mod tests;

use super::{Moment, Reply};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// With fewer answers of an election than this, nothing was shown.
const FEWEST_ANSWERS: usize = 10;

/// Everything that the judge knows of a test.
pub(crate) struct History {
    /// The elections that had candidates: each must have been heard leading.
    pub(crate) elections: BTreeSet<String>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) silences: Vec<Silence>,
}

/// A question to one candidate, and what came back.
#[derive(Clone)]
pub(crate) struct Answer {
    /// Whom we asked, for the story.
    pub(crate) candidate: String,
    pub(crate) asked: Moment,
    pub(crate) answered: Moment,
    /// Whether a promise was asked for, or only the state of things.
    pub(crate) relied_on: bool,
    pub(crate) heard: Heard,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Heard {
    Said(Said),
    /// Something that is no answer to `/leader`.
    Nonsense(String),
    /// A refused connection, a time-out.
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

/// From `since` on nobody who asks this identity may hear that it leads.
#[derive(Clone)]
pub(crate) struct Silence {
    pub(crate) identity: String,
    pub(crate) since: Moment,
    pub(crate) why: String,
}

/// What must not be.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) rule: Rule,
    detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// Status, header and body say the same, and all of it.
    Shape,
    /// No two terms are valid at one instant.
    Exclusion,
    /// A later term has a larger token.
    Token,
    /// Who has ended or lost leads no more.
    Silence,
    /// The prober has heard enough to judge.
    Void,
}

impl Rule {
    /// Whether this has to hold however slow the machine is.
    pub(crate) fn is_timeless(self) -> bool {
        match self {
            Self::Shape | Self::Exclusion | Self::Token | Self::Silence => true,
            Self::Void => false,
        }
    }
}

impl Answer {
    /// Whether this says that the one who was asked leads the election.
    pub(crate) fn leads_in(&self, election: &str) -> bool {
        self.said().is_some_and(|said| said.body.is_leader && said.body.election == election)
    }

    /// Who answered.
    pub(crate) fn identity(&self) -> Option<&String> {
        self.said().map(|said| &said.body.identity)
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.said().and_then(|said| said.body.token.as_deref())
    }

    pub(crate) fn standing(&self) -> Option<&str> {
        self.said().map(|said| said.body.standing.as_str())
    }

    /// Who leads, as far as this candidate knows.
    pub(crate) fn leader(&self) -> Option<&String> {
        self.said().and_then(|said| said.body.leader.as_ref())
    }

    /// Until when an application may act on this answer.
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
            Self::Nonsense(what) => write!(f, "nonsense: {what}"),
            Self::Nothing(why) => write!(f, "no answer: {why}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.detail)
    }
}

impl Heard {
    /// What a question was answered with, if it was.
    pub(crate) fn of(reply: Result<Reply, String>) -> Self {
        let Reply { status, fencing_token, body } = match reply {
            Ok(reply) => reply,
            Err(why) => return Self::Nothing(why),
        };
        match serde_json::from_str(&body) {
            Ok(body) => Self::Said(Said { status, fencing_token, body }),
            Err(error) => Self::Nonsense(format!("{status} {body:?}: {error}")),
        }
    }
}

/// Everything that is wrong with a history; nothing, when all is well.
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

/// An answer "leading", as an application sees it.
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

/// What in one answer contradicts the rest of it.
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
            "{election}: {count} answers, and {} of them leading, show nothing",
            claims.len()
        ),
    };
    (count < FEWEST_ANSWERS || !promised).then(fault)
}

/// A single look at each claim in the order of their beginning is enough: where any two terms overlap,
/// some claim also overlaps the one that reaches furthest of those before it.
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
                detail: format!("both lead: {other}; {claim}"),
            });
        }
        if furthest.is_none_or(|other| other.until < claim.until) {
            furthest = Some(claim);
        }
    }
    faults
}

/// Compares each claim with the largest token of those answered before it was asked for: of two questions
/// at the same time nobody can tell which answer was made first.
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
    let lie = answers
        .iter()
        .filter(later)
        .find(|answer| answer.said().is_some_and(|said| said.body.is_leader))?;
    let detail =
        format!("{identity} was heard leading, asked {:?}, although at {since:?} {why}", lie.asked);
    Some(Fault { rule: Rule::Silence, detail })
}
