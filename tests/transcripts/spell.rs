//! How a machine's words are spelled in stories.
//!
//! Pure. Shared with `tests/prove`, whose failures are told in the same words.

use baton::clock::Instant;
use baton::election::Transition;
use baton::election::record::{Intent, LeaseRequest};
use baton::election::zookeeper::words::ZooKeeperRequest;
use baton::identity::Identity;

pub(crate) fn transition(transition: &Transition) -> String {
    match transition {
        Transition::Following { leader: Some(leader) } => format!("follows {leader}"),
        Transition::Following { leader: None } => "follows nobody".to_owned(),
        Transition::Leading { token } => format!("leads, token {token}"),
        Transition::Lost { token, reason } => format!("lost token {token}: {reason}"),
        Transition::StoreWentBack { token, version } => {
            format!("sees that the store went back, from {token} to {version}")
        }
        Transition::Notice(notice) => format!("remarks: {notice}"),
        Transition::Resigned { token, reason } => format!("gave back token {token}: {reason}"),
    }
}

pub(crate) fn lease_request(request: &LeaseRequest) -> String {
    let LeaseRequest::Write(write) = request else { return "read".to_owned() };
    let over = write.over.as_ref().map_or_else(|| "create".to_owned(), |over| format!("replace v{}", over.number));
    let intent = match write.intent {
        Intent::Acquire => "acquire",
        Intent::Renew => "renew",
        Intent::Release => "release",
    };
    let holder = write.holder.as_ref().map_or("nobody", Identity::as_str);
    format!("{over} to {intent}: {holder} {:?} transitions {}", write.duration, write.transitions)
}

/// `own` is the name of the asker's newest znode.
pub(crate) fn zookeeper_request(own: &str, request: &ZooKeeperRequest) -> String {
    match request {
        ZooKeeperRequest::Begin { timeout } => format!("begin a session of {timeout:?}"),
        ZooKeeperRequest::Resume { timeout } => format!("resume the session, of {timeout:?}"),
        ZooKeeperRequest::Close => "close the session".to_owned(),
        ZooKeeperRequest::MakePath => "make the path".to_owned(),
        ZooKeeperRequest::Join { prefix, identity } => format!("join as {}…: {identity}", &prefix[..11]),
        ZooKeeperRequest::List => "list".to_owned(),
        ZooKeeperRequest::Look { name } => format!("look at {}", nickname(own, name)),
        ZooKeeperRequest::Check { name } => format!("check {}", nickname(own, name)),
        ZooKeeperRequest::ReadLeader => "read who leads".to_owned(),
        ZooKeeperRequest::Acknowledge { name, text, replaces } => {
            let over = if *replaces { ", replacing what stands there" } else { "" };
            format!("check {} and acknowledge {text:?}{over}", nickname(own, name))
        }
    }
}

/// A candidate is called by its number, or as it is called where that is not the usual name.
pub(crate) fn nickname(own: &str, name: &str) -> String {
    let number = name.rsplit_once("-latch-").and_then(|(_, number)| number.parse::<u32>().ok());
    match number {
        _ if name == own => "own".to_owned(),
        Some(number) => number.to_string(),
        None => format!("{name:?}"),
    }
}

pub(crate) fn instant(instant: Instant) -> String {
    let elapsed = instant.elapsed_since_boot();
    // To the millisecond: what is below comes from chance.
    format!("{}.{:03}s", elapsed.as_secs(), elapsed.subsec_millis())
}
