//! Prints a run in the notation of the transcripts: an input of a candidate, a line `----`, and its
//! outputs.
//!
//! Pure. Start with [`TracePrinter`]. Times are true times, followed by the reading of a
//! candidate's clock where it matters.

mod format;

use crate::checkers::exclusion::name;
use crate::scenario::Scenario;
use crate::trace::{CommandEvent, Observer, TraceContext, TraceEvent};
use baton_election::claim::FencingToken;
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use baton_election::machine::Election;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{QueueEvent, QueueRequest};
use baton_election::record::RecordElection;
use baton_election::record::messages::{RecordEvent, RecordRequest};
use baton_election::transcript;
use format::{
    format_candidate, format_fault, format_moment, format_queue_event, format_record_event,
};
use std::fmt::Write as _;

/// Collects the printed trace.
#[derive(Clone)]
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

    /// Takes the text that was printed since the last call.
    pub(crate) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
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
        let local_time = context.local_time(number);
        let elapsed = local_time.since(now);
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
                transcript::instant(local_time)
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
                self.input(context, &format_fault(fault, *affected, true));
            }
            TraceEvent::FaultEnded(fault, affected) => {
                self.input(context, &format_fault(fault, *affected, false));
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
            TraceEvent::Ordered(number, _, order, _) => {
                self.input(context, &format!("{} receives the order {order:?}", name(*number)));
            }
            TraceEvent::OrderSettled(number, _, outcome, _) => {
                self.output(*number, &format!("the order ended: {outcome:?}"));
            }
            TraceEvent::WithdrawalEnded(..)
            | TraceEvent::WorkDone(..)
            | TraceEvent::Withdrew(..)
            | TraceEvent::CampaignResumed(..) => self.print_withdrawal(context, event),
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
            TraceEvent::Command(number, token, command) => {
                self.print_command(context, *number, *token, *command);
            }
            TraceEvent::QueryAnswered(number, _, answer, now) => {
                self.print_answer(context, *number, &answer.status, *now);
            }
        }
    }
}

impl TracePrinter {
    /// Prints a change of the reasons to stay away.
    fn print_withdrawal<E: Election>(
        &mut self,
        context: &TraceContext<'_>,
        event: &TraceEvent<'_, E>,
    ) {
        let line = if let TraceEvent::WithdrawalEnded(number, cause) = event {
            format!("{} is no longer {cause:?}", name(*number))
        } else if let TraceEvent::WorkDone(number, piece_of_work) = event {
            format!("{} has finished its piece of work {piece_of_work}", name(*number))
        } else if let TraceEvent::Withdrew(number, how) = event {
            format!("{} withdraw: {how:?}", name(*number))
        } else if let TraceEvent::CampaignResumed(number, from) = event {
            format!("{} campaign from {}", name(*number), transcript::instant(*from))
        } else {
            return;
        };
        self.input(context, &line);
    }

    /// Prints what happens to the command of candidate `number`.
    fn print_command(
        &mut self,
        context: &TraceContext<'_>,
        number: usize,
        token: FencingToken,
        event: CommandEvent,
    ) {
        let happens = match event {
            CommandEvent::Ordered => "is ordered",
            CommandEvent::Started => "runs",
            CommandEvent::Ending => "is stopped, because leadership ends",
            CommandEvent::Ended => "has ended",
        };
        let line = format!("the command of {} {happens}, token {token}", name(number));
        self.input(context, &line);
    }

    /// Prints the answer to the application of candidate `number`, if it changed.
    fn print_answer(
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
