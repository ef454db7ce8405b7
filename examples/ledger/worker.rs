//! The model application: it appends a line every now and then, but only while its sidecar says that it
//! leads. What it does in [`Worker::ask`] and [`Worker::append`] is all that using Baton takes.
//!
//! It talks to its sidecar and to the ledger, reads one clock, and prints one line for each change.

use crate::client::{NoAnswer, Origin};
use axum::http::{Request, Response, StatusCode};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How long the sidecar may take to answer. It sits next to us: a slow one is in trouble.
const ASKING: Duration = Duration::from_millis(500);

/// What an append needs. It is begun only while so much of the leave is left.
const APPENDING: Duration = Duration::from_millis(50);

/// What the application is told at its start.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) sidecar: Origin,
    pub(crate) ledger: Origin,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) every: Duration,
    /// How many lines are all that there is to do; without a number there is always more.
    pub(crate) lines: Option<u64>,
    /// Whether leave, once given, is relied on until the ledger refuses it.
    pub(crate) ask_once: bool,
}

/// Leave to act under this token, until our clock shows that time.
#[derive(Debug)]
struct Leave {
    token: String,
    until: Duration,
}

/// What the sidecar's `/leader` says with a 200, as far as we need it.
#[derive(Deserialize)]
struct Leading {
    token: String,
    valid_for_ms: u64,
}

/// What the application is doing: a line of its output.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum Duty {
    Idle {
        reason: String,
    },
    Working {
        token: String,
        trouble: Option<String>,
    },
    /// The ledger has seen a later term: nothing can be done under this token any more.
    Refused {
        token: String,
    },
}

impl Worker {
    /// Works until there is nothing left to do, or standard output fails.
    pub(crate) async fn run(self) -> io::Result<()> {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut written, mut relied_on, mut refused, mut said) = (0, None, None, None);
        let first = first_number();
        while self.lines.is_none_or(|lines| written < lines) {
            ticks.tick().await;
            let duty = self.turn(first + written, relied_on.as_deref(), refused.as_deref()).await;
            match &duty {
                Duty::Idle { .. } => {}
                Duty::Working { token, trouble } => {
                    written += u64::from(trouble.is_none());
                    relied_on = self.ask_once.then(|| token.clone());
                }
                Duty::Refused { token } => refused = Some(token.clone()),
            }
            if said.as_ref() != Some(&duty) {
                say(&duty)?;
                said = Some(duty);
            }
        }
        Ok(())
    }

    /// Asks, where nothing is relied on, and writes the line of this number once if it may.
    async fn turn(&self, number: u64, relied_on: Option<&str>, refused: Option<&str>) -> Duty {
        let leave = match relied_on {
            Some(token) => Ok(Leave { token: token.to_owned(), until: now() + ASKING }),
            None => self.ask().await,
        };
        let Leave { token, until } = match leave {
            Ok(leave) => leave,
            Err(reason) => {
                return Duty::Idle { reason: reason.to_string() };
            }
        };
        if refused == Some(&token) {
            return Duty::Refused { token };
        }
        let left = until.saturating_sub(now());
        if left < APPENDING {
            return Duty::Idle { reason: "too little of the leave is left".to_owned() };
        }
        let trouble = match self.append(&token, number, left).await {
            Ok(answer) if answer.status() == StatusCode::OK => None,
            Ok(answer) if answer.status() == StatusCode::CONFLICT => {
                return Duty::Refused { token };
            }
            Ok(answer) => Some(format!("the ledger answered {}", answer.status())),
            Err(error) => Some(format!("the ledger did not answer: {error}")),
        };
        Duty::Working { token, trouble }
    }

    /// Leave to act, or why there is none. A refused connection, a time-out and anything but 200 mean that
    /// we do not lead.
    async fn ask(&self) -> Result<Leave, NoAnswer> {
        // Before the question: the answer holds from the instant at which it was given, which is later.
        let asked = now();
        let answer = self.sidecar.send(Request::get("/leader"), String::new(), ASKING).await?;
        if answer.status() != StatusCode::OK {
            return Err(format!("the sidecar answered {}", answer.status()).into());
        }
        let Leading { token, valid_for_ms } = serde_json::from_str(answer.body())?;
        Ok(Leave { token, until: asked + Duration::from_millis(valid_for_ms) })
    }

    /// Writes one line, and stops waiting when the leave ends. What has been sent by then may still arrive
    /// later: it is the token that makes it harmless.
    async fn append(
        &self,
        token: &str,
        number: u64,
        left: Duration,
    ) -> Result<Response<String>, NoAnswer> {
        let request =
            Request::post("/append").header("Fencing-Token", token).header("Writer", &self.name);
        let request = request.header("Number", number);
        self.ledger.send(request, self.text.clone(), left).await
    }
}

fn say(duty: &Duty) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, duty)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// The number of the first line. A later run of the same writer begins beyond all those of this one: nobody writes a
/// line in less than a nanosecond.
fn first_number() -> u64 {
    u64::try_from(now().as_nanos()).expect("nobody runs for five centuries")
}

/// A clock that goes on while this process is stopped and while the machine is suspended.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    now.try_into().expect("a clock that began at zero does not show less")
}
