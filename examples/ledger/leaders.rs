//! Who leads, by each copy's own word: asks every address behind some names, and counts.
//!
//! It looks on: what a sidecar says in its metrics promises nothing, and nobody counts as having asked. Two
//! copies are asked at slightly different times, so a handoff between two questions can look like none or
//! two; that is why a count is repeated before it is believed.

use crate::client::{NoAnswer, Origin};
use axum::http::{Request, StatusCode};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::lookup_host;

/// How long a copy may take to answer.
const ASKING: Duration = Duration::from_secs(1);

/// The time between two counts.
const PAUSE: Duration = Duration::from_millis(250);

/// One count.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    leading: BTreeSet<SocketAddr>,
    following: BTreeSet<SocketAddr>,
    /// Names without an address, and addresses without an answer.
    silent: BTreeSet<String>,
}

impl Count {
    /// Whether all of so many copies have answered, and exactly one that it leads.
    pub(crate) fn is_one_leader(&self, of: usize) -> bool {
        self.leading.len() == 1 && self.following.len() + 1 == of && self.silent.is_empty()
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leading, following, silent } = self;
        write!(f, "leading {leading:?}, following {following:?}, without an answer {silent:?}")
    }
}

/// Counts until exactly one of so many copies leads, at the longest for `patience`: the last count.
pub(crate) async fn await_one(copies: &[String], of: usize, patience: Duration) -> Count {
    let mut last = Count::default();
    let one = async {
        while !last.is_one_leader(of) {
            last = count(copies).await;
            tokio::time::sleep(PAUSE).await;
        }
    };
    drop(tokio::time::timeout(patience, one).await);
    last
}

/// Asks each copy once.
async fn count(copies: &[String]) -> Count {
    let mut count = Count::default();
    for name in copies {
        let Ok(addresses) = addresses(name).await else {
            count.silent.insert(name.clone());
            continue;
        };
        for address in addresses {
            match is_leader(address).await {
                Ok(true) => count.leading.insert(address),
                Ok(false) => count.following.insert(address),
                Err(_no_answer) => count.silent.insert(address.to_string()),
            };
        }
    }
    count
}

/// Each address once, though a resolver may name one for each kind of socket.
async fn addresses(name: &str) -> io::Result<BTreeSet<SocketAddr>> {
    Ok(lookup_host(name).await?.collect())
}

async fn is_leader(address: SocketAddr) -> Result<bool, NoAnswer> {
    let copy: Origin = format!("http://{address}").parse()?;
    let answer = copy.send(Request::get("/metrics"), String::new(), ASKING).await?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answered {}", answer.status()).into());
    }
    gauge(answer.body()).ok_or_else(|| "its metrics do not say whether it leads".into())
}

/// What the one line of `baton_is_leader` says.
fn gauge(metrics: &str) -> Option<bool> {
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
    async fn one_leader_is_one_only_when_all_have_answered() {
        let (leader, follower) = (copy("1").await, copy("0").await);
        let both = count(&[leader.clone(), follower.clone()]).await;
        assert!(both.is_one_leader(2));
        assert!(!both.is_one_leader(3), "the third has no address yet");
        assert!(!both.is_one_leader(1), "one is there that should have gone");
        assert!(!count(std::slice::from_ref(&follower)).await.is_one_leader(1), "none leads");
        assert!(!count(&[leader.clone(), copy("1").await]).await.is_one_leader(2), "two lead");
        for strange in [copy("NaN").await, gone().await, "a name without a port".to_owned()] {
            let count = count(&[leader.clone(), strange.clone()]).await;
            assert!(!count.is_one_leader(1) && !count.is_one_leader(2));
            assert_eq!(count.silent, BTreeSet::from([strange]));
        }
    }

    #[tokio::test]
    async fn patience_ends_with_the_last_count() {
        let follower = copy("0").await;
        let count = await_one(std::slice::from_ref(&follower), 1, Duration::from_millis(600)).await;
        assert_eq!(count.following, BTreeSet::from([follower.parse().unwrap()]));
    }

    /// A sidecar, as far as it is asked here.
    async fn copy(is_leader: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let metrics = format!(
            "# TYPE baton_is_leader gauge\nbaton_is_leader{{election=\"orders\"}} {is_leader}\nbaton_x 1\n"
        );
        let router = Router::new().route("/metrics", get(async || metrics));
        tokio::spawn(axum::serve(listener, router).into_future());
        address
    }

    /// An address at which nobody listens any more.
    async fn gone() -> String {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
    }
}
