//! Interprets the answers to the subcommands' queries.
//!
//! Pure. Start with [`Verdict`]. Another program may listen at the queried address, so only an
//! answer in Baton's format counts as yes or no.

use hyper::StatusCode;
use serde::Deserialize;

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Baton answered yes.
    Yes,
    /// Baton answered no.
    No,
    /// The answer is not in the format that Baton uses for this query.
    NotBaton,
}

/// The fields of `/leader` that decide between yes and no.
#[derive(Deserialize)]
struct LeaderReply {
    standing: String,
    is_leader: bool,
    token: Option<String>,
}

/// The body of an error.
#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "error")]
    _error: String,
}

/// Interprets an answer of `/leader`. A yes needs a token, and a no must not have one.
pub fn interpret_leader(status: StatusCode, body: &str) -> Verdict {
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

/// Interprets an answer of `/healthz` or `/readyz`.
pub fn interpret_health(status: StatusCode, body: &str) -> Verdict {
    match status {
        StatusCode::OK if body.trim_end() == "ok" => Verdict::Yes,
        StatusCode::SERVICE_UNAVAILABLE if is_error(body) => Verdict::No,
        _ => Verdict::NotBaton,
    }
}

/// Interprets an answer of `/stopping`.
pub fn interpret_stopping(status: StatusCode, body: &str) -> Verdict {
    match status {
        StatusCode::NO_CONTENT => Verdict::Yes,
        StatusCode::FORBIDDEN if is_error(body) => Verdict::No,
        _ => Verdict::NotBaton,
    }
}

/// The fields of `/resign` that decide between yes and no.
#[derive(Deserialize)]
struct ResignReply {
    released: Option<bool>,
    token: String,
}

/// Interprets an answer of `/resign`. Only a confirmed release is a yes.
pub fn interpret_resign(status: StatusCode, body: &str) -> Verdict {
    let reply = serde_json::from_str(body).ok();
    let released = reply.filter(|ResignReply { token, .. }| is_token(token));
    match (status, released.map(|reply| reply.released)) {
        (StatusCode::OK, Some(Some(true))) => Verdict::Yes,
        (StatusCode::ACCEPTED, Some(None)) => Verdict::No,
        (StatusCode::BAD_REQUEST | StatusCode::CONFLICT | StatusCode::FORBIDDEN, None)
            if is_error(body) =>
        {
            Verdict::No
        }
        _ => Verdict::NotBaton,
    }
}

fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u128>().is_ok()
}

fn is_error(body: &str) -> bool {
    serde_json::from_str::<ErrorBody>(body).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: StatusCode = StatusCode::OK;
    const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
    const LEADS: &str = r#"{"standing":"leading","is_leader":true,"token":"7"}"#;
    const FOLLOWS: &str = r#"{"standing":"following","is_leader":false,"token":null}"#;

    #[test]
    fn leader_has_a_token_and_follower_has_none() {
        assert_eq!(interpret_leader(OK, LEADS), Verdict::Yes);
        assert_eq!(interpret_leader(UNAVAILABLE, FOLLOWS), Verdict::No);
    }

    #[test]
    fn contradictory_answer_is_not_baton() {
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
            assert_eq!(interpret_leader(status, body), Verdict::NotBaton, "{status} {body}");
        }
    }

    #[test]
    fn healthy_is_ok_and_unhealthy_is_an_error_body() {
        assert_eq!(interpret_health(OK, "ok\n"), Verdict::Yes);
        assert_eq!(interpret_health(UNAVAILABLE, r#"{"error":"not yet"}"#), Verdict::No);
        assert_eq!(interpret_health(OK, "<html>welcome</html>"), Verdict::NotBaton);
        assert_eq!(interpret_health(UNAVAILABLE, "no healthy upstream"), Verdict::NotBaton);
        assert_eq!(
            interpret_health(StatusCode::NOT_FOUND, r#"{"error":"none"}"#),
            Verdict::NotBaton
        );
    }

    #[test]
    fn only_a_confirmed_release_is_a_handover() {
        let resign = interpret_resign;
        assert_eq!(resign(OK, r#"{"released":true,"token":"7"}"#), Verdict::Yes);
        assert_eq!(resign(StatusCode::ACCEPTED, r#"{"released":null,"token":"7"}"#), Verdict::No);
        assert_eq!(resign(StatusCode::CONFLICT, r#"{"error":"it does not lead"}"#), Verdict::No);
        for (status, body) in [
            (OK, r#"{"released":null,"token":"7"}"#),
            (OK, r#"{"released":true}"#),
            (StatusCode::ACCEPTED, r#"{"released":true,"token":"7"}"#),
            (StatusCode::NO_CONTENT, ""),
            (StatusCode::CONFLICT, "conflict"),
        ] {
            assert_eq!(resign(status, body), Verdict::NotBaton, "{status} {body}");
        }
    }

    #[test]
    fn stopping_succeeds_is_refused_or_is_not_baton() {
        assert_eq!(interpret_stopping(StatusCode::NO_CONTENT, ""), Verdict::Yes);
        assert_eq!(interpret_stopping(StatusCode::FORBIDDEN, r#"{"error":"no"}"#), Verdict::No);
        assert_eq!(interpret_stopping(OK, "stopping\n"), Verdict::NotBaton);
        assert_eq!(interpret_stopping(StatusCode::FORBIDDEN, "forbidden"), Verdict::NotBaton);
    }
}
