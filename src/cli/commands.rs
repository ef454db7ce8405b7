//! The subcommands other than `run`: each prints its result and returns an exit code.
//!
//! Touches standard input, output, and error, and the network through [`query`].

use crate::cli::inject;
use crate::cli::preflight;
use crate::cli::query;
use crate::cli::query::{Query, QueryError};
use crate::cli::reply;
use crate::cli::reply::Verdict;
use crate::cli::standing;
use crate::cli::timeline::Timeline;
use crate::cli::{
    Environment, Inject, OutputFormat, Probe, Rbac, Settings, Sidecar, UnknownVariable,
};
use crate::config;
use crate::config::{Config, ConfigError, ElectionName, ListenAddress, StoreKind};
use crate::error_chain::ErrorChain;
use crate::http::BuildInfo;
use crate::kubernetes::rbac::{RbacManifest, Rights, Subject};
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::store::etcd::role::EtcdRole;
use hyper::{Method, StatusCode};
use std::error::Error;
use std::fmt::{self, Display};
use std::fs::{self, Permissions};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// How long to wait for an answer that the sidecar gives at once.
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);
/// How long `stopping` and `resign` wait: longer than any promise lasts.
const WITHDRAWAL_TIMEOUT: Duration = Duration::from_hours(1);
/// How many characters of another program's answer an error message shows.
const MAX_EXCERPT_CHARS: usize = 100;

/// Prints clap's error to standard error, or the requested help to standard output.
pub fn print_usage(error: &clap::Error) -> Exit {
    let printed = error.print();
    if printed.is_ok() && !error.use_stderr() { Exit::Clean } else { Exit::Usage }
}

/// Prints every error of a configuration.
pub fn print_config_errors(errors: &[ConfigError]) -> Exit {
    for error in errors {
        print_stderr(error);
    }
    Exit::Usage
}

/// Checks a configuration and the files that it names, and prints every error, or the timing if
/// there is none.
pub fn check_config(
    settings: &Settings,
    environment: &Environment,
    unknown: &[UnknownVariable],
) -> Exit {
    for UnknownVariable { name, nearest } in unknown {
        match nearest {
            Some(nearest) => {
                print_stderr(&format_args!(
                    "warning: {name} sets no flag: did you mean {nearest}?"
                ));
            }
            None => print_stderr(&format_args!("warning: {name} sets no flag")),
        }
    }
    let config = Config::new(settings, environment);
    if let Err(errors) = &config {
        print_config_errors(errors);
    }
    let store = StoreKind::chosen(settings, environment).ok();
    let unused = store.map(|store| config::unused_flags(settings, store)).unwrap_or_default();
    let unusable = store.map(|store| preflight::unusable_files(settings, store));
    let unusable = unusable.unwrap_or_default();
    for error in &unused {
        print_stderr(error);
    }
    for error in &unusable {
        print_stderr(&ErrorChain(error));
    }
    match config {
        Ok(config) if unused.is_empty() && unusable.is_empty() => {
            print_stdout(&Timeline { config: &config, in_kubernetes: environment.in_kubernetes })
        }
        Ok(_) | Err(_) => Exit::Usage,
    }
}

/// Asks whether the sidecar leads. Prints a table on a terminal.
pub fn status(output: Option<OutputFormat>, sidecar: &Sidecar) -> Exit {
    let is_table = OutputFormat::or_default(output) == OutputFormat::Text;
    let query =
        Query { method: &Method::GET, path: "/leader?promise=none", timeout: QUERY_TIMEOUT };
    query_sidecar(sidecar, query, reply::interpret_leader, |exit, body| {
        let metrics = Query { path: "/metrics", ..query };
        let listen = config::listen(sidecar.listen.as_ref()).ok().filter(|_| is_table);
        let metrics = listen.and_then(|listen| send(listen, metrics).ok()?.ok());
        let metrics = metrics.map(|(_, text)| text).unwrap_or_default();
        let table = is_table.then(|| standing::table(body, &metrics, Clock.wall())).flatten();
        let printed = print_stdout(&table.as_deref().unwrap_or(body).trim_end());
        if printed == Exit::Clean { exit } else { printed }
    })
}

/// Queries a probe of the sidecar.
pub fn probe(probe: Probe, sidecar: &Sidecar) -> Exit {
    let (path, interpret): (_, Interpret) = match probe {
        Probe::Healthz => ("/healthz", reply::interpret_health),
        Probe::Readyz => ("/readyz", reply::interpret_health),
        Probe::Leader => ("/leader?promise=none", reply::interpret_leader),
    };
    let query = Query { method: &Method::GET, path, timeout: QUERY_TIMEOUT };
    query_sidecar(sidecar, query, interpret, print_refusal)
}

/// Makes the sidecar stop promising leadership, and waits until its last promise has expired.
pub fn stopping(sidecar: &Sidecar) -> Exit {
    let query = Query { method: &Method::POST, path: "/stopping", timeout: WITHDRAWAL_TIMEOUT };
    query_sidecar(sidecar, query, reply::interpret_stopping, print_refusal)
}

/// Makes the sidecar hand the election over, and prints the next leader.
pub fn resign(hold_off: Option<&str>, sidecar: &Sidecar) -> Exit {
    let path = match hold_off.map(|text| (text, humantime::parse_duration(text))) {
        None => "/resign".to_owned(),
        Some((_, Ok(hold_off))) => format!("/resign?hold_off={}ms", hold_off.as_millis()),
        Some((text, Err(_))) => {
            let (flag, text) = ("hold-off", text.to_owned());
            return print_config_errors(&[ConfigError::Duration { flag, text }]);
        }
    };
    let query = Query { method: &Method::POST, path: &path, timeout: WITHDRAWAL_TIMEOUT };
    query_sidecar(sidecar, query, reply::interpret_resign, |exit, body| {
        if exit == Exit::Clean { print_stdout(&body.trim_end()) } else { print_refusal(exit, body) }
    })
}

/// Prints the Role and its binding for an election, or the commands for etcd.
pub fn rbac(rbac: &Rbac) -> Exit {
    let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let namespace = non_empty(&rbac.namespace);
    let prefix = config::etcd_prefix(non_empty(&rbac.etcd_prefix).as_deref(), namespace.as_deref());
    let account = rbac.service_account.as_deref();
    let checked = [
        rbac.election.parse::<ElectionName>().map(drop),
        account.map_or(Ok(()), config::check_service_account),
        namespace.as_deref().map_or(Ok(()), config::check_namespace),
        prefix.clone().map(drop),
        rbac.endpoint_slice.as_deref().map_or(Ok(()), config::check_service),
    ];
    let errors: Vec<_> = checked.into_iter().filter_map(Result::err).collect();
    if !errors.is_empty() {
        return print_config_errors(&errors);
    }
    let election = rbac.election.clone();
    if let (Ok(prefix), Some(user)) = (prefix, rbac.etcd_user.clone()) {
        return print_stdout(&EtcdRole { election, prefix, user });
    }
    let name = account.expect("clap requires it without a user of etcd").to_owned();
    let subject = Subject::ServiceAccount { name, namespace: namespace.clone() };
    let service = non_empty(&rbac.endpoint_slice);
    let rights = Rights { lease: true, service, events: rbac.events };
    print_stdout(&RbacManifest { election, namespace, subject, rights })
}

/// Prints the manifests from standard input with a sidecar in every labeled Pod template. Prints
/// only errors if a sidecar cannot be added. With `--kyverno` it prints a policy instead.
pub fn inject(options: &Inject) -> Exit {
    if options.kyverno {
        return print_stdout(&inject::kyverno_policy(options).trim_end());
    }
    let mut text = String::new();
    if io::stdin().is_terminal() {
        print_stderr(
            &"waiting for YAML on standard input: end it with Ctrl-D, or pipe manifests in",
        );
    }
    if let Err(error) = io::stdin().read_to_string(&mut text) {
        print_stderr(&format_args!("cannot read standard input: {error}"));
        return Exit::Usage;
    }
    match inject::inject(&text, options) {
        Ok(injected) => {
            for near_miss in &injected.near_misses {
                print_stderr(&format_args!("warning: {near_miss}"));
            }
            print_stderr(&injected.summary);
            write_stdout(injected.text.as_bytes())
        }
        Err(errors) => {
            for error in &errors {
                print_stderr(&ErrorChain(error));
            }
            Exit::Usage
        }
    }
}

/// Copies this program to `baton` in `directory`. Others see the old file or the whole new one.
pub fn install(directory: &Path) -> Exit {
    let target = directory.join("baton");
    let partial = directory.join(format!(".baton.{}", std::process::id()));
    let copied = fs::copy("/proc/self/exe", &partial)
        .and_then(|_bytes| fs::set_permissions(&partial, Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&partial, &target));
    match copied {
        Ok(()) => print_stdout(&target.display()),
        Err(error) => {
            // It may not exist.
            fs::remove_file(&partial).ok();
            print_stderr(&format_args!(
                "cannot install baton in {}: {error}; pass a directory that this user may write",
                directory.display()
            ));
            Exit::Usage
        }
    }
}

/// Prints the version, revision, and compiler.
pub fn version() -> Exit {
    print_stdout(&serde_json::to_string(&BuildInfo::default()).expect("three strings serialize"))
}

/// Interprets an answer: a function of [`reply`].
type Interpret = fn(StatusCode, &str) -> Verdict;

/// Sends `query`, and passes the exit code and body of Baton's answer to `finish`, which returns
/// the exit code of the command.
fn query_sidecar(
    sidecar: &Sidecar,
    query: Query<'_>,
    interpret: Interpret,
    finish: impl FnOnce(Exit, &str) -> Exit,
) -> Exit {
    let listen = match config::listen(sidecar.listen.as_ref()) {
        Ok(listen) => listen,
        Err(error) => return print_config_errors(&[error]),
    };
    match send(listen, query) {
        Ok(Ok((status, body))) => match interpret(status, &body) {
            Verdict::Yes => finish(Exit::Clean, &body),
            Verdict::No => finish(Exit::No, &body),
            Verdict::NotBaton => {
                print_stderr(&NotBaton { listen, path: query.path, status, body });
                Exit::NoAnswer
            }
        },
        Ok(Err(error)) => {
            print_stderr(&ErrorChain(&error));
            Exit::NoAnswer
        }
        Err(error) => {
            print_stderr(&ErrorChain(&error as &dyn Error));
            Exit::Fault
        }
    }
}

fn send(
    listen: ListenAddress,
    query: Query<'_>,
) -> io::Result<Result<(StatusCode, String), QueryError>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(query::send(listen, query)))
}

/// Prints the body of the answer if the answer is no.
fn print_refusal(exit: Exit, body: &str) -> Exit {
    if exit != Exit::Clean {
        print_stderr(&body.trim_end());
    }
    exit
}

/// The error for an answer from another program, or from the sidecar's probe listener.
struct NotBaton<'a> {
    listen: ListenAddress,
    path: &'a str,
    status: StatusCode,
    body: String,
}

impl Display for NotBaton<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, path, status, body } = self;
        let excerpt: String = body.chars().take(MAX_EXCERPT_CHARS).collect();
        write!(
            f,
            "{listen} is not Baton: it answered {path} with {status} and {excerpt:?}; pass the \
             --listen address of the sidecar"
        )
    }
}

/// Prints to standard output. A closed pipe ends the command without a panic.
pub(crate) fn print_stdout(text: &impl Display) -> Exit {
    if writeln!(io::stdout(), "{text}").is_ok() { Exit::Clean } else { Exit::Fault }
}

/// Writes to standard output as it is.
pub(super) fn write_stdout(text: &[u8]) -> Exit {
    if io::stdout().write_all(text).is_ok() { Exit::Clean } else { Exit::Fault }
}

/// Prints to standard error. If that fails, there is nowhere to report it.
pub(crate) fn print_stderr(text: &impl Display) {
    drop(writeln!(io::stderr(), "baton: {text}"));
}
