//! The program that a kubeconfig names for credentials, as `aws eks get-token` is one: run once, for a bounded time.
//!
//! Touches processes. What it is told and what it prints are `ExecCredential` of client.authentication.k8s.io. The
//! expiry that it may print is not looked at: credentials are asked for anew when the API server refuses them. kube
//! has a runner of its own, which waits without end, runs a program twice, and panics over a token of two lines.

use baton_election::text::one_line;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

/// How long a program may run: those that ask a cloud take seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often we look whether a program that says no more has ended.
const LOOK: Duration = Duration::from_millis(10);

/// The most that is read of either output, in bytes.
const LONGEST_OUTPUT: u64 = 1024 * 1024;

/// The most that is told of what it said when it failed, in characters.
const LONGEST_COMPLAINT: usize = 1000;

/// Why a program gave no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// A kubeconfig without the program's name.
    #[error("the kubeconfig's exec names no command")]
    Unnamed,
    /// A program that asks a person.
    #[error("{0} wants to ask a person (interactiveMode: Always), and nobody is there")]
    Interactive(String),
    /// A program that cannot be run.
    #[error("{program} cannot be run: see whether it is installed, and in PATH")]
    Run {
        /// The command.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// A program that fails.
    #[error("{program} ended with {status}, and said: {said}")]
    Failed {
        /// The command.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// Its standard error.
        said: String,
    },
    /// A program that hangs.
    #[error("{program} did not end within {after:?}: run it by hand, to see what it waits for")]
    Late {
        /// The command.
        program: String,
        /// How long it was given.
        after: Duration,
    },
    /// Something else than an `ExecCredential`.
    #[error("what {program} printed is no ExecCredential with a status, as JSON")]
    Nonsense {
        /// The command.
        program: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// An `ExecCredential` without credentials.
    #[error("{0} printed neither a token nor a certificate with its key")]
    Nothing(String),
}

impl ProgramError {
    /// Whether the same kubeconfig may give credentials later: a service that the program asks may
    /// be down.
    pub(super) fn may_pass(&self) -> bool {
        use io::ErrorKind::{NotFound, PermissionDenied};
        match self {
            Self::Failed { .. } | Self::Late { .. } => true,
            Self::Run { source, .. } => ![NotFound, PermissionDenied].contains(&source.kind()),
            Self::Unnamed | Self::Interactive(_) | Self::Nonsense { .. } | Self::Nothing(_) => {
                false
            }
        }
    }
}

/// What a program gave.
pub(super) enum Credentials {
    Token(String),
    /// As PEM.
    Certificate {
        certificate: String,
        key: String,
    },
}

#[derive(Deserialize)]
struct Printed {
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Runs the program that `exec` names. One that does not end in time, or whose future is dropped, is killed.
pub(super) async fn run(exec: &ExecConfig) -> Result<Credentials, ProgramError> {
    let program = exec.command.clone().ok_or(ProgramError::Unnamed)?;
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(ProgramError::Interactive(program));
    }
    match timeout(PATIENCE, output_of(command(exec, &program))).await {
        Ok(Ok((status, printed, _))) if status.success() => {
            match serde_json::from_slice(&printed) {
                Ok(Printed { status }) => {
                    status.credentials().ok_or(ProgramError::Nothing(program))
                }
                Err(source) => Err(ProgramError::Nonsense { program, source }),
            }
        }
        Ok(Ok((status, _, said))) => {
            let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
            let said = one_line(&said).chars().take(LONGEST_COMPLAINT).collect();
            Err(ProgramError::Failed { program, status, said })
        }
        Ok(Err(source)) => Err(ProgramError::Run { program, source }),
        Err(_elapsed) => Err(ProgramError::Late { program, after: PATIENCE }),
    }
}

impl Status {
    /// A certificate goes before a token.
    fn credentials(self) -> Option<Credentials> {
        match (self.client_certificate_data, self.client_key_data) {
            (Some(certificate), Some(key)) => Some(Credentials::Certificate { certificate, key }),
            (Some(_), None) | (None, _) => self.token.map(Credentials::Token),
        }
    }
}

fn command(exec: &ExecConfig, program: &str) -> Command {
    let mut command = Command::new(program);
    command.args(exec.args.iter().flatten());
    let variables = exec
        .env
        .iter()
        .flatten()
        .filter_map(|variable| Some((variable.get("name")?, variable.get("value")?)));
    command.envs(variables);
    let mut spec = json!({ "interactive": false });
    if let Some(cluster) = &exec.cluster {
        spec["cluster"] = json!(cluster);
    }
    let told = json!({ "apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec });
    command.env("KUBERNETES_EXEC_INFO", told.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end: how it ended, what it printed, and what it said beside that.
async fn output_of(mut command: Command) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let mut running = Running(command.spawn()?);
    let (out, err) = (
        running.0.stdout.take().expect("it is piped"),
        running.0.stderr.take().expect("it is piped"),
    );
    let (mut printed, mut said) = (Vec::new(), Vec::new());
    let (mut out, mut err) = (
        pipe::Receiver::from_owned_fd(out.into())?.take(LONGEST_OUTPUT),
        pipe::Receiver::from_owned_fd(err.into())?.take(LONGEST_OUTPUT),
    );
    tokio::try_join!(out.read_to_end(&mut printed), err.read_to_end(&mut said))?;
    loop {
        if let Some(status) = running.0.try_wait()? {
            return Ok((status, printed, said));
        }
        sleep(LOOK).await;
    }
}

/// A process that ends with whoever waits for it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
