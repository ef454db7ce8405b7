//! Requests and transitions as one line of text each, as in transcripts and in the simulator's traces.
//!
//! Pure. Start with [`transition`].

use crate::identity::Identity;
use crate::instant::Instant;
use crate::machine::{Diagnostic, Transition};
use crate::queue::messages::QueueRequest;
use crate::record::messages::{Intent, RecordRequest};

/// A transition: `leads, token 7`.
pub fn transition<D: Diagnostic>(transition: &Transition<D>) -> String {
    match transition {
        Transition::Following { leader: Some(leader) } => format!("follows {leader}"),
        Transition::Following { leader: None } => "follows nobody".to_owned(),
        Transition::Leading { token } => format!("leads, token {token}"),
        Transition::Lost { token, reason } => format!("lost token {token}: {reason}"),
        Transition::StoreWentBack { token, version } => {
            format!("sees that the store went back, from {token} to {version}")
        }
        Transition::Diagnosed(diagnostic) => format!("remarks: {diagnostic}"),
        Transition::Resigned { token, reason } => format!("gave back token {token}: {reason}"),
    }
}

/// A request of the record machine: `replace v3 to renew: us_1 15s transitions 0`.
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
    let holder = write.holder.as_ref().map_or("nobody", Identity::as_str);
    format!("{over} to {intent}: {holder} {:?} transitions {}", write.duration, write.transitions)
}

/// `own` is the name of the asker's newest znode.
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
        QueueRequest::Look { name } => format!("look at {}", nickname(own, name)),
        QueueRequest::Check { name } => format!("check {}", nickname(own, name)),
        QueueRequest::ReadLeader => "read who leads".to_owned(),
        QueueRequest::Acknowledge { name, text, replaces } => {
            let over = if *replaces { ", replacing what stands there" } else { "" };
            format!("check {} and acknowledge {text:?}{over}", nickname(own, name))
        }
    }
}

/// A candidate is called by its number, or as it is called where that is not the usual name.
pub fn nickname(own: &str, name: &str) -> String {
    let number = name.rsplit_once("-latch-").and_then(|(_, number)| number.parse::<u32>().ok());
    match number {
        _ if name == own => "own".to_owned(),
        Some(number) => number.to_string(),
        None => format!("{name:?}"),
    }
}

/// An instant, as the time since the boot.
pub fn instant(instant: Instant) -> String {
    let elapsed = instant.elapsed_since_boot();
    // To the millisecond: what is below comes from chance.
    format!("{}.{:03}s", elapsed.as_secs(), elapsed.subsec_millis())
}
