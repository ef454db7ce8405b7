//! Tests of the checker: a correct history passes, and each violation is found.

use super::{Answer, Body, History, Moment, Outcome, Property, Silence, Statement, check};

#[test]
fn correct_history_passes() {
    assert_eq!(properties(&correct()), []);
}

#[test]
fn overlapping_terms_are_found() {
    let mut history = correct();
    // The last promise of `a` ends at 295 ms.
    history.answers.push(leading("b", 7, 290, 294));
    assert_eq!(properties(&history), [Property::Exclusion]);
}

#[test]
fn promise_ends_its_validity_after_the_request() {
    let mut history = correct();
    // Requested before the last promise of `a` ended, but answered after.
    history.answers.push(leading("b", 7, 290, 296));
    // A promise that ended before its answer arrived is none.
    history.answers.push(leading("a", 5, 190, 500));
    history.answers.push(leading("b", 7, 480, 490));
    assert_eq!(properties(&history), []);
}

#[test]
fn overlap_with_a_longer_earlier_claim_is_found() {
    let mut history = correct();
    let mut long = leading("a", 5, 20, 21);
    statement(&mut long).body.valid_for_ms = 1000;
    history.answers.push(long);
    history.answers.push(leading("b", 7, 900, 901));
    assert_eq!(properties(&history), [Property::Exclusion]);
}

#[test]
fn token_that_changes_within_a_term_is_found() {
    let mut history = correct();
    history.answers.push(leading("a", 6, 200, 201));
    assert_eq!(properties(&history), [Property::Exclusion]);
}

#[test]
fn smaller_or_reused_token_is_found() {
    for token in [4, 5] {
        let mut history = correct();
        history.answers.push(leading("b", token, 400, 401));
        assert_eq!(properties(&history), [Property::Token], "token {token} after 5");
    }
}

#[test]
fn concurrent_requests_have_no_order() {
    let mut history = correct();
    // The answer of `b` came late, so it may be older than that of `a`.
    history.answers.push(leading("b", 7, 290, 700));
    history.answers.push(leading("a", 5, 300, 301));
    assert_eq!(properties(&history), []);
}

#[test]
fn leading_answer_after_the_end_is_found() {
    let mut history = correct();
    let since = Moment::from_ms(150);
    history.silences.push(Silence {
        identity: "a_1".to_owned(),
        since,
        why: "it had ended".to_owned(),
    });
    assert_eq!(properties(&history), [Property::Silence]);
}

#[test]
fn history_without_promises_or_with_few_answers_is_void() {
    let mut unled = correct();
    unled.answers.retain(|answer| answer.promised_until().is_none());
    assert_eq!(properties(&unled), [Property::Void]);

    let mut short = correct();
    short.answers.truncate(super::FEWEST_ANSWERS - 1);
    assert_eq!(properties(&short), [Property::Void]);

    let mut forgotten = correct();
    forgotten.elections.insert("bills".to_owned());
    assert_eq!(properties(&forgotten), [Property::Void]);
}

#[test]
fn inconsistent_answer_is_found() {
    type Corrupt = fn(&mut Statement);
    let corruptions: [Corrupt; 8] = [
        |statement| statement.status = 503,
        |statement| statement.body.token = None,
        |statement| "x".clone_into(statement.body.token.get_or_insert_default()),
        |statement| statement.fencing_token = None,
        |statement| "resigning".clone_into(&mut statement.body.standing),
        |statement| statement.body.valid_for_ms = 0,
        |statement| statement.body.leader = None,
        |statement| statement.body.is_leader = false,
    ];
    for (number, corrupt) in corruptions.into_iter().enumerate() {
        let mut history = correct();
        let last = history.answers.last_mut().expect("it is not empty");
        corrupt(statement(last));
        assert_eq!(properties(&history), [Property::Shape], "corruption {number}");
    }
}

#[test]
fn malformed_answer_is_a_violation_and_a_missing_one_is_not() {
    let mut history = correct();
    let mut answer = leading("a", 5, 195, 196);
    answer.outcome = Outcome::Unanswered("connection refused".to_owned());
    history.answers.push(answer.clone());
    assert_eq!(properties(&history), []);

    answer.outcome = Outcome::Malformed("not JSON".to_owned());
    history.answers.push(answer);
    assert_eq!(properties(&history), [Property::Shape]);
}

/// `a` leads with token 5 from 0 to 195 ms, and each answer is good for 100 ms; `b` follows.
fn correct() -> History {
    let answers = (0..20).flat_map(|n| {
        [following("b", 10 * n + 4, 10 * n + 6), leading("a", 5, 10 * n + 5, 10 * n + 7)]
    });
    History {
        elections: ["orders".to_owned()].into(),
        answers: answers.collect(),
        silences: Vec::new(),
    }
}

fn leading(name: &str, token: u64, asked_ms: u64, answered_ms: u64) -> Answer {
    let identity = format!("{name}_1");
    let body = Body {
        election: "orders".to_owned(),
        identity: identity.clone(),
        standing: "leading".to_owned(),
        is_leader: true,
        leader: Some(identity),
        token: Some(token.to_string()),
        valid_for_ms: 100,
    };
    let statement = Statement { status: 200, fencing_token: body.token.clone(), body };
    answer(name, asked_ms, answered_ms, statement)
}

fn following(name: &str, asked_ms: u64, answered_ms: u64) -> Answer {
    let body = Body {
        election: "orders".to_owned(),
        identity: format!("{name}_1"),
        standing: "following".to_owned(),
        is_leader: false,
        leader: Some("a_1".to_owned()),
        token: None,
        valid_for_ms: 0,
    };
    answer(name, asked_ms, answered_ms, Statement { status: 503, fencing_token: None, body })
}

fn answer(name: &str, asked_ms: u64, answered_ms: u64, statement: Statement) -> Answer {
    Answer {
        candidate: name.to_owned(),
        asked: Moment::from_ms(asked_ms),
        answered: Moment::from_ms(answered_ms),
        relied_on: true,
        outcome: Outcome::Answered(statement),
    }
}

fn statement(answer: &mut Answer) -> &mut Statement {
    match &mut answer.outcome {
        Outcome::Answered(statement) => statement,
        Outcome::Malformed(_) | Outcome::Unanswered(_) => unreachable!("the test made an answer"),
    }
}

fn properties(history: &History) -> Vec<Property> {
    check(history).iter().map(|violation| violation.property).collect()
}
