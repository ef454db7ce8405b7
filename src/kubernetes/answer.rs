//! Answers of the API server: their bodies, read up to a limit, and what an error says about one
//! object.
//!
//! Touches kube's client. Start with [`read_body`]. Anyone who may write an object decides how large
//! it is. A 404 has a meaning only if its body is the API server's own, since proxies answer 404 too.

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::Response;
use hyper::body::Bytes;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::reason;

/// Why a body cannot be used.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// It is longer than the limit.
    TooLarge,
    /// The connection failed.
    Broken(kube::Error),
}

/// Reads the whole body of a response, of at most `limit` bytes.
pub(crate) async fn read_body(response: Response<Body>, limit: usize) -> Result<Bytes, BodyError> {
    match Limited::new(response.into_body(), limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Err(error) => Err(BodyError::Broken(kube::Error::Service(error))),
    }
}

/// Whether the API server says that this object does not exist. `kind` is the resource, such as
/// `leases`.
pub(crate) fn is_missing(status: &Status, kind: &str, name: &str) -> bool {
    let is_named =
        status.details.as_ref().is_some_and(|details| details.kind == kind && details.name == name);
    status.code == 404 && status.reason == reason::NOT_FOUND && is_named
}

/// Whether the API server says that a write lost a race: the object has changed, or exists.
pub(crate) fn is_conflict(status: &Status) -> bool {
    status.code == 409
        && (status.reason == reason::CONFLICT || status.reason == reason::ALREADY_EXISTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn body_is_read_up_to_the_limit() {
        let read = |length| {
            let response = Response::new(Body::from(vec![b'x'; length]));
            read_body(response, 100).now_or_never().expect("the body is complete")
        };
        assert_eq!(read(100).unwrap().len(), 100);
        assert!(matches!(read(101), Err(BodyError::TooLarge)));
    }
}
