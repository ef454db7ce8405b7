//! A world last_answer in the words of the transcripts: what reaches a candidate, a line `----`, and all that it says.
//!
//! Times are true ones; what a candidate's clock shows stands beside them where it matters.

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

/// Writes down what happens.
pub(crate) struct TracePrinter {
    text: String,
    last_was_output: bool,
    /// The name of each candidate's newest znode.
    own: Vec<String>,
    /// Renewals and answers that change nothing are left out.
    last_answer: Vec<Option<String>>,
}

impl TracePrinter {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut text = String::new();
        for (number, candidate) in scenario.candidates.iter().enumerate() {
            writeln!(text, "# {}: {}", name(number), format_candidate(candidate))
                .expect("a string takes all");
        }
        let candidates = scenario.candidates.len();
        Self {
            text,
            last_was_output: true,
            own: vec![String::new(); candidates],
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
        writeln!(self.text, "{line}").expect("a string takes all");
    }

    fn input_line(&mut self, context: &TraceContext<'_>, number: usize, what: &str, now: Instant) {
        let shown = context.local_time(number);
        let late = shown.since(now);
        let late = if late.is_zero() {
            String::new()
        } else {
            format!(", {late:?} after it looked at its clock")
        };
        self.input(
            context,
            &format!("{} {what} (its clock: {}{late})", name(number), transcript::instant(shown)),
        );
    }
}

/// A machine whose requests and events can be last_answer; `own` is the name of the candidate's newest znode, where it has any.
pub(crate) trait Printable: Election {
    /// FaultKind it asks.
    fn request(own: &str, request: &Self::Request) -> String;
    /// FaultKind it hears.
    fn event(own: &str, event: &Self::Event) -> String;
    /// The name of the znode that it hears to be its own.
    fn own(event: &Self::Event) -> Option<&str>;
}

impl Printable for RecordElection {
    fn request(_: &str, request: &RecordRequest) -> String {
        transcript::record_request(request)
    }

    fn event(_: &str, event: &RecordEvent) -> String {
        format_record_event(event)
    }

    fn own(_: &RecordEvent) -> Option<&str> {
        None
    }
}

impl Printable for QueueElection {
    fn request(own: &str, request: &QueueRequest) -> String {
        transcript::queue_request(own, request)
    }

    fn event(own: &str, event: &QueueEvent) -> String {
        format_queue_event(own, event)
    }

    fn own(event: &QueueEvent) -> Option<&str> {
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
            TraceEvent::ProcessExited(number, end) => {
                self.input(context, &format!("{} ends: {end:?}", name(*number)));
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
                self.output(*number, &format!("> {}", E::request(&self.own[*number], request)));
            }
            TraceEvent::RequestPerformed(number, request, reply) => {
                let own = &self.own[*number];
                let (request, reply) = (E::request(own, request), E::event(own, reply));
                let line = format!("the store does for {}: {request}: {reply}", name(*number));
                self.input(context, &line);
            }
            TraceEvent::ReplyReceived(number, event, now)
            | TraceEvent::WatchEventReceived(number, event, now) => {
                if let Some(own) = E::own(event) {
                    own.clone_into(&mut self.own[*number]);
                }
                let line = E::event(&self.own[*number], event);
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
    /// The application of `number` reads `status`. Only a change is printed.
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
                format!("tells its application: leading, token {}, until {until}", promise.token)
            }
            Status::Unknown | Status::Following { .. } | Status::Resigning => {
                "tells its application: not leading".to_owned()
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
    let stays_on_loss =
        if *stays_on_loss { "stays_on_loss when it lost" } else { "ends when it lost" };
    format!(
        "lease {lease:?}, deadline {renew:?}, retry {retry:?}, answer {answer:?}, drift {}; clock off by {} ppm; {stays_on_loss}; asked every {poll_interval:?}",
        timing.drift(),
        clock_rate.parts_per_million(),
    )
}

fn format_fault(fault: &Fault, affected: Option<usize>, begins: bool) -> String {
    let target = affected.map_or_else(String::new, |number| format!("{} ", name(number)));
    let what = match fault.kind {
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
        FaultKind::External(action) => format!("a stranger {}", format_external_action(action)),
    };
    match (begins, fault.duration) {
        (true, Duration::ZERO) => format!("* {what}"),
        (true, duration) => format!("* {what} for {duration:?}"),
        (false, _) => format!("* over: {what}"),
    }
}

fn format_candidate_fault(candidate_fault: CandidateFault) -> String {
    match candidate_fault {
        CandidateFault::Pause => "stands still".to_owned(),
        CandidateFault::Freeze => "stands still, and its clock too".to_owned(),
        CandidateFault::Stall(max_delay) => format!("is starved, {max_delay:?} at a time"),
        CandidateFault::Crash => "is killed".to_owned(),
        CandidateFault::Stop => "is last_answer to stop".to_owned(),
        CandidateFault::PreStop => "is last_answer that it will be stopped".to_owned(),
        CandidateFault::Unasked => "is not asked any more".to_owned(),
        CandidateFault::Link(LinkFault {
            requests_lost,
            replies_lost,
            late,
            broken,
            duplicated,
            max_delay,
        }) => {
            format!(
                "has a bad link: of 1000 {requests_lost} requests lost, {replies_lost} replies lost, {late} late, {broken} broken, \
             {duplicated} duplicated, up to {max_delay:?} late"
            )
        }
        CandidateFault::WatchDelay(max_delay) => format!("hears news up to {max_delay:?} late"),
        CandidateFault::WatchLoss => "hears no news".to_owned(),
        CandidateFault::ClockRate(rate) => {
            format!("has a clock that is off by {} ppm from now on", rate.parts_per_million())
        }
    }
}

fn format_store_fault(store_fault: StoreFault) -> String {
    match store_fault {
        StoreFault::Refuse => "refuses".to_owned(),
        StoreFault::Hang => "hangs".to_owned(),
        StoreFault::CrashLoop => "dies again and again".to_owned(),
        StoreFault::Slow(max_delay) => format!("is up to {max_delay:?} slow"),
        StoreFault::StaleReads => "answers reads from the past".to_owned(),
        StoreFault::IgnoreWrites => "answers writes that it does not do".to_owned(),
        StoreFault::ShortenLeases => "shortens the lease of writes that acquire it".to_owned(),
        StoreFault::Restore(ago) => format!("is as it was {ago} changes ago"),
    }
}

fn format_server_fault(server_fault: ServerFault) -> String {
    match server_fault {
        ServerFault::Partition => "is cut off from the others".to_owned(),
        ServerFault::Pause => "stands still".to_owned(),
        ServerFault::Crash => "is down".to_owned(),
        ServerFault::SlowPings(takes) => format!("has pings that take {takes:?}"),
    }
}

fn format_external_action(action: ExternalAction) -> String {
    match action {
        ExternalAction::EditLabel => "edits a label".to_owned(),
        ExternalAction::FalseDeletionEvent => "starts a rumour".to_owned(),
        ExternalAction::CreateStrayNode { .. } => {
            "leaves a znode in the line that no session owns".to_owned()
        }
        ExternalAction::Delete => "deletes the record".to_owned(),
        ExternalAction::Recreate => "deletes the record and makes it anew from a copy".to_owned(),
        ExternalAction::ClearHolder => "removes the holder".to_owned(),
        ExternalAction::SetHolder(duration) => format!("puts himself in for {duration:?}"),
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
        RecordEvent::Noticed(noticed) => format!("noticed: {}", format_record(noticed.as_ref())),
    }
}

fn format_record(snapshot: Option<&Snapshot>) -> String {
    let Some(Snapshot { version, record }) = snapshot else { return "none".to_owned() };
    let holder = record.holder.as_ref().map_or("nobody", Identity::as_str);
    let duration =
        record.duration.map_or_else(|| "-".to_owned(), |duration| format!("{duration:?}"));
    format!("{holder} v{} {duration}", version.number)
}

fn format_queue_event(own: &str, event: &QueueEvent) -> String {
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
            // Only a request quotes what is not named as usual.
            let names: Vec<_> =
                names.iter().map(|name| transcript::nickname(own, name).replace('"', "")).collect();
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
    owner.map_or_else(|| "nobody".to_owned(), |SessionId(number)| format!("s{number}"))
}
