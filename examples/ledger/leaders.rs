//! Counts leaders: queries the sidecar at every address of some names.
//!
//! It reads metrics, which promise nothing, so it never delays a release. It queries one sidecar
//! after the other, so during a handoff it may count no leader, or two. Start with [`await_one`],
//! which therefore repeats the count.

use crate::client::{Origin, RequestError};
use axum::http::{Request, StatusCode};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::lookup_host;

/// How long a sidecar may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The time between two counts.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The result of one count.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    leading: BTreeSet<SocketAddr>,
    following: BTreeSet<SocketAddr>,
    /// Names that did not resolve, and addresses that did not answer.
    silent: BTreeSet<String>,
}

impl Count {
    /// Whether all `expected` candidates answered and exactly one of them leads.
    pub(crate) fn is_one_leader(&self, expected: usize) -> bool {
        self.leading.len() == 1 && self.following.len() + 1 == expected && self.silent.is_empty()
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leading, following, silent } = self;
        write!(f, "leading {leading:?}, following {following:?}, without an answer {silent:?}")
    }
}

/// Counts until exactly one of `expected` candidates leads, at most for `timeout`. Returns the last
/// count.
pub(crate) async fn await_one(names: &[String], expected: usize, timeout: Duration) -> Count {
    let mut last = Count::default();
    let one_leader = async {
        while !last.is_one_leader(expected) {
            last = count(names).await;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    drop(tokio::time::timeout(timeout, one_leader).await);
    last
}

/// Queries each sidecar once.
async fn count(names: &[String]) -> Count {
    let mut count = Count::default();
    for name in names {
        let Ok(addresses) = resolve(name).await else {
            count.silent.insert(name.clone());
            continue;
        };
        for address in addresses {
            match is_leader(address).await {
                Ok(true) => count.leading.insert(address),
                Ok(false) => count.following.insert(address),
                Err(_) => count.silent.insert(address.to_string()),
            };
        }
    }
    count
}

/// The addresses of a name. The set removes duplicates: a resolver may return an address once for
/// each socket type.
async fn resolve(name: &str) -> io::Result<BTreeSet<SocketAddr>> {
    Ok(lookup_host(name).await?.collect())
}

async fn is_leader(address: SocketAddr) -> Result<bool, RequestError> {
    let sidecar: Origin = format!("http://{address}").parse()?;
    let response = sidecar.send(Request::get("/metrics"), String::new(), REQUEST_TIMEOUT).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("the sidecar answered {}", response.status()).into());
    }
    is_leader_metric(response.body()).ok_or_else(|| "the metrics lack baton_is_leader".into())
}

/// The value of the one `baton_is_leader` sample.
fn is_leader_metric(metrics: &str) -> Option<bool> {
    let line = metrics.lines().find(|line| line.starts_with("baton_is_leader{"))?;
    match line.rsplit(' ').next()? {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::get};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn one_leader_counts_only_when_all_candidates_answered() {
        let (leader, follower) = (sidecar("1").await, sidecar("0").await);
        let both = count(&[leader.clone(), follower.clone()]).await;
        assert!(both.is_one_leader(2));
        assert!(!both.is_one_leader(3), "one candidate has no address yet");
        assert!(!both.is_one_leader(1), "there is one candidate too many");
        assert!(!count(std::slice::from_ref(&follower)).await.is_one_leader(1), "none leads");
        let two_leaders = count(&[leader.clone(), sidecar("1").await]).await;
        assert!(!two_leaders.is_one_leader(2), "two lead");
        for silent in [sidecar("NaN").await, closed().await, "a name without a port".to_owned()] {
            let count = count(&[leader.clone(), silent.clone()]).await;
            assert!(!count.is_one_leader(1) && !count.is_one_leader(2));
            assert_eq!(count.silent, BTreeSet::from([silent]));
        }
    }

    #[tokio::test]
    async fn timeout_returns_the_last_count() {
        let follower = sidecar("0").await;
        let timeout = Duration::from_millis(600);
        let count = await_one(std::slice::from_ref(&follower), 1, timeout).await;
        assert_eq!(count.following, BTreeSet::from([follower.parse().unwrap()]));
    }

    /// The address of a sidecar that serves only metrics.
    async fn sidecar(is_leader: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let metrics = format!(
            "# TYPE baton_is_leader gauge\n\
             baton_is_leader{{election=\"orders\"}} {is_leader}\n\
             baton_x 1\n"
        );
        let router = Router::new().route("/metrics", get(async || metrics));
        tokio::spawn(axum::serve(listener, router).into_future());
        address
    }

    /// An address that nothing listens on.
    async fn closed() -> String {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
    }
}
