//! Interprets the answer to a subcommand's question, and tells whether it is Baton's at all.
//!
//! Pure. Anything can listen at the address that a subcommand asks: only an answer that has Baton's
//! form is taken for a yes or a no. Start at [`Verdict`].

use hyper::StatusCode;
use serde::Deserialize;

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Baton says yes.
    Yes,
    /// Baton says no.
    No,
    /// The answer does not have the form of Baton's to this question.
    NotBaton,
}

/// The fields of `/leader` that a yes and a no depend on.
#[derive(Deserialize)]
struct LeaderReply {
    standing: String,
    is_leader: bool,
    token: Option<String>,
}

/// The body of an error.
#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "error")]
    _error: String,
}

/// An answer of `/leader`: a yes names a token, and a no says that this process does not lead.
pub fn about_leading(status: StatusCode, body: &str) -> Verdict {
    let Ok(LeaderReply { standing, is_leader, token }) = serde_json::from_str(body) else {
        return Verdict::NotBaton;
    };
    match (status, is_leader, token) {
        (StatusCode::OK, true, Some(token)) if standing == "leading" && is_token(&token) => {
            Verdict::Yes
        }
        (StatusCode::SERVICE_UNAVAILABLE, false, None) => Verdict::No,
        _ => Verdict::NotBaton,
    }
}

/// An answer of `/healthz` or `/readyz`.
pub fn about_health(status: StatusCode, body: &str) -> Verdict {
    match status {
        StatusCode::OK if body.trim_end() == "ok" => Verdict::Yes,
        StatusCode::SERVICE_UNAVAILABLE if is_refusal(body) => Verdict::No,
        _ => Verdict::NotBaton,
    }
}

/// An answer of `/stopping`.
pub fn about_stopping(status: StatusCode, body: &str) -> Verdict {
    match status {
        StatusCode::NO_CONTENT => Verdict::Yes,
        StatusCode::FORBIDDEN if is_refusal(body) => Verdict::No,
        _ => Verdict::NotBaton,
    }
}

fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u128>().is_ok()
}

fn is_refusal(body: &str) -> bool {
    serde_json::from_str::<Refusal>(body).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: StatusCode = StatusCode::OK;
    const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
    const LEADS: &str = r#"{"standing":"leading","is_leader":true,"token":"7"}"#;
    const FOLLOWS: &str = r#"{"standing":"following","is_leader":false,"token":null}"#;

    #[test]
    fn leading_takes_a_token_and_following_takes_none() {
        assert_eq!(about_leading(OK, LEADS), Verdict::Yes);
        assert_eq!(about_leading(UNAVAILABLE, FOLLOWS), Verdict::No);
    }

    #[test]
    fn an_answer_that_contradicts_itself_is_not_ours() {
        for (status, body) in [
            (OK, FOLLOWS),
            (UNAVAILABLE, LEADS),
            (OK, r#"{"standing":"leading","is_leader":true,"token":null}"#),
            (OK, r#"{"standing":"leading","is_leader":true}"#),
            (OK, r#"{"standing":"leading","is_leader":true,"token":"+7"}"#),
            (OK, r#"{"standing":"leading","is_leader":true,"token":""}"#),
            (OK, r#"{"standing":"leading","is_leader":"true","token":"7"}"#),
            (OK, r#"{"standing":"following","is_leader":true,"token":"7"}"#),
            (OK, "ok\n"),
            (OK, ""),
            (UNAVAILABLE, "<html>no healthy upstream</html>"),
            (UNAVAILABLE, "{}"),
            (StatusCode::NOT_FOUND, r#"{"error":"there is nothing at this path"}"#),
        ] {
            assert_eq!(about_leading(status, body), Verdict::NotBaton, "{status} {body}");
        }
    }

    #[test]
    fn health_is_a_word_and_illness_an_error() {
        assert_eq!(about_health(OK, "ok\n"), Verdict::Yes);
        assert_eq!(about_health(UNAVAILABLE, r#"{"error":"not yet"}"#), Verdict::No);
        assert_eq!(about_health(OK, "<html>welcome</html>"), Verdict::NotBaton);
        assert_eq!(about_health(UNAVAILABLE, "no healthy upstream"), Verdict::NotBaton);
        assert_eq!(about_health(StatusCode::NOT_FOUND, r#"{"error":"none"}"#), Verdict::NotBaton);
    }

    #[test]
    fn stopping_is_done_refused_or_not_ours() {
        assert_eq!(about_stopping(StatusCode::NO_CONTENT, ""), Verdict::Yes);
        assert_eq!(about_stopping(StatusCode::FORBIDDEN, r#"{"error":"no"}"#), Verdict::No);
        assert_eq!(about_stopping(OK, "stopping\n"), Verdict::NotBaton);
        assert_eq!(about_stopping(StatusCode::FORBIDDEN, "forbidden"), Verdict::NotBaton);
    }
}
