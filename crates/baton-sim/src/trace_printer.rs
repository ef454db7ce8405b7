//! Prints a run in the notation of the transcripts: an input of a candidate, a line `----`, and its
//! outputs.
//!
//! Pure. Times are true ones, next to the reading of a candidate's clock where it matters.

use crate::checkers::exclusion::name;
use crate::clock::Moment;
use crate::scenario::{
    CandidateConfig, CandidateFault, ExternalAction, Fault, FaultKind, LinkFault, Scenario,
    ServerFault, ServerTarget, StoreFault,
};
use crate::trace::{Observer, TraceContext, TraceEvent};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use baton_election::machine::{Election, Withdrawal};
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{Acknowledgement, QueueEvent, QueueRequest, SessionId};
use baton_election::record::RecordElection;
use baton_election::record::messages::{RecordEvent, RecordRequest, Snapshot};
use baton_election::transcript;
use std::fmt::Write as _;
use std::time::Duration;

/// Collects the printed trace.
pub(crate) struct TracePrinter {
    text: String,
    last_was_output: bool,
    /// The name of each candidate's newest znode.
    znodes: Vec<String>,
    /// The last answer of each candidate. Answers that change nothing are omitted.
    last_answer: Vec<Option<String>>,
}

impl TracePrinter {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut text = String::new();
        for (number, candidate) in scenario.candidates.iter().enumerate() {
            writeln!(text, "# {}: {}", name(number), format_candidate(candidate))
                .expect("writing to a string cannot fail");
        }
        let candidates = scenario.candidates.len();
        Self {
            text,
            last_was_output: true,
            znodes: vec![String::new(); candidates],
            last_answer: vec![None; candidates],
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn input(&mut self, context: &TraceContext<'_>, line: &str) {
        let gap = if self.last_was_output { "\n" } else { "" };
        self.last_was_output = false;
        self.line(format_args!("{gap}at {} {line}", format_moment(context.now)));
    }

    fn output(&mut self, number: usize, line: &str) {
        if !self.last_was_output {
            self.line(format_args!("----"));
        }
        self.last_was_output = true;
        self.line(format_args!("{} {line}", name(number)));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a string cannot fail");
    }

    fn input_line(&mut self, context: &TraceContext<'_>, number: usize, text: &str, now: Instant) {
        let shown = context.local_time(number);
        let elapsed = shown.since(now);
        let since_read = if elapsed.is_zero() {
            String::new()
        } else {
            format!(", {elapsed:?} after it read its clock")
        };
        self.input(
            context,
            &format!(
                "{} {text} (its clock: {}{since_read})",
                name(number),
                transcript::instant(shown)
            ),
        );
    }
}

/// A machine whose requests and events can be printed. `znode` is the name of the candidate's
/// newest znode, if it has one.
pub(crate) trait Printable: Election {
    /// Formats a request.
    fn request(znode: &str, request: &Self::Request) -> String;
    /// Formats an event.
    fn event(znode: &str, event: &Self::Event) -> String;
    /// The name of the candidate's znode if the event reports it.
    fn own_znode(event: &Self::Event) -> Option<&str>;
}

impl Printable for RecordElection {
    fn request(_: &str, request: &RecordRequest) -> String {
        transcript::record_request(request)
    }

    fn event(_: &str, event: &RecordEvent) -> String {
        format_record_event(event)
    }

    fn own_znode(_: &RecordEvent) -> Option<&str> {
        None
    }
}

impl Printable for QueueElection {
    fn request(znode: &str, request: &QueueRequest) -> String {
        transcript::queue_request(znode, request)
    }

    fn event(znode: &str, event: &QueueEvent) -> String {
        format_queue_event(znode, event)
    }

    fn own_znode(event: &QueueEvent) -> Option<&str> {
        if let QueueEvent::Joined { name, .. } = event { Some(name) } else { None }
    }
}

impl<E: Printable> Observer<E> for TracePrinter {
    fn observe(&mut self, context: &TraceContext<'_>, event: &TraceEvent<'_, E>) {
        match event {
            TraceEvent::FaultBegan(fault, affected) => {
                self.input(context, &format_fault(fault, *affected, true))
            }
            TraceEvent::FaultEnded(fault, affected) => {
                self.input(context, &format_fault(fault, *affected, false))
            }
            TraceEvent::Disturbed(_)
            | TraceEvent::WatchImpaired(_)
            | TraceEvent::HolderDeparted(_)
            | TraceEvent::HolderChanged(..)
            | TraceEvent::SessionForgotten => {}
            TraceEvent::ProcessStarted(number, identity, from) => {
                let line = format!(
                    "{} starts as {identity}, to campaign from {}",
                    name(*number),
                    transcript::instant(*from)
                );
                self.input(context, &line);
            }
            TraceEvent::ProcessExited(number, cause) => {
                self.input(context, &format!("{} exits: {cause:?}", name(*number)));
            }
            TraceEvent::Withdrew(number, Withdrawal::Renewing) => {
                self.input(context, &format!("{} withdraw", name(*number)));
            }
            TraceEvent::Withdrew(number, Withdrawal::Releasing) => {
                self.input(context, &format!("{} withdraw for a release", name(*number)));
            }
            TraceEvent::CampaignResumed(number) => {
                self.input(context, &format!("{} campaign", name(*number)));
            }
            TraceEvent::RequestSent(number, request, _) => {
                self.output(*number, &format!("> {}", E::request(&self.znodes[*number], request)));
            }
            TraceEvent::RequestPerformed(number, request, reply) => {
                let znode = &self.znodes[*number];
                let (request, reply) = (E::request(znode, request), E::event(znode, reply));
                let line = format!("the store performs for {}: {request}: {reply}", name(*number));
                self.input(context, &line);
            }
            TraceEvent::ReplyReceived(number, event, now)
            | TraceEvent::WatchEventReceived(number, event, now) => {
                if let Some(znode) = E::own_znode(event) {
                    znode.clone_into(&mut self.znodes[*number]);
                }
                let line = E::event(&self.znodes[*number], event);
                self.input_line(context, *number, &line, *now);
            }
            TraceEvent::Transitioned(number, transition) => {
                self.output(*number, &transcript::transition(transition));
            }
            TraceEvent::ClaimPublished(number, None) => self.output(*number, "claims nothing"),
            TraceEvent::ClaimPublished(number, Some(claim)) => {
                let until = format_moment(context.clocks[*number].when(claim.deadline()));
                let line = format!(
                    "claims token {} until {} (true time {until})",
                    claim.token(),
                    transcript::instant(claim.deadline())
                );
                self.output(*number, &line);
            }
            TraceEvent::QueryAnswered(number, answer, now) => {
                self.application_reads(context, *number, &answer.status, *now);
            }
        }
    }
}

impl TracePrinter {
    /// Prints the answer that the application of candidate `number` gets, if it changed.
    fn application_reads(
        &mut self,
        context: &TraceContext<'_>,
        number: usize,
        status: &Status,
        now: Instant,
    ) {
        let line = match status {
            Status::Leading(promise) => {
                let until = format_moment(context.clocks[number].when(now + promise.valid_for));
                format!("answers its application: leading, token {}, until {until}", promise.token)
            }
            Status::Unknown | Status::Following { .. } | Status::Resigning => {
                "answers its application: not leading".to_owned()
            }
        };
        if self.last_answer[number].as_deref() != Some(&line) {
            self.input_line(context, number, &line, now);
            self.last_answer[number] = Some(line);
        }
    }
}

fn format_candidate(candidate: &CandidateConfig) -> String {
    let CandidateConfig { timing, clock_rate, stays_on_loss, poll_interval, .. } = candidate;
    let (lease, renew) = (timing.lease_duration(), timing.renew_deadline());
    let (retry, answer) = (timing.retry_period(), timing.answer_validity());
    let on_loss = if *stays_on_loss { "follows again after a loss" } else { "exits after a loss" };
    format!(
        "lease {lease:?}, deadline {renew:?}, retry {retry:?}, answer {answer:?}, drift {}; \
         clock off by {} ppm; {on_loss}; polled every {poll_interval:?}",
        timing.drift(),
        clock_rate.parts_per_million(),
    )
}

fn format_fault(fault: &Fault, affected: Option<usize>, has_begun: bool) -> String {
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

fn format_candidate_fault(candidate_fault: CandidateFault) -> String {
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

fn format_store_fault(store_fault: StoreFault) -> String {
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

fn format_server_fault(server_fault: ServerFault) -> String {
    match server_fault {
        ServerFault::Partition => "is partitioned from the others".to_owned(),
        ServerFault::Pause => "is suspended".to_owned(),
        ServerFault::Crash => "is down".to_owned(),
        ServerFault::SlowPings(duration) => format!("has pings that take {duration:?}"),
    }
}

fn format_external_action(action: ExternalAction) -> String {
    match action {
        ExternalAction::EditLabel => "edits a label".to_owned(),
        ExternalAction::FalseDeletionEvent => {
            "sends watch events that the record is gone".to_owned()
        }
        ExternalAction::CreateStrayNode { .. } => {
            "creates a znode in the queue that no session owns".to_owned()
        }
        ExternalAction::Delete => "deletes the record".to_owned(),
        ExternalAction::Recreate => "deletes the record and recreates it from a copy".to_owned(),
        ExternalAction::ClearHolder => "removes the holder".to_owned(),
        ExternalAction::SetHolder(duration) => format!("sets itself as holder for {duration:?}"),
    }
}

fn format_moment(moment: Moment) -> String {
    let elapsed = moment.since(Moment::START);
    format!("{}.{:06}s", elapsed.as_secs(), elapsed.subsec_micros())
}

fn format_record_event(event: &RecordEvent) -> String {
    match event {
        RecordEvent::Read(read) => format!("read: {}", format_record(read.as_ref())),
        RecordEvent::Applied(snapshot) => format!("applied: v{}", snapshot.version.number),
        RecordEvent::Conflict => "conflict".to_owned(),
        RecordEvent::Unknown => "unknown".to_owned(),
        RecordEvent::Noticed(seen) => format!("noticed: {}", format_record(seen.as_ref())),
    }
}

fn format_record(snapshot: Option<&Snapshot>) -> String {
    let Some(Snapshot { version, record }) = snapshot else { return "none".to_owned() };
    let holder = record.holder.as_ref().map_or("none", Identity::as_str);
    let duration =
        record.duration.map_or_else(|| "-".to_owned(), |duration| format!("{duration:?}"));
    format!("{holder} v{} {duration}", version.number)
}

fn format_queue_event(znode: &str, event: &QueueEvent) -> String {
    match event {
        QueueEvent::Connected { session, timeout } => {
            format!("connected: s{} {timeout:?}", session.0)
        }
        QueueEvent::Expired => "expired".to_owned(),
        QueueEvent::Closed => "closed".to_owned(),
        QueueEvent::Made => "made".to_owned(),
        QueueEvent::Joined { name, czxid } => {
            format!("joined: {} z{czxid}", transcript::nickname("", name))
        }
        QueueEvent::Listed(names) => {
            // Only requests quote unusual names.
            let names: Vec<_> = names
                .iter()
                .map(|name| transcript::nickname(znode, name).replace('"', ""))
                .collect();
            format!("listed: {}", names.join(" "))
        }
        QueueEvent::Found { owner } => format!("found: {}", format_owner(*owner)),
        QueueEvent::Checked => "checked".to_owned(),
        QueueEvent::Leader(None) => "leader: none".to_owned(),
        QueueEvent::Leader(Some(Acknowledgement { text, owner })) => {
            format!("leader: {text} of {}", format_owner(*owner))
        }
        QueueEvent::Acknowledged => "acknowledged".to_owned(),
        QueueEvent::Missing => "missing".to_owned(),
        QueueEvent::Saturated => "saturated".to_owned(),
        QueueEvent::Changed => "changed".to_owned(),
        QueueEvent::Refused => "refused".to_owned(),
        QueueEvent::Unknown => "unknown".to_owned(),
        QueueEvent::Disconnected => "disconnected".to_owned(),
        QueueEvent::Fired => "fired".to_owned(),
    }
}

fn format_owner(owner: Option<SessionId>) -> String {
    owner.map_or_else(|| "none".to_owned(), |SessionId(number)| format!("s{number}"))
}
