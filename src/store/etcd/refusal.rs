//! Errors of etcd and its gateway: what they mean for a request, and their remedies.
//!
//! Pure. Start with [`Failure::of`]. An error has two shapes: `{"error", "message", "code"}` up to
//! 3.5, `{"code", "message"}` from 3.6 on. Anything else is the page of a proxy, or plain text.

use crate::store::StoreError;
use crate::store::etcd::connection::ConnectionError;
use crate::store::etcd::messages::InvalidAnswer;
use crate::store::etcd::record_value::RecordValueError;
use baton_election::text::one_line;
use hyper::StatusCode;
use serde::Deserialize;

/// The largest answer that is read, in bytes. Anyone who may write the key decides how large it is.
pub(super) const MAX_ANSWER_BYTES: usize = 64 << 10;

/// The longest excerpt of an error, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

/// An answer other than 200.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The token has expired or was never sent. The request was not applied.
    TokenRefused(String),
    /// etcd knows no users, so there is no token to get.
    AuthenticationOff,
    /// Everything else.
    Other(Refusal),
}

/// Why etcd did not do what was asked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The gateway ignores the user in a client certificate.
    #[error(
        "etcd's HTTP gateway accepts no client certificate with a common name while authentication \
         is on: issue the certificate without a common name (CN), with the names in its SAN, and \
         pass --etcd-user-file"
    )]
    CommonName,
    /// The gateway, which is a client of its own member, is refused by it.
    #[error(
        "etcd's HTTP gateway cannot connect to its own member, which refuses the gateway's \
         certificate: with --client-cert-auth, issue the members' certificates with the usage \
         clientAuth besides serverAuth"
    )]
    GatewayCertificate,
    /// There is no gateway on this port.
    #[error(
        "404: the endpoint has no /v3/ gateway: start etcd 3.4 or later without \
         --enable-grpc-gateway=false, and name its client URL in --etcd-endpoints"
    )]
    NoGateway,
    /// The `Host` header is not one that etcd serves.
    #[error(
        "421: etcd does not serve this host name: add it to etcd's --host-whitelist, or use TLS"
    )]
    HostRefused,
    /// The database is full.
    #[error(
        "etcd refuses writes, because its database is full (NOSPACE): compact and defragment it, \
         then run etcdctl alarm disarm: {0}"
    )]
    NoSpace(String),
    /// The role lacks a right.
    #[error(
        "etcd refused the request: {0}; the user needs readwrite on the election's keys: run what \
         baton rbac --etcd-user NAME prints"
    )]
    Denied(String),
    /// The user or the password is wrong.
    #[error("etcd refused the user and password in --etcd-user-file: {0}")]
    WrongPassword(String),
    /// The answer leaves the outcome unknown.
    #[error("etcd answered {code}: {message}")]
    Status {
        /// The HTTP status.
        code: u16,
        /// The text of the answer.
        message: String,
    },
}

/// Why a request has no usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EtcdError {
    #[error("{endpoint} did not do what was asked")]
    Refused {
        endpoint: String,
        #[source]
        refusal: Refusal,
    },
    #[error(
        "etcd requires a user: pass --etcd-user-file FILE with user:password in one line ({0})"
    )]
    NoUser(String),
    #[error("etcd refused a token that it had just issued: {0}")]
    TokenRefused(String),
    #[error(
        "{endpoint} belongs to another cluster ({found:x}) than the first endpoint that answered \
         ({pinned:x}): name the members of one cluster; after a restore, stop every old member, \
         and restart this candidate or wait until most endpoints belong to the new cluster"
    )]
    OtherCluster { endpoint: String, pinned: u64, found: u64 },
    #[error("the answer of {endpoint} is not etcd's")]
    NotEtcd {
        endpoint: String,
        #[source]
        source: InvalidAnswer,
    },
    #[error("the value of {key} is not a record: delete the key, or pass another --etcd-prefix")]
    Foreign {
        key: String,
        #[source]
        source: RecordValueError,
    },
    #[error(
        "no etcd member could be reached: {0}; check that etcd runs at each URL in \
         --etcd-endpoints, and that no firewall or network policy is in between"
    )]
    NoMember(ConnectionErrors),
    #[error("a member did not answer the request")]
    NoAnswer(#[source] ConnectionError),
    #[error("a member's answer is unusable")]
    TooLarge(#[source] ConnectionError),
}

/// Why no endpoint answered; lists the reasons.
#[derive(Debug)]
pub(crate) struct ConnectionErrors(pub(super) Vec<ConnectionError>);

impl std::fmt::Display for ConnectionErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{}", crate::error_chain::ErrorChain(error))?;
        }
        Ok(())
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ErrorBody {
    code: u8,
    message: String,
    error: String,
}

/// Codes of gRPC (`google.rpc.Code`).
const INVALID_ARGUMENT: u8 = 3;
const PERMISSION_DENIED: u8 = 7;
const RESOURCE_EXHAUSTED: u8 = 8;
const FAILED_PRECONDITION: u8 = 9;
const UNAVAILABLE: u8 = 14;
const UNAUTHENTICATED: u8 = 16;

/// Texts of etcd's `api/v3rpc/rpctypes` that codes do not tell apart.
const NO_USER: &str = "etcdserver: user name is empty";
const OLD_AUTH: &str = "etcdserver: revision of auth store is old";
const WRONG_PASSWORD: &str = "etcdserver: authentication failed";
const AUTH_OFF: &str = "etcdserver: authentication is not enabled";
const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";
/// The alert of Go's TLS server, in an error of the gateway's connection.
const BAD_CERTIFICATE: &str = "remote error: tls: bad certificate";

impl Failure {
    /// Interprets an answer other than 200.
    pub fn of(status: u16, body: &[u8]) -> Self {
        let parsed: Option<ErrorBody> = serde_json::from_slice(body).ok();
        let is_json = parsed.is_some();
        let ErrorBody { code, message, error } = parsed.unwrap_or_default();
        let message = if message.is_empty() { error } else { message };
        let text = if is_json { message } else { String::from_utf8_lossy(body).into_owned() };
        let excerpt = excerpt(&text);
        match (code, status) {
            (UNAUTHENTICATED, _) => Self::TokenRefused(excerpt),
            (INVALID_ARGUMENT, _) if text.starts_with(NO_USER) || text.starts_with(OLD_AUTH) => {
                Self::TokenRefused(excerpt)
            }
            (INVALID_ARGUMENT, _) if text.starts_with(WRONG_PASSWORD) => {
                Self::Other(Refusal::WrongPassword(excerpt))
            }
            (FAILED_PRECONDITION, _) if text.starts_with(AUTH_OFF) => Self::AuthenticationOff,
            (PERMISSION_DENIED, _) => Self::Other(Refusal::Denied(excerpt)),
            (RESOURCE_EXHAUSTED, _) if text.starts_with(NO_SPACE) => {
                Self::Other(Refusal::NoSpace(excerpt))
            }
            (UNAVAILABLE, _) if text.contains(BAD_CERTIFICATE) => {
                Self::Other(Refusal::GatewayCertificate)
            }
            (0, 400) if text.starts_with("CommonName of client") => {
                Self::Other(Refusal::CommonName)
            }
            (0, 421) => Self::Other(Refusal::HostRefused),
            (0 | 5, 404) => Self::Other(Refusal::NoGateway),
            (_, code) => Self::Other(Refusal::Status { code, message: excerpt }),
        }
    }

    /// Interprets the reason why a watch was canceled, or never began:
    /// `rpc error: code = Unauthenticated desc = etcdserver: invalid auth token`.
    pub(super) fn of_watch(reason: &str) -> Self {
        let (code, text) = reason
            .strip_prefix("rpc error: code = ")
            .and_then(|rest| rest.split_once(" desc = "))
            .unwrap_or(("", reason));
        let message = excerpt(text);
        match code {
            "Unauthenticated" => Self::TokenRefused(message),
            "PermissionDenied" => Self::Other(Refusal::Denied(message)),
            _ if text.starts_with(NO_USER) || text.starts_with(OLD_AUTH) => {
                Self::TokenRefused(message)
            }
            _ => Self::Other(Refusal::Status {
                code: StatusCode::SERVICE_UNAVAILABLE.as_u16(),
                message,
            }),
        }
    }
}

impl Failure {
    /// The error of a request that `endpoint` answered with this.
    pub(super) fn into_error(self, endpoint: String) -> EtcdError {
        match self {
            Self::TokenRefused(text) if text == NO_USER => EtcdError::NoUser(text),
            Self::TokenRefused(text) => EtcdError::TokenRefused(text),
            Self::AuthenticationOff => EtcdError::TokenRefused(AUTH_OFF.to_owned()),
            Self::Other(refusal) => EtcdError::Refused { endpoint, refusal },
        }
    }
}

impl Refusal {
    /// Whether trying sooner, or elsewhere, does not help.
    const fn is_permanent(&self) -> bool {
        match self {
            Self::CommonName
            | Self::GatewayCertificate
            | Self::NoGateway
            | Self::HostRefused
            | Self::Denied(_)
            | Self::WrongPassword(_) => true,
            Self::NoSpace(_) | Self::Status { .. } => false,
        }
    }
}

impl From<EtcdError> for StoreError {
    fn from(error: EtcdError) -> Self {
        match &error {
            EtcdError::NoUser(_) | EtcdError::OtherCluster { .. } => Self::Refused(Box::new(error)),
            EtcdError::Refused { refusal, .. } if refusal.is_permanent() => {
                Self::Refused(Box::new(error))
            }
            EtcdError::Foreign { .. } | EtcdError::TooLarge(_) => Self::Unusable(Box::new(error)),
            EtcdError::Refused { .. }
            | EtcdError::TokenRefused(_)
            | EtcdError::NotEtcd { .. }
            | EtcdError::NoMember(_)
            | EtcdError::NoAnswer(_) => Self::Unreachable(Box::new(error)),
        }
    }
}

/// The beginning of an untrusted text, on one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line(&line).chars().take(MAX_EXCERPT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Failure {
        Failure::of(status, body.as_bytes())
    }

    fn is_refused(failure: Failure) -> bool {
        matches!(failure.into_error("e".to_owned()).into(), StoreError::Refused(_))
    }

    #[test]
    fn both_shapes_of_an_error_are_read() {
        let old = r#"{"error":"etcdserver: invalid auth token","message":"etcdserver: invalid auth token","code":16}"#;
        let new = r#"{"code":16, "message":"etcdserver: invalid auth token"}"#;
        for body in [old, new] {
            let expected = Failure::TokenRefused("etcdserver: invalid auth token".to_owned());
            assert_eq!(of(401, body), expected, "{body}");
        }
        let only_error = r#"{"error":"etcdserver: permission denied","code":7}"#;
        let denied = Failure::Other(Refusal::Denied("etcdserver: permission denied".to_owned()));
        assert_eq!(of(403, only_error), denied);
    }

    /// Code 3 also reports invalid arguments and a wrong password, which no new token remedies.
    #[test]
    fn two_texts_of_code_3_ask_for_a_token() {
        for text in [NO_USER, OLD_AUTH] {
            let body = format!(r#"{{"code":3,"message":"{text}"}}"#);
            assert_eq!(of(400, &body), Failure::TokenRefused(text.to_owned()));
        }
        let wrong = r#"{"code":3,"message":"etcdserver: authentication failed, invalid user ID or password"}"#;
        assert!(matches!(of(400, wrong), Failure::Other(Refusal::WrongPassword(_))));
        let other = r#"{"code":3,"message":"etcdserver: key is not provided"}"#;
        assert!(matches!(of(400, other), Failure::Other(Refusal::Status { code: 400, .. })));
    }

    #[test]
    fn each_trap_of_the_gateway_names_its_remedy() {
        let common_name = "CommonName of client sending a request against gateway will be ignored";
        let bad_certificate = r#"{"code":14,"message":"connection error: desc = \"error reading server preface: remote error: tls: bad certificate\""}"#;
        for (failure, remedy) in [
            (of(400, common_name), "without a common name"),
            (of(503, bad_certificate), "clientAuth"),
            (of(404, "404 page not found"), "--enable-grpc-gateway"),
            (of(404, r#"{"code":5,"message":"Not Found"}"#), "--enable-grpc-gateway"),
            (of(421, "host not allowed"), "--host-whitelist"),
            (of(403, r#"{"code":7,"message":"etcdserver: permission denied"}"#), "baton rbac"),
        ] {
            let Failure::Other(refusal) = &failure else { panic!("{failure:?}") };
            assert!(refusal.to_string().contains(remedy), "{refusal}");
            assert!(is_refused(failure), "{remedy}");
        }
        let full = r#"{"code":8,"message":"etcdserver: mvcc: database space exceeded"}"#;
        let Failure::Other(refusal) = of(429, full) else { panic!("it is no matter of tokens") };
        assert!(refusal.to_string().contains("alarm disarm"), "{refusal}");
    }

    #[test]
    fn other_answers_leave_the_outcome_unknown() {
        for (status, body) in [
            (503, r#"{"code":14,"message":"etcdserver: request timed out"}"#),
            (503, r#"{"code":14,"message":"etcdserver: leader changed"}"#),
            (429, r#"{"code":8,"message":"etcdserver: too many requests"}"#),
            (429, r#"{"code":8,"message":"etcdserver: mvcc: database space exceeded"}"#),
            (500, "<html>…</html>"),
            (502, ""),
            (400, "Client sent an HTTP request to an HTTPS server."),
        ] {
            assert!(!is_refused(of(status, body)), "{status} {body}");
        }
    }

    #[test]
    fn canceled_watch_gives_its_reason_as_text() {
        let token = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
        let empty = "rpc error: code = InvalidArgument desc = etcdserver: user name is empty";
        for reason in [token, empty] {
            assert!(matches!(Failure::of_watch(reason), Failure::TokenRefused(_)), "{reason}");
        }
        let denied = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
        assert!(is_refused(Failure::of_watch(denied)));
        assert!(!is_refused(Failure::of_watch("etcdserver: no leader")));
    }

    #[test]
    fn user_is_asked_for_only_if_none_is_known() {
        let refused = |text: &str| Failure::TokenRefused(text.to_owned());
        assert!(is_refused(refused(NO_USER)), "no file names a user");
        assert!(!is_refused(refused("etcdserver: invalid auth token")), "the next call renews it");
    }
}
