//! The bodies of an API server's replies: a whole one, or one line after another, none above a
//! bound.
//!
//! Touches kube's client. Any writer of a Lease decides how large it is, so nothing is read beyond
//! [`LARGEST`], and a line of a watch is dropped as soon as the next one is asked for.

use crate::store::kubernetes::refusal::CallError;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::Response;
use hyper::body::Bytes;
use kube::client::Body;
use std::mem::replace;

/// The largest object that is read, in bytes: a Lease of an election has less than one thousand.
pub(super) const LARGEST: usize = 64 * 1024;

/// The whole body of a reply.
pub(super) async fn whole(response: Response<Body>) -> Result<Bytes, CallError> {
    match Limited::new(response.into_body(), LARGEST).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(CallError::TooLarge),
        Err(error) => Err(CallError::Transport(kube::Error::Service(error))),
    }
}

/// The lines of a reply, as they come.
pub(super) struct Lines {
    body: Body,
    /// The bytes received of the next lines.
    held: Vec<u8>,
}

impl Lines {
    pub(super) fn of(response: Response<Body>) -> Self {
        Self { body: response.into_body(), held: Vec::new() }
    }

    /// The next line; `None` at the end. A future that is dropped loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        loop {
            if let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
                let rest = self.held.split_off(end + 1);
                return Ok(Some(replace(&mut self.held, rest)));
            }
            if self.held.len() > LARGEST {
                return Err(CallError::TooLarge);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.held.extend(frame.into_data().iter().flatten()),
                Some(Err(error)) => return Err(CallError::Transport(error)),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn answer(body: &str) -> Response<Body> {
        Response::new(Body::from(body.as_bytes().to_vec()))
    }

    #[test]
    fn body_is_read_up_to_the_bound_and_no_further() {
        let read =
            |length| whole(answer(&"x".repeat(length))).now_or_never().expect("it is all there");
        assert_eq!(read(LARGEST).unwrap().len(), LARGEST);
        assert!(matches!(read(LARGEST + 1), Err(CallError::TooLarge)));
    }

    #[test]
    fn lines_are_bounded_each() {
        let long = "x".repeat(LARGEST);
        let mut lines = Lines::of(answer(&format!("a\n{long}\n\n{long}x")));
        let mut next = || lines.next().now_or_never().expect("it is all there");
        assert_eq!(next().unwrap(), Some(b"a\n".to_vec()));
        assert_eq!(next().unwrap().map(|line| line.len()), Some(LARGEST + 1), "with its end");
        assert_eq!(next().unwrap(), Some(b"\n".to_vec()));
        assert!(matches!(next(), Err(CallError::TooLarge)));
    }
}
