//! The subcommands that answer and end: everything but `run`.
//!
//! Touches standard output and standard error, and the network through `client.rs`.

use crate::cli::{Inject, Probe, Rbac, Settings, Sidecar, Surroundings};
use crate::client::{self, NoAnswer, Question};
use crate::config::{self, Backend, Config, ConfigError, ElectionName, Listen, OnLost};
use crate::exit::Exit;
use crate::http::Version;
use crate::inject;
use crate::rbac::{Role, Subject};
use crate::report::Chain;
use hyper::{Method, StatusCode};
use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, Read as _, Write as _};
use std::time::Duration;

/// How long a question may take that is answered at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long `stopping` waits for the last promise to run out, which nobody makes longer.
const PATIENCE: Duration = Duration::from_hours(1);

/// What clap has to say: help goes to standard output and is no mistake.
pub fn usage(error: &clap::Error) -> Exit {
    let printed = error.print();
    if printed.is_ok() && !error.use_stderr() { Exit::Clean } else { Exit::Usage }
}

/// Names every mistake of a configuration.
pub fn mistakes(mistakes: &[ConfigError]) -> Exit {
    for mistake in mistakes {
        complain(mistake);
    }
    Exit::Usage
}

/// Checks a configuration, and draws its timing.
pub fn check_config(settings: &Settings, surroundings: &Surroundings) -> Exit {
    match Config::new(settings, surroundings) {
        Ok(config) => say(&Drawing(&config)),
        Err(errors) => mistakes(&errors),
    }
}

/// Asks whether the sidecar leads.
pub fn status(sidecar: &Sidecar) -> Exit {
    let question = Question { method: &Method::GET, path: "/leader?promise=none", timeout: AT_ONCE };
    answered(sidecar, question, |status, body| {
        let told = say(&body.trim_end());
        if told == Exit::Clean { yes(status == StatusCode::OK) } else { told }
    })
}

/// Asks one of the probes.
pub fn probe(what: Probe, sidecar: &Sidecar) -> Exit {
    let path = match what {
        Probe::Healthz => "/healthz",
        Probe::Readyz => "/readyz",
        Probe::Leader => "/leader?promise=none",
    };
    let question = Question { method: &Method::GET, path, timeout: AT_ONCE };
    answered(sidecar, question, |status, body| {
        if status != StatusCode::OK {
            complain(&body.trim_end());
        }
        yes(status == StatusCode::OK)
    })
}

/// Tells the sidecar that its Pod begins to end.
pub fn stopping(sidecar: &Sidecar) -> Exit {
    let question = Question { method: &Method::POST, path: "/stopping", timeout: PATIENCE };
    answered(sidecar, question, |status, body| {
        if status != StatusCode::NO_CONTENT {
            complain(&body.trim_end());
        }
        yes(status == StatusCode::NO_CONTENT)
    })
}

/// Prints what an election on Kubernetes needs.
pub fn rbac(rbac: &Rbac) -> Exit {
    match rbac.election.parse::<ElectionName>() {
        Ok(_) => {
            let Rbac { election, service_account, namespace } = rbac.clone();
            let subject = Subject::ServiceAccount { name: service_account, namespace: namespace.clone() };
            say(&Role { election, namespace, subject })
        }
        Err(mistake) => mistakes(&[mistake]),
    }
}

/// Prints standard input, with a sidecar in every Pod template that is labelled for it; nothing, where one cannot have its.
pub fn inject(options: &Inject) -> Exit {
    let mut text = String::new();
    if let Err(error) = io::stdin().read_to_string(&mut text) {
        complain(&format_args!("standard input cannot be read: {error}"));
        return Exit::Usage;
    }
    match inject::inject(&text, options) {
        Ok(injected) if io::stdout().write_all(injected.as_bytes()).is_ok() => Exit::Clean,
        Ok(_) => Exit::Fault,
        Err(mistakes) => {
            for mistake in &mistakes {
                complain(&Chain(mistake));
            }
            Exit::Usage
        }
    }
}

/// Prints what was built.
pub fn version() -> Exit {
    say(&serde_json::to_string(&Version::default()).expect("three texts are JSON"))
}

fn answered(sidecar: &Sidecar, question: Question, judge: impl FnOnce(StatusCode, &str) -> Exit) -> Exit {
    let listen = match config::listen(sidecar.listen.as_ref()) {
        Ok(listen) => listen,
        Err(mistake) => return mistakes(&[mistake]),
    };
    match ask(listen, question) {
        Ok(Ok((status, body))) => judge(status, &body),
        Ok(Err(nobody)) => {
            complain(&Chain(&nobody));
            Exit::NoAnswer
        }
        Err(error) => {
            complain(&Chain(&error as &dyn Error));
            Exit::Fault
        }
    }
}

fn ask(listen: Listen, question: Question) -> io::Result<Result<(StatusCode, String), NoAnswer>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(client::ask(listen, question)))
}

const fn yes(yes: bool) -> Exit {
    if yes { Exit::Clean } else { Exit::No }
}

/// Prints to standard output; a reader that went away ends the command, and is no panic.
fn say(text: &impl Display) -> Exit {
    if writeln!(io::stdout(), "{text}").is_ok() { Exit::Clean } else { Exit::Fault }
}

/// Prints to standard error, where nothing more can be done if that fails.
fn complain(text: &impl Display) {
    drop(writeln!(io::stderr(), "baton: {text}"));
}

/// A configuration as one line of time.
struct Drawing<'a>(&'a Config);

impl Display for Drawing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { election, backend, identity_prefix, timing, on_lost, .. } = self.0;
        let (timing, margin) = match backend {
            Backend::Lease { .. } | Backend::File { .. } => (*timing, timing.margin()),
            Backend::ZooKeeper(place) => place.timing.expected(),
        };
        let (lease, renew, retry) = (timing.lease_duration(), timing.renew_deadline(), timing.retry_period());
        let validity = timing.answer_validity();
        writeln!(f, "election {election} in {}, as {identity_prefix}_<uuid>\n", backend.as_str())?;
        writeln!(f, "  0            {retry:<12?} {:<12?} {renew:<12?} {lease:?}", renew.saturating_sub(validity))?;
        writeln!(f, "  ├────────────┼────────────┼────────────┼────────────┼──►")?;
        writeln!(f, "  renewal      next         last answer  claim ends   others")?;
        writeln!(f, "  is sent      renewal      \"leading\"                 may lead\n")?;
        writeln!(f, "a renewal that fails is tried again, three times in all, {:?} each", timing.call_timeout())?;
        writeln!(f, "an answer \"leading\" is good for {validity:?}: ask at least that often")?;
        writeln!(
            f,
            "clocks may differ by {} in rate: {margin:?} are left at the worst between two leaders",
            timing.drift()
        )?;
        match on_lost {
            OnLost::Exit => write!(
                f,
                "an application that never asks must be gone within {margin:?} of the claim's end: Kubernetes 1.36 needs up to \
                 4 s for RestartAllContainers to end it{}",
                if margin < Duration::from_secs(4) { ", which is more: let it ask" } else { "" }
            ),
            OnLost::Stay => write!(f, "with --on-lost=stay nothing moves an application that never asks: let it ask"),
        }
    }
}
