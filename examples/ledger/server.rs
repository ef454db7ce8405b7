//! The ledger over HTTP: `POST /append` and `GET /journal`.
//!
//! Takes a bound listener and a future that says when to stop. Stamps the time on what it takes; nothing
//! compares these stamps, they are for people who read the journal.

use crate::file::JournalFile;
use crate::journal::{Entry, Journal, Token};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State, rejection::BytesRejection};
use axum::http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use serde_json::json;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The longest line, in bytes.
pub(crate) const LONGEST_LINE: usize = 4096;

const ALL_THERE_IS: &str = "POST /append and GET /journal are all there is";

/// The books, and the file that they are kept in, if there is one.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) journal: Journal,
    pub(crate) file: Option<JournalFile>,
}

type Shared = Arc<Mutex<Ledger>>;

/// Answers until `stop` is ready. An answer on its way then may be lost, as any answer may.
pub(crate) async fn serve(
    listener: tokio::net::TcpListener,
    ledger: Ledger,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    tokio::select! {
        served = axum::serve(listener, router(ledger)).into_future() => served,
        () = stop => Ok(()),
    }
}

fn router(ledger: Ledger) -> Router {
    Router::new()
        .route("/append", post(append))
        .route("/journal", get(journal))
        .method_not_allowed_fallback(async || problem(StatusCode::METHOD_NOT_ALLOWED, ALL_THERE_IS))
        .fallback(async || problem(StatusCode::NOT_FOUND, ALL_THERE_IS))
        .layer(DefaultBodyLimit::max(LONGEST_LINE))
        .with_state(Arc::new(Mutex::new(ledger)))
}

async fn append(
    State(ledger): State<Shared>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let token = header(&headers, "Fencing-Token")?
        .parse()
        .map_err(|error| bad_request(format!("header Fencing-Token: {error}")))?;
    let writer = header(&headers, "Writer")?.to_owned();
    let number = header(&headers, "Number")?
        .parse()
        .map_err(|error| bad_request(format!("header Number: {error}")))?;
    let body = body.map_err(|rejection| problem(rejection.status(), rejection.body_text()))?;
    let text = String::from_utf8(body.into()).map_err(|_| bad_request("the body is no UTF-8"))?;
    Ok(ledger.lock().unwrap_or_else(PoisonError::into_inner).append(token, writer, number, text))
}

async fn journal(State(ledger): State<Shared>) -> Response {
    let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    answer(StatusCode::OK, &ledger.journal.report())
}

impl Ledger {
    fn append(&mut self, token: Token, writer: String, number: u64, text: String) -> Response {
        let line = match self.journal.admit(token, &writer) {
            Ok(line) => line,
            Err(refusal) => {
                let newest = self.journal.newest();
                let refusal = json!({"error": refusal.to_string(), "newest": newest});
                return answer(StatusCode::CONFLICT, &refusal);
            }
        };
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let entry = Entry { line, token, writer, number, text, at };
        // The file first: nothing may be answered for that would not be read back after a restart.
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.append(&entry)) {
            let error = format!("the journal file cannot be written: {error}");
            return problem(StatusCode::INTERNAL_SERVER_ERROR, error).into_response();
        }
        self.journal.record(&entry);
        answer(StatusCode::OK, &json!({"line": line}))
    }
}

/// A request that the ledger can do nothing with.
#[derive(Debug)]
struct Problem {
    status: StatusCode,
    error: String,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        answer(self.status, &json!({"error": self.error}))
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, Problem> {
    let text = headers.get(name).and_then(|value| value.to_str().ok());
    text.filter(|text| !text.is_empty())
        .ok_or_else(|| bad_request(format!("the header {name} is missing: each write needs it")))
}

fn bad_request(error: impl Into<String>) -> Problem {
    problem(StatusCode::BAD_REQUEST, error)
}

fn problem(status: StatusCode, error: impl Into<String>) -> Problem {
    Problem { status, error: error.into() }
}

fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_string(body).expect("every map here has strings for keys");
    (status, [(CONTENT_TYPE, "application/json")], body + "\n").into_response()
}
