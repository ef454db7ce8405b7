//! A stub of the sidecar, for answers that a real one rarely gives.
//!
//! Touches one loopback socket, served by one thread. Each answer closes its connection, so each
//! request gets the next answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

pub(crate) struct Answer {
    status: &'static str,
    /// The delay before the answer.
    after: Duration,
    content: Content,
}

/// The parts of an answer.
#[derive(Clone, Copy)]
enum Content {
    /// Baton's answer "leading".
    Leading { valid_for_ms: u64 },
    /// The body of another program, without Baton's header.
    Foreign(&'static str),
}

const fn answer(status: &'static str, after_ms: u64, valid_for_ms: u64) -> Answer {
    Answer {
        status,
        after: Duration::from_millis(after_ms),
        content: Content::Leading { valid_for_ms },
    }
}

const fn foreign(body: &'static str) -> Answer {
    Answer { status: "200 OK", after: Duration::ZERO, content: Content::Foreign(body) }
}

/// Answers that no loop may act on.
const WORTHLESS: [Answer; 9] = [
    // The status says: not leading.
    answer("503 Service Unavailable", 0, 2000),
    answer("500 Internal Server Error", 0, 2000),
    // After the loop's own timeout.
    answer("200 OK", 900, 2000),
    // Another program has the port.
    foreign("<html>welcome</html>"),
    foreign(""),
    foreign("{}"),
    foreign(r#"{"valid_for_ms":2000}"#),
    foreign(r#"{"standing":"following","is_leader":false,"token":"7","valid_for_ms":2000}"#),
    foreign(r#"{"standing":"leading","is_leader":true,"token":null,"valid_for_ms":2000}"#),
];

/// Answers that a loop may not act on if it reads `valid_for_ms`.
const SHORT: [Answer; 2] = [
    // Shorter than a step takes.
    answer("200 OK", 0, 90),
    // Nearly expired when it arrives, because it counts from before the request.
    answer("200 OK", 400, 450),
];

/// The stub's answers in order. Only the last is valid. The nth has the token n.
pub(crate) fn answers(reads_validity: bool) -> Vec<Answer> {
    let short = reads_validity.then_some(SHORT).into_iter().flatten();
    WORTHLESS.into_iter().chain(short).chain([answer("200 OK", 0, 2000)]).collect()
}

/// Starts a stub that gives each answer once, and returns its address.
pub(crate) fn start(answers: Vec<Answer>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let listen = listener.local_addr().expect("it is bound").to_string();
    thread::spawn(move || {
        for (token, answer) in (1..).zip(answers) {
            let mut stream = next_question(&listener);
            thread::sleep(answer.after);
            // The loop may have closed the connection after its timeout.
            stream.write_all(answer.to_http(token).as_bytes()).ok();
        }
    });
    listen
}

/// The next connection with a whole request. On a busy machine a client may close one before that.
fn next_question(listener: &TcpListener) -> TcpStream {
    loop {
        let (stream, _) = listener.accept().expect("it listens");
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        if lines.any(|line| line.is_empty()) {
            return stream;
        }
    }
}

impl Answer {
    fn to_http(&self, token: u64) -> String {
        let (header, body) = match self.content {
            Content::Leading { valid_for_ms } => (
                format!("fencing-token: {token}\r\n"),
                format!(
                    "{{\"standing\":\"leading\",\"is_leader\":true,\"token\":\"{token}\",\"valid_for_ms\":{valid_for_ms}}}\n"
                ),
            ),
            Content::Foreign(body) => (String::new(), body.to_owned()),
        };
        let (status, length) = (self.status, body.len());
        format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{header}\r\n{body}"
        )
    }
}
