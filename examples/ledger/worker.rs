//! The example application: it appends lines to the ledger, but only while its sidecar promises
//! that it leads. [`Worker::ask`] and [`Worker::append`] are all that an application needs.
//!
//! It sends requests to its sidecar and to the ledger, reads one clock, and prints one line of JSON
//! for each change of its state. Start with [`Worker::run`].

use crate::client::{Origin, RequestError};
use axum::http::{Request, Response, StatusCode};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How long the sidecar may take to answer. It runs beside this process, so it usually answers
/// within a millisecond.
const SIDECAR_TIMEOUT: Duration = Duration::from_millis(500);

/// The least time that a promise must be good for when an append begins.
const MIN_APPEND_TIME: Duration = Duration::from_millis(50);

/// The settings of one application.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) sidecar: Origin,
    pub(crate) ledger: Origin,
    pub(crate) name: String,
    pub(crate) text: String,
    /// The time between two lines.
    pub(crate) every: Duration,
    /// How many lines to write; `None` means no limit.
    pub(crate) lines: Option<u64>,
    /// Whether to ask only until the first promise and then keep using its token.
    pub(crate) ask_once: bool,
}

/// The sidecar's promise that this application leads.
#[derive(Debug)]
struct Promise {
    token: String,
    /// When the promise expires, on the clock of [`now`].
    expires: Duration,
}

/// The fields of a 200 response to `GET /leader` that the application uses.
#[derive(Deserialize)]
struct LeaderResponse {
    token: String,
    valid_for_ms: u64,
}

/// The state of the application, as it prints it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum ApplicationState {
    Idle {
        reason: String,
    },
    Working {
        token: String,
        trouble: Option<String>,
    },
    /// The ledger has seen a later term, so this token is useless from now on.
    Refused {
        token: String,
    },
}

impl Worker {
    /// Appends lines until all are written or standard output fails.
    pub(crate) async fn run(self) -> io::Result<()> {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let first_number = first_number();
        let mut written = 0;
        let (mut kept_token, mut refused_token, mut printed) = (None, None, None);
        while self.lines.is_none_or(|lines| written < lines) {
            ticks.tick().await;
            let number = first_number + written;
            let state = self.step(number, kept_token.as_deref(), refused_token.as_deref()).await;
            match &state {
                ApplicationState::Idle { .. } => {}
                ApplicationState::Working { token, trouble } => {
                    written += u64::from(trouble.is_none());
                    kept_token = self.ask_once.then(|| token.clone());
                }
                ApplicationState::Refused { token } => refused_token = Some(token.clone()),
            }
            if printed.as_ref() != Some(&state) {
                print(&state)?;
                printed = Some(state);
            }
        }
        Ok(())
    }

    /// Asks whether this application leads, unless it has a kept token, and if so appends a line.
    async fn step(
        &self,
        number: u64,
        kept_token: Option<&str>,
        refused_token: Option<&str>,
    ) -> ApplicationState {
        let promise = match kept_token {
            Some(token) => {
                Ok(Promise { token: token.to_owned(), expires: now() + SIDECAR_TIMEOUT })
            }
            None => self.ask().await,
        };
        let Promise { token, expires } = match promise {
            Ok(promise) => promise,
            Err(reason) => {
                return ApplicationState::Idle { reason: reason.to_string() };
            }
        };
        if refused_token == Some(&token) {
            return ApplicationState::Refused { token };
        }
        let remaining = expires.saturating_sub(now());
        if remaining < MIN_APPEND_TIME {
            return ApplicationState::Idle { reason: "the promise is about to expire".to_owned() };
        }
        let trouble = match self.append(&token, number, remaining).await {
            Ok(response) if response.status() == StatusCode::OK => None,
            Ok(response) if response.status() == StatusCode::CONFLICT => {
                return ApplicationState::Refused { token };
            }
            Ok(response) => Some(format!("the ledger answered {}", response.status())),
            Err(error) => Some(format!("the ledger did not answer: {error}")),
        };
        ApplicationState::Working { token, trouble }
    }

    /// Asks the sidecar for a promise. A refused connection, a timeout and any status but 200 mean
    /// that this application does not lead.
    async fn ask(&self) -> Result<Promise, RequestError> {
        // The promise counts from when the sidecar answered. Counting from before the request is
        // safe: it can only end the promise too early.
        let sent_at = now();
        let response =
            self.sidecar.send(Request::get("/leader"), String::new(), SIDECAR_TIMEOUT).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("the sidecar answered {}", response.status()).into());
        }
        let LeaderResponse { token, valid_for_ms } = serde_json::from_str(response.body())?;
        Ok(Promise { token, expires: sent_at + Duration::from_millis(valid_for_ms) })
    }

    /// Appends one line, and stops waiting when the promise expires. A request in flight at that
    /// time may still arrive later; its fencing token makes that harmless.
    async fn append(
        &self,
        token: &str,
        number: u64,
        remaining: Duration,
    ) -> Result<Response<String>, RequestError> {
        let request = Request::post("/append")
            .header("Fencing-Token", token)
            .header("Writer", &self.name)
            .header("Number", number);
        self.ledger.send(request, self.text.clone(), remaining).await
    }
}

fn print(state: &ApplicationState) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, state)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// The number of the first line. Numbers of a later run are larger, because a run writes less than
/// one line per nanosecond.
fn first_number() -> u64 {
    u64::try_from(now().as_nanos()).expect("the uptime is below five centuries")
}

/// The time since boot. This clock keeps running while the process is paused and while the machine
/// is suspended, so a promise expires then too.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    now.try_into().expect("the time since boot is not negative")
}
