//! Runs the exec credential plugin of a kubeconfig, such as `aws eks get-token`, for a bounded
//! time.
//!
//! Touches processes. Start with [`run`]. Input and output are `ExecCredential` objects of
//! client.authentication.k8s.io. Their expiry is ignored: the plugin runs again when the API server
//! refuses its credentials. kube's own runner waits without limit, runs a plugin twice, and panics
//! over a token of two lines.

use crate::process::children::AwaitedChild;
use baton_election::text::one_line;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

/// How long a plugin may run. Plugins that call a cloud service take seconds.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How often to check whether a plugin that has closed its output has exited.
const EXIT_POLL_PERIOD: Duration = Duration::from_millis(10);

/// How much of standard output and of standard error is read, in bytes.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;

/// How much of standard error is reported, in characters.
const MAX_STDERR_CHARS: usize = 1000;

/// Why an exec plugin returned no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ExecPluginError {
    /// The kubeconfig names no command.
    #[error("the kubeconfig's exec names no command")]
    NoCommand,
    /// The plugin needs a terminal.
    #[error("{0} needs a terminal (interactiveMode: Always), and there is none")]
    Interactive(String),
    /// The plugin cannot be started.
    #[error("cannot run {program}: check whether it is installed and in PATH")]
    Run {
        /// The command.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The plugin failed.
    #[error("{program} ended with {status} and wrote: {stderr}")]
    Failed {
        /// The command.
        program: String,
        /// The exit status.
        status: ExitStatus,
        /// Its standard error.
        stderr: String,
    },
    /// The plugin took too long.
    #[error("{program} did not end within {after:?}: run it by hand to see what it waits for")]
    TimedOut {
        /// The command.
        program: String,
        /// The time limit.
        after: Duration,
    },
    /// The output is not an `ExecCredential`.
    #[error("the output of {program} is not an ExecCredential with a status, as JSON")]
    Malformed {
        /// The command.
        program: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The output holds no credentials.
    #[error("{0} printed neither a token nor a certificate with its key")]
    NoCredentials(String),
}

impl ExecPluginError {
    /// Whether the same plugin may succeed later, for example because a service it calls is down.
    pub(super) fn is_transient(&self) -> bool {
        use io::ErrorKind::{NotFound, PermissionDenied};
        match self {
            Self::Failed { .. } | Self::TimedOut { .. } => true,
            Self::Run { source, .. } => ![NotFound, PermissionDenied].contains(&source.kind()),
            Self::NoCommand
            | Self::Interactive(_)
            | Self::Malformed { .. }
            | Self::NoCredentials(_) => false,
        }
    }
}

/// The credentials that a plugin returned.
pub(super) enum PluginCredentials {
    Token(String),
    /// A client certificate and its key, as PEM.
    Certificate {
        certificate: String,
        key: String,
    },
}

#[derive(Deserialize)]
struct ExecCredential {
    status: ExecCredentialStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Runs the plugin that `exec` describes. Kills it at the time limit, and if the future is dropped.
pub(super) async fn run(exec: &ExecConfig) -> Result<PluginCredentials, ExecPluginError> {
    let program = exec.command.clone().ok_or(ExecPluginError::NoCommand)?;
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(ExecPluginError::Interactive(program));
    }
    match timeout(TIMEOUT, run_to_end(command(exec, &program))).await {
        Ok(Ok((status, stdout, _))) if status.success() => match serde_json::from_slice(&stdout) {
            Ok(ExecCredential { status }) => {
                status.credentials().ok_or(ExecPluginError::NoCredentials(program))
            }
            Err(source) => Err(ExecPluginError::Malformed { program, source }),
        },
        Ok(Ok((status, _, stderr))) => {
            let stderr = String::from_utf8_lossy(&stderr).trim().replace('\n', "; ");
            let stderr = one_line(&stderr).chars().take(MAX_STDERR_CHARS).collect();
            Err(ExecPluginError::Failed { program, status, stderr })
        }
        Ok(Err(source)) => Err(ExecPluginError::Run { program, source }),
        Err(_elapsed) => Err(ExecPluginError::TimedOut { program, after: TIMEOUT }),
    }
}

impl ExecCredentialStatus {
    /// The credentials, if any; a certificate takes precedence over a token.
    fn credentials(self) -> Option<PluginCredentials> {
        match (self.client_certificate_data, self.client_key_data) {
            (Some(certificate), Some(key)) => {
                Some(PluginCredentials::Certificate { certificate, key })
            }
            (Some(_), None) | (None, _) => self.token.map(PluginCredentials::Token),
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
    let info = json!({ "apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec });
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end and returns its status, standard output, and standard error.
async fn run_to_end(mut command: Command) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let mut process = KillOnDrop(AwaitedChild::spawn(&mut command)?);
    let (out, err) = (
        process.0.stdout.take().expect("the output is piped"),
        process.0.stderr.take().expect("the output is piped"),
    );
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (mut out, mut err) = (
        pipe::Receiver::from_owned_fd(out.into())?.take(MAX_OUTPUT_BYTES),
        pipe::Receiver::from_owned_fd(err.into())?.take(MAX_OUTPUT_BYTES),
    );
    tokio::try_join!(out.read_to_end(&mut stdout), err.read_to_end(&mut stderr))?;
    loop {
        if let Some(status) = process.0.try_wait()? {
            return Ok((status, stdout, stderr));
        }
        sleep(EXIT_POLL_PERIOD).await;
    }
}

/// A process that is killed when this is dropped.
struct KillOnDrop(AwaitedChild);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Both fail only if it has exited.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
