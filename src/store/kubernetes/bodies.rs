//! The body of a watch, line by line.
//!
//! Touches kube's client. Start with [`BodyLines`]. Anyone who may write a Lease decides how large it
//! is, so a watch holds one line of at most [`MAX_OBJECT_BYTES`].

use crate::store::kubernetes::lease_object::MAX_OBJECT_BYTES;
use crate::store::kubernetes::refusal::LeaseError;
use crate::store::line_buffer::LineBuffer;
use http_body_util::BodyExt as _;
use hyper::Response;
use kube::client::Body;
use tokio::task::consume_budget;

/// The lines of a response, as they arrive.
pub(super) struct BodyLines {
    body: Body,
    buffer: LineBuffer,
}

impl BodyLines {
    pub(super) fn new(response: Response<Body>) -> Self {
        Self { body: response.into_body(), buffer: LineBuffer::default() }
    }

    /// The next line; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, LeaseError> {
        // Many lines may arrive at once, and other tasks must run between them.
        consume_budget().await;
        loop {
            if let Some(line) = self.buffer.take_line() {
                return Ok(Some(line));
            }
            if self.buffer.len() > MAX_OBJECT_BYTES {
                return Err(LeaseError::TooLarge);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Err(LeaseError::Transport(error)),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn response(body: &str) -> Response<Body> {
        Response::new(Body::from(body.as_bytes().to_vec()))
    }

    #[test]
    fn each_line_is_limited() {
        let long = "x".repeat(MAX_OBJECT_BYTES);
        let mut lines = BodyLines::new(response(&format!("a\n{long}\n\n{long}x")));
        let mut next = || lines.next().now_or_never().expect("the body is complete");
        assert_eq!(next().unwrap(), Some(b"a\n".to_vec()));
        assert_eq!(
            next().unwrap().map(|line| line.len()),
            Some(MAX_OBJECT_BYTES + 1),
            "with its newline"
        );
        assert_eq!(next().unwrap(), Some(b"\n".to_vec()));
        assert!(matches!(next(), Err(LeaseError::TooLarge)));
    }
}
