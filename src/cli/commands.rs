//! The subcommands that answer and end: everything but `run`.
//!
//! Touches standard output and standard error, and the network through `client.rs`.

use crate::cli::inject;
use crate::cli::preflight;
use crate::cli::query;
use crate::cli::query::{NoAnswer, Question};
use crate::cli::reply;
use crate::cli::reply::Verdict;
use crate::cli::{Inject, Probe, Rbac, Settings, Sidecar, Surroundings, UnknownVariable};
use crate::config;
use crate::config::{Backend, Config, ConfigError, ElectionName, Kind, Listen, OnLost};
use crate::error_chain::ErrorChain;
use crate::http::Version;
use crate::kubernetes::rbac::{RbacManifest, Subject};
use crate::process::exit::Exit;
use baton_election::duration::Rounded;
use hyper::{Method, StatusCode};
use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

/// How long a question may take that is answered at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How many characters of a strange answer to show.
const EXCERPT: usize = 100;
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

/// Checks a configuration and the files that it needs, names every error, and draws the timing if
/// there is none.
pub fn check_config(
    settings: &Settings,
    surroundings: &Surroundings,
    unknown: &[UnknownVariable],
) -> Exit {
    for UnknownVariable { name, nearest } in unknown {
        match nearest {
            Some(nearest) => {
                complain(&format_args!("warning: {name} sets no flag: {nearest} does"));
            }
            None => complain(&format_args!("warning: {name} sets no flag")),
        }
    }
    let config = Config::new(settings, surroundings);
    if let Err(errors) = &config {
        mistakes(errors);
    }
    let chosen = Kind::chosen(settings, surroundings).ok();
    let foreign = chosen.map(|chosen| config::foreign_flags(settings, chosen)).unwrap_or_default();
    let missing = chosen.map(|chosen| preflight::missing(settings, chosen)).unwrap_or_default();
    for error in &foreign {
        complain(error);
    }
    for error in &missing {
        complain(&ErrorChain(error));
    }
    match config {
        Ok(config) if foreign.is_empty() && missing.is_empty() => {
            say(&Drawing { config: &config, in_kubernetes: surroundings.in_kubernetes })
        }
        Ok(_) | Err(_) => Exit::Usage,
    }
}

/// Asks whether the sidecar leads.
pub fn status(sidecar: &Sidecar) -> Exit {
    let question =
        Question { method: &Method::GET, path: "/leader?promise=none", timeout: AT_ONCE };
    answered(sidecar, question, reply::about_leading, |verdict, body| {
        let printed = say(&body.trim_end());
        if printed == Exit::Clean { verdict } else { printed }
    })
}

/// Asks one of the probes.
pub fn probe(what: Probe, sidecar: &Sidecar) -> Exit {
    let (path, judge): (_, Judge) = match what {
        Probe::Healthz => ("/healthz", reply::about_health),
        Probe::Readyz => ("/readyz", reply::about_health),
        Probe::Leader => ("/leader?promise=none", reply::about_leading),
    };
    let question = Question { method: &Method::GET, path, timeout: AT_ONCE };
    answered(sidecar, question, judge, explained)
}

/// Tells the sidecar that its Pod begins to end.
pub fn stopping(sidecar: &Sidecar) -> Exit {
    let question = Question { method: &Method::POST, path: "/stopping", timeout: PATIENCE };
    answered(sidecar, question, reply::about_stopping, explained)
}

/// Prints what an election on Kubernetes needs.
pub fn rbac(rbac: &Rbac) -> Exit {
    let namespace = rbac.namespace.clone().filter(|namespace| !namespace.is_empty());
    let checked = [
        rbac.election.parse::<ElectionName>().map(drop),
        config::check_service_account(&rbac.service_account),
        namespace.as_deref().map_or(Ok(()), config::check_namespace),
    ];
    let wrong: Vec<_> = checked.into_iter().filter_map(Result::err).collect();
    if !wrong.is_empty() {
        return mistakes(&wrong);
    }
    let subject = Subject::ServiceAccount {
        name: rbac.service_account.clone(),
        namespace: namespace.clone(),
    };
    say(&RbacManifest { election: rbac.election.clone(), namespace, subject })
}

/// Prints standard input, with a sidecar in every Pod template that is labelled for it; nothing, where one cannot have its.
pub fn inject(options: &Inject) -> Exit {
    let mut text = String::new();
    if io::stdin().is_terminal() {
        complain(&"waiting for YAML on standard input: end it with Ctrl-D, or pipe manifests in");
    }
    if let Err(error) = io::stdin().read_to_string(&mut text) {
        complain(&format_args!("standard input cannot be read: {error}"));
        return Exit::Usage;
    }
    match inject::inject(&text, options) {
        Ok(injected) => {
            for near_miss in &injected.near_misses {
                complain(&format_args!("warning: {near_miss}"));
            }
            complain(&injected.summary);
            if io::stdout().write_all(injected.text.as_bytes()).is_ok() {
                Exit::Clean
            } else {
                Exit::Fault
            }
        }
        Err(mistakes) => {
            for mistake in &mistakes {
                complain(&ErrorChain(mistake));
            }
            Exit::Usage
        }
    }
}

/// Prints what was built.
pub fn version() -> Exit {
    say(&serde_json::to_string(&Version::default()).expect("three texts are JSON"))
}

/// Tells what an answer means.
type Judge = fn(StatusCode, &str) -> Verdict;

/// Asks, and passes the exit code and the body of Baton's answer to `told`, which decides the exit.
fn answered(
    sidecar: &Sidecar,
    question: Question,
    judge: Judge,
    told: impl FnOnce(Exit, &str) -> Exit,
) -> Exit {
    let listen = match config::listen(sidecar.listen.as_ref()) {
        Ok(listen) => listen,
        Err(mistake) => return mistakes(&[mistake]),
    };
    match ask(listen, question) {
        Ok(Ok((status, body))) => match judge(status, &body) {
            Verdict::Yes => told(Exit::Clean, &body),
            Verdict::No => told(Exit::No, &body),
            Verdict::NotBaton => {
                complain(&NotBaton { listen, path: question.path, status, body });
                Exit::NoAnswer
            }
        },
        Ok(Err(nobody)) => {
            complain(&ErrorChain(&nobody));
            Exit::NoAnswer
        }
        Err(error) => {
            complain(&ErrorChain(&error as &dyn Error));
            Exit::Fault
        }
    }
}

fn ask(listen: Listen, question: Question) -> io::Result<Result<(StatusCode, String), NoAnswer>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(query::ask(listen, question)))
}

/// Prints why the answer is no.
fn explained(verdict: Exit, body: &str) -> Exit {
    if verdict != Exit::Clean {
        complain(&body.trim_end());
    }
    verdict
}

/// An answer that another program gave, or a sidecar's other listener.
struct NotBaton {
    listen: Listen,
    path: &'static str,
    status: StatusCode,
    body: String,
}

impl Display for NotBaton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, path, status, body } = self;
        let start: String = body.chars().take(EXCERPT).collect();
        write!(
            f,
            "this is not Baton: {listen} answered {path} with {status} and {start:?}; name the address where the sidecar \
             listens for its application by --listen"
        )
    }
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
struct Drawing<'a> {
    config: &'a Config,
    in_kubernetes: bool,
}

impl Display for Drawing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { election, backend, identity_prefix, timing, on_lost, .. } = self.config;
        let (timing, margin) = match backend {
            Backend::Lease { .. } | Backend::File { .. } => (*timing, timing.margin()),
            Backend::ZooKeeper(place) => place.timing.expected(),
        };
        let (lease, renew) = (timing.lease_duration(), timing.renew_deadline());
        let last_answer = Rounded::down(renew.saturating_sub(timing.answer_validity()));
        let retry = Rounded::nearest(timing.retry_period());
        let [margin_left, claim_ends, others] = [margin, renew, lease].map(Rounded::down);
        writeln!(f, "election {election} in {}, as {identity_prefix}_<uuid>\n", backend.as_str())?;
        writeln!(f, "  0            {retry:<12} {last_answer:<12} {claim_ends:<12} {others}")?;
        writeln!(f, "  ├────────────┼────────────┼────────────┼────────────┼──►")?;
        writeln!(f, "  renewal      next         last answer  claim ends   others")?;
        writeln!(f, "  is sent      renewal      \"leading\"                 may lead\n")?;
        let call = Rounded::nearest(timing.call_timeout());
        writeln!(f, "a renewal that fails is tried again, three times in all, {call} each")?;
        let validity = Rounded::down(timing.answer_validity());
        writeln!(f, "an answer \"leading\" is good for {validity}: ask at least that often")?;
        writeln!(
            f,
            "clocks may differ by {} in rate: {margin_left} are left at the worst between two leaders",
            timing.drift()
        )?;
        let moved_by_kubernetes = match backend {
            Backend::Lease { .. } => true,
            Backend::ZooKeeper(_) => self.in_kubernetes,
            Backend::File { .. } => false,
        };
        match on_lost {
            OnLost::Exit if moved_by_kubernetes => write!(
                f,
                "an application that never asks must be gone within {margin_left} of the claim's end: Kubernetes 1.36 needs \
                 up to 4 s for RestartAllContainers to end it{}",
                if margin < Duration::from_secs(4) { ", which is more: let it ask" } else { "" }
            ),
            OnLost::Exit => write!(
                f,
                "an application that never asks must be gone within {margin_left} of the claim's end: end it when the \
                 sidecar exits with 75, or let it ask"
            ),
            OnLost::Stay => write!(
                f,
                "with --on-lost=stay nothing moves an application that never asks: let it ask"
            ),
        }
    }
}
