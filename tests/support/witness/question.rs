//! `GET /leader` over a kept connection. The prober of the process tests uses it, too.

use super::Reply;
use std::time::Duration;
use ureq::Agent;

/// How long to wait for an answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// A client that keeps its connection and accepts every status.
pub(crate) fn agent() -> Agent {
    let config = Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        // Not the global timeout, for which ureq starts a thread per request.
        .timeout_connect(Some(TIMEOUT))
        .timeout_recv_response(Some(TIMEOUT))
        .timeout_recv_body(Some(TIMEOUT));
    Agent::new_with_config(config.build())
}

/// Asks once. A failure is a text: only people read it.
pub(crate) fn ask(agent: &Agent, url: &str) -> Result<Reply, String> {
    let mut answer = agent.get(url).call().map_err(|error| error.to_string())?;
    let body = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
    let header = answer.headers().get("fencing-token");
    let fencing_token = header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Ok(Reply { status: answer.status().as_u16(), fencing_token, body })
}
