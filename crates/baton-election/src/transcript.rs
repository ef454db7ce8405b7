//! One-line descriptions of requests and transitions, for transcripts and simulator traces.
//!
//! Pure. Start with [`transition`].

use crate::identity::Identity;
use crate::instant::Instant;
use crate::machine::{Diagnostic, Transition};
use crate::queue::messages::QueueRequest;
use crate::record::messages::{Intent, RecordRequest};

/// Describes a transition, such as `leads, token 7`.
pub fn transition<D: Diagnostic>(transition: &Transition<D>) -> String {
    match transition {
        Transition::Following { leader: Some(leader) } => format!("follows {leader}"),
        Transition::Following { leader: None } => "follows no leader".to_owned(),
        Transition::Leading { token } => format!("leads, token {token}"),
        Transition::Lost { token, reason } => format!("lost token {token}: {reason}"),
        Transition::StoreWentBack { token, version } => {
            format!("store restored: version {version} is below token {token}")
        }
        Transition::Diagnosed(diagnostic) => format!("diagnosed: {diagnostic}"),
        Transition::Resigned { token, reason } => format!("released token {token}: {reason}"),
        Transition::ReleasedForEndedRun { identity } => format!("released on behalf of {identity}"),
    }
}

/// Describes a request of the record election, such as `replace v3 to renew: us_1 15s transitions
/// 0`.
pub fn record_request(request: &RecordRequest) -> String {
    let RecordRequest::Write(write) = request else { return "read".to_owned() };
    let over = write
        .over
        .as_ref()
        .map_or_else(|| "create".to_owned(), |over| format!("replace v{}", over.number));
    let intent = match write.intent {
        Intent::Acquire => "acquire",
        Intent::Renew => "renew",
        Intent::Release => "release",
    };
    let holder = write.holder.as_ref().map_or("none", Identity::as_str);
    format!("{over} to {intent}: {holder} {:?} transitions {}", write.duration, write.transitions)
}

/// Describes a request of the queue election, such as `check own`. `own` is the candidate's newest
/// znode.
pub fn queue_request(own: &str, request: &QueueRequest) -> String {
    match request {
        QueueRequest::Begin { timeout } => format!("begin a session of {timeout:?}"),
        QueueRequest::Resume { timeout } => format!("resume the session, of {timeout:?}"),
        QueueRequest::Close => "close the session".to_owned(),
        QueueRequest::MakePath => "make the path".to_owned(),
        QueueRequest::Join { prefix, identity } => {
            format!("join as {}…: {identity}", &prefix[..11])
        }
        QueueRequest::List => "list".to_owned(),
        QueueRequest::Watch { name } => format!("watch {}", short_name(own, name)),
        QueueRequest::Check { name } => format!("check {}", short_name(own, name)),
        QueueRequest::ReadLeader => "read the leader".to_owned(),
        QueueRequest::Announce { name, text, replaces } => {
            let suffix = if *replaces { ", replacing the old announcement" } else { "" };
            format!("check {} and announce {text:?}{suffix}", short_name(own, name))
        }
    }
}

/// Shortens a znode name: to `own` for the candidate's own znode, to the sequence number for names
/// of our form, and to the quoted name for all others.
pub fn short_name(own: &str, name: &str) -> String {
    let sequence = name.rsplit_once("-latch-").and_then(|(_, digits)| digits.parse::<u32>().ok());
    match sequence {
        _ if name == own => "own".to_owned(),
        Some(sequence) => sequence.to_string(),
        None => format!("{name:?}"),
    }
}

/// Formats an instant as the time since boot, in seconds.
pub fn instant(instant: Instant) -> String {
    let elapsed = instant.elapsed_since_boot();
    // Jitter makes smaller digits meaningless.
    format!("{}.{:03}s", elapsed.as_secs(), elapsed.subsec_millis())
}
