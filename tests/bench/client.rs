//! A blocking HTTP client with one kept connection. It does as little work as possible, because it
//! shares two cores with the server that it measures.

use crate::Result;
use serde_json::Value;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const REQUEST: &[u8] = b"GET /leader HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";

/// The request of an observer, to which Baton promises nothing. Peers ignore the query.
const OBSERVE: &[u8] = b"GET /leader?promise=none HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";

/// Longer than any answer, on any machine.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: [u8; 4096],
}

#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Connection {
    pub(crate) fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, buffer: [0; 4096] })
    }

    /// Requests `/leader`, and reads the whole answer.
    pub(crate) fn get_leader(&mut self) -> Result<Answer<'_>> {
        self.answer(REQUEST)
    }

    fn answer(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        let (head, end) = loop {
            if let Some((head, end)) = bounds(&self.buffer[..filled])?
                && end <= filled
            {
                break (head, end);
            }
            match self.stream.read(&mut self.buffer[filled..]) {
                Ok(0) => return Err("the server closed the connection before its answer".into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(format!("no answer within {TIMEOUT:?}").into());
                }
                Err(error) => return Err(error.into()),
            }
        };
        // HTTP/1.1 200 OK
        Ok(Answer { status: &self.buffer[9..12], body: &self.buffer[head..end] })
    }

    /// The leader's identity, as far as this candidate knows it.
    pub(crate) fn leader(&mut self) -> Result<Option<String>> {
        let body: Value = serde_json::from_slice(self.answer(OBSERVE)?.body)?;
        Ok(body["leader"].as_str().map(str::to_owned))
    }

    /// Requests `/leader` of a server that has to answer 200.
    pub(crate) fn expect_leading(&mut self) -> Result<()> {
        match self.get_leader()?.status {
            b"200" => Ok(()),
            status => {
                Err(format!("the leader answered {}", String::from_utf8_lossy(status)).into())
            }
        }
    }

    /// The token of a server that has to answer 200.
    pub(crate) fn token(&mut self) -> Result<String> {
        let body: Value = serde_json::from_slice(self.get_leader()?.body)?;
        let token = body["token"].as_str().ok_or("the leader answered without a token")?;
        Ok(token.to_owned())
    }

    /// Voids the promises that [`Self::token`] and others of this client got.
    pub(crate) fn post_done(&mut self, token: &str) -> Result<()> {
        let request = format!(
            "POST /done?token={token} HTTP/1.1\r\nhost: 127.0.0.1\r\nbaton-request: 1\r\n\
             content-length: 0\r\n\r\n"
        );
        match self.answer(request.as_bytes())?.status {
            b"204" => Ok(()),
            status => Err(format!("/done answered {}", String::from_utf8_lossy(status)).into()),
        }
    }
}

/// The body's beginning and end, once the head is complete.
fn bounds(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let mut lines = std::str::from_utf8(&bytes[..head])?.split("\r\n");
    if lines.next().is_some_and(|status| status.contains(" 204 ")) {
        return Ok(Some((head + 4, head + 4))); // such an answer has no length
    }
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim())
    });
    let length: usize = length.ok_or("the answer has no length")?.parse()?;
    Ok(Some((head + 4, head + 4 + length)))
}
