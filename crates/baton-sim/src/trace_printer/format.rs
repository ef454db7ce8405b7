//! Formats candidates, faults, and events for the trace printer.
//!
//! Pure. Start with [`format_fault`].

use crate::checkers::exclusion::name;
use crate::clock::Moment;
use crate::scenario::{
    CandidateConfig, CandidateFault, CommandConfig, ExternalAction, Fault, FaultKind, LinkFault,
    ServerFault, ServerTarget, StoreFault,
};
use baton_election::identity::Identity;
use baton_election::queue::messages::{Announcement, QueueEvent, SessionId};
use baton_election::record::messages::{RecordEvent, Snapshot};
use baton_election::transcript;
use std::time::Duration;

pub(super) fn format_candidate(candidate: &CandidateConfig) -> String {
    let CandidateConfig {
        timing,
        clock_rate,
        stays_on_loss,
        asks,
        keeps_state,
        poll_interval,
        push,
        preference,
        command,
        ..
    } = candidate;
    let (lease, renew) = (timing.lease_duration(), timing.renew_deadline());
    let (retry, answer) = (timing.retry_period(), timing.answer_validity());
    let preference = match preference.stand_after() {
        Duration::ZERO => String::new(),
        stand_after => format!("; stands after {stand_after:?}"),
    };
    let command = command.map_or_else(String::new, |CommandConfig { grace, stop_timeout }| {
        format!("; runs a command, SIGTERM {grace:?} before the end, stops within {stop_timeout:?}")
    });
    let on_loss = match (stays_on_loss, asks) {
        (true, _) => "follows again after a loss",
        (false, true) => "exits after a loss, and its application asks",
        (false, false) => "exits after a loss",
    };
    let waiter = if push.has_waiter { "; has a waiting request" } else { "" };
    let file = if push.has_file { "; has a status file" } else { "" };
    let state = if *keeps_state { "; has a state directory" } else { "" };
    format!(
        "lease {lease:?}, deadline {renew:?}, retry {retry:?}, answer {answer:?}, drift {}; \
         clock off by {} ppm; {on_loss}{state}; polled every {poll_interval:?}{waiter}{file}\
         {preference}{command}",
        timing.drift(),
        clock_rate.parts_per_million(),
    )
}

pub(super) fn format_fault(fault: &Fault, affected: Option<usize>, has_begun: bool) -> String {
    let target = affected.map_or_else(String::new, |number| format!("{} ", name(number)));
    let description = match fault.kind {
        FaultKind::Candidate(_, candidate_fault) => {
            format!("{target}{}", format_candidate_fault(candidate_fault))
        }
        FaultKind::Store(store_fault) => format!("the store {}", format_store_fault(store_fault)),
        FaultKind::Server(ServerTarget::From(_), server_fault) => {
            format!(
                "each server from {} on {}",
                affected.unwrap_or_default(),
                format_server_fault(server_fault)
            )
        }
        FaultKind::Server(
            ServerTarget::Server(_) | ServerTarget::QuorumLeader | ServerTarget::OfElectionLeader,
            server_fault,
        ) => {
            format!("server {} {}", affected.unwrap_or_default(), format_server_fault(server_fault))
        }
        FaultKind::External(action) => format!("another client {}", format_external_action(action)),
    };
    match (has_begun, fault.duration) {
        (true, Duration::ZERO) => format!("* {description}"),
        (true, duration) => format!("* {description} for {duration:?}"),
        (false, _) => format!("* end: {description}"),
    }
}

pub(super) fn format_candidate_fault(candidate_fault: CandidateFault) -> String {
    match candidate_fault {
        CandidateFault::Pause => "is suspended".to_owned(),
        CandidateFault::Freeze => "is suspended together with its clock".to_owned(),
        CandidateFault::Stall(max_delay) => {
            format!("is suspended repeatedly, up to {max_delay:?} at a time")
        }
        CandidateFault::Crash => "is killed".to_owned(),
        CandidateFault::Stop => "gets SIGTERM".to_owned(),
        CandidateFault::PreStop => "runs its preStop hook".to_owned(),
        CandidateFault::Unasked => "is no longer polled".to_owned(),
        CandidateFault::Unfit => "is not fit to lead".to_owned(),
        CandidateFault::Resign => "is asked to resign".to_owned(),
        CandidateFault::Stopping => "is told that its Pod ends".to_owned(),
        CandidateFault::Done => "has a worker that is done".to_owned(),
        CandidateFault::Link(LinkFault {
            requests_lost,
            replies_lost,
            late,
            broken,
            duplicated,
            max_delay,
        }) => {
            format!(
                "has a bad link: of 1000 messages, {requests_lost} requests lost, \
                 {replies_lost} replies lost, {late} late by up to {max_delay:?}, \
                 {broken} connections broken, {duplicated} duplicated"
            )
        }
        CandidateFault::WatchDelay(max_delay) => {
            format!("receives watch events up to {max_delay:?} late")
        }
        CandidateFault::WatchLoss => "receives no watch events".to_owned(),
        CandidateFault::ClockRate(rate) => {
            format!("has a clock that is off by {} ppm from now on", rate.parts_per_million())
        }
    }
}

pub(super) fn format_store_fault(store_fault: StoreFault) -> String {
    match store_fault {
        StoreFault::Refuse => "rejects all requests".to_owned(),
        StoreFault::Hang => "hangs".to_owned(),
        StoreFault::CrashLoop => "crashes repeatedly".to_owned(),
        StoreFault::Slow(max_delay) => format!("is up to {max_delay:?} slower"),
        StoreFault::StaleReads => "serves stale reads".to_owned(),
        StoreFault::IgnoreWrites => "answers writes without applying them".to_owned(),
        StoreFault::ShortenLeases => {
            "shortens the lease of writes that acquire the record".to_owned()
        }
        StoreFault::Restore(ago) => format!("is restored to {ago} changes ago"),
    }
}

pub(super) fn format_server_fault(server_fault: ServerFault) -> String {
    match server_fault {
        ServerFault::Partition => "is partitioned from the others".to_owned(),
        ServerFault::Pause => "is suspended".to_owned(),
        ServerFault::Crash => "is down".to_owned(),
        ServerFault::SlowPings(duration) => format!("has pings that take {duration:?}"),
    }
}

pub(super) fn format_external_action(action: ExternalAction) -> String {
    match action {
        ExternalAction::EditLabel => "edits a label".to_owned(),
        ExternalAction::FalseDeletionEvent => {
            "sends watch events that falsely report a deletion".to_owned()
        }
        ExternalAction::CreateStrayNode { .. } => {
            "creates a znode in the queue that no session owns".to_owned()
        }
        ExternalAction::Delete => "deletes the record".to_owned(),
        ExternalAction::Recreate => "deletes the record and recreates it from a copy".to_owned(),
        ExternalAction::ClearHolder => "removes the holder".to_owned(),
        ExternalAction::SetHolder(duration) => format!("sets itself as holder for {duration:?}"),
        ExternalAction::CloseSession(number) => format!("closes the session of {}", name(number)),
    }
}

pub(super) fn format_moment(moment: Moment) -> String {
    let elapsed = moment.since(Moment::START);
    format!("{}.{:06}s", elapsed.as_secs(), elapsed.subsec_micros())
}

pub(super) fn format_record_event(event: &RecordEvent) -> String {
    match event {
        RecordEvent::Read(read) => format!("read: {}", format_record(read.as_ref())),
        RecordEvent::Applied(snapshot) => format!("applied: v{}", snapshot.version.number),
        RecordEvent::Conflict => "conflict".to_owned(),
        RecordEvent::Unknown => "unknown".to_owned(),
        RecordEvent::WatchEvent(seen) => format!("watch event: {}", format_record(seen.as_ref())),
    }
}

pub(super) fn format_record(snapshot: Option<&Snapshot>) -> String {
    let Some(Snapshot { version, record }) = snapshot else { return "none".to_owned() };
    let holder = record.holder.as_ref().map_or("none", Identity::as_str);
    let duration =
        record.duration.map_or_else(|| "-".to_owned(), |duration| format!("{duration:?}"));
    format!("{holder} v{} {duration}", version.number)
}

pub(super) fn format_queue_event(znode: &str, event: &QueueEvent) -> String {
    match event {
        QueueEvent::Connected { session, timeout } => {
            format!("connected: s{} {timeout:?}", session.0)
        }
        QueueEvent::Expired => "expired".to_owned(),
        QueueEvent::Closed => "closed".to_owned(),
        QueueEvent::Made => "made".to_owned(),
        QueueEvent::Joined { name, czxid } => {
            format!("joined: {} z{czxid}", transcript::short_name("", name))
        }
        QueueEvent::Listed(names) => {
            // Only requests quote unusual names.
            let names: Vec<_> = names
                .iter()
                .map(|name| transcript::short_name(znode, name).replace('"', ""))
                .collect();
            format!("listed: {}", names.join(" "))
        }
        QueueEvent::Found { owner } => format!("found: {}", format_owner(*owner)),
        QueueEvent::Checked => "checked".to_owned(),
        QueueEvent::Leader(None) => "leader: none".to_owned(),
        QueueEvent::Leader(Some(Announcement { text, owner })) => {
            format!("leader: {text} of {}", format_owner(*owner))
        }
        QueueEvent::Announced => "announced".to_owned(),
        QueueEvent::Missing => "missing".to_owned(),
        QueueEvent::Saturated => "saturated".to_owned(),
        QueueEvent::Changed => "changed".to_owned(),
        QueueEvent::Refused => "refused".to_owned(),
        QueueEvent::Unknown => "unknown".to_owned(),
        QueueEvent::Disconnected => "disconnected".to_owned(),
        QueueEvent::WatchFired => "watch fired".to_owned(),
    }
}

pub(super) fn format_owner(owner: Option<SessionId>) -> String {
    owner.map_or_else(|| "none".to_owned(), |SessionId(number)| format!("s{number}"))
}
