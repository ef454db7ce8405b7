//! The ledger over HTTP: `POST /append` and `GET /journal`.
//!
//! It touches the wall clock: each line gets a timestamp for people who read the journal. No code
//! compares timestamps. Start with [`serve`].

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

/// The length limit of a line.
pub(crate) const MAX_LINE_BYTES: usize = 4096;

const UNKNOWN_REQUEST: &str = "the ledger serves only POST /append and GET /journal";

/// The journal, and the file that stores it, if any.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) journal: Journal,
    pub(crate) file: Option<JournalFile>,
}

type Shared = Arc<Mutex<Ledger>>;

/// Serves until `stop` completes. A response in flight at that time may be lost.
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
        .method_not_allowed_fallback(async || {
            error_response(StatusCode::METHOD_NOT_ALLOWED, UNKNOWN_REQUEST)
        })
        .fallback(async || error_response(StatusCode::NOT_FOUND, UNKNOWN_REQUEST))
        .layer(DefaultBodyLimit::max(MAX_LINE_BYTES))
        .with_state(Arc::new(Mutex::new(ledger)))
}

async fn append(
    State(ledger): State<Shared>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ErrorResponse> {
    let token = header(&headers, "Fencing-Token")?
        .parse()
        .map_err(|error| bad_request(format!("header Fencing-Token: {error}")))?;
    let writer = header(&headers, "Writer")?.to_owned();
    let number = header(&headers, "Number")?
        .parse()
        .map_err(|error| bad_request(format!("header Number: {error}")))?;
    let body =
        body.map_err(|rejection| error_response(rejection.status(), rejection.body_text()))?;
    let text = String::from_utf8(body.into()).map_err(|_| bad_request("the body is not UTF-8"))?;
    Ok(ledger.lock().unwrap_or_else(PoisonError::into_inner).append(token, writer, number, text))
}

async fn journal(State(ledger): State<Shared>) -> Response {
    let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    json_response(StatusCode::OK, &ledger.journal.report())
}

impl Ledger {
    fn append(&mut self, token: Token, writer: String, number: u64, text: String) -> Response {
        let line = match self.journal.admit(token, &writer) {
            Ok(line) => line,
            Err(refusal) => {
                let newest = self.journal.newest();
                let body = json!({"error": refusal.to_string(), "newest": newest});
                return json_response(StatusCode::CONFLICT, &body);
            }
        };
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let entry = Entry { line, token, writer, number, text, at };
        // Write the file first: an acknowledged line must survive a restart.
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.append(&entry)) {
            let error = format!("cannot write the journal file: {error}");
            return error_response(StatusCode::INTERNAL_SERVER_ERROR, error).into_response();
        }
        self.journal.record(&entry);
        json_response(StatusCode::OK, &json!({"line": line}))
    }
}

/// An error response with a JSON body.
#[derive(Debug)]
struct ErrorResponse {
    status: StatusCode,
    error: String,
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        json_response(self.status, &json!({"error": self.error}))
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, ErrorResponse> {
    let text = headers.get(name).and_then(|value| value.to_str().ok());
    text.filter(|text| !text.is_empty())
        .ok_or_else(|| bad_request(format!("header {name}: missing; every write needs it")))
}

fn bad_request(error: impl Into<String>) -> ErrorResponse {
    error_response(StatusCode::BAD_REQUEST, error)
}

fn error_response(status: StatusCode, error: impl Into<String>) -> ErrorResponse {
    ErrorResponse { status, error: error.into() }
}

fn json_response(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_string(body).expect("all map keys are strings");
    (status, [(CONTENT_TYPE, "application/json")], body + "\n").into_response()
}
