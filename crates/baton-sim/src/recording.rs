//! A run as a list of facts that a page can draw, each with the line that the trace printer prints.
//!
//! Pure. Start with [`Record`]. The lab draws live runs and trace files from the same records.

use crate::checkers::{Inspect, Violation};
use crate::clock::Moment;
use crate::json::Json;
use crate::scenario::{CandidateFault, Fault, FaultKind, Scenario, StoreConfig};
use crate::trace::{Observer, TraceContext, TraceEvent};
use crate::trace_printer::{Printable, TracePrinter};
use baton_election::claim::{Claim, FencingToken};
use baton_election::identity::Identity;
use baton_election::leadership::Status;
use baton_election::machine::{Diagnostic, Event as _, Outcome, Request as _, Transition};

/// One event of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The true time of the event.
    pub at: Moment,
    /// The event.
    pub fact: Fact,
    /// The event in the notation of traces; empty if a trace leaves it out.
    pub text: String,
}

/// An event as a page needs it. A `usize` is a candidate's index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact {
    /// A fault starts, which affects this candidate if any, and ends then.
    FaultBegan(&'static str, Option<usize>, Moment),
    /// A fault ends.
    FaultEnded(&'static str, Option<usize>),
    /// The clock of a candidate runs this many parts per million off from now on.
    ClockRate(usize, i64),
    /// A process starts.
    Started(usize),
    /// A process exits.
    Exited(usize),
    /// A candidate holds a claim until that moment, at the present rate of its clock.
    Claimed(usize, FencingToken, Moment),
    /// A candidate holds no claim any more.
    ClaimEnded(usize),
    /// An application is promised leadership until that moment.
    Promised(usize, FencingToken, Moment),
    /// A candidate sends a request of this verb.
    Sent(usize, &'static str),
    /// The store has performed a request of this verb, which resulted in this version if it wrote
    /// a record.
    Performed(usize, &'static str, Option<u128>),
    /// A reply with this outcome reaches a candidate.
    Replied(usize, &'static str),
    /// A watch event reaches a candidate.
    Notified(usize),
    /// The store names this candidate, or another client or none, as the holder.
    Holder(Option<usize>),
    /// A candidate's role changes: `leads`, `lost`, `released`, or `follows` that candidate.
    Role(usize, &'static str, Option<usize>),
    /// Anything else that traces show.
    Noted(Option<usize>),
}

/// Records a run.
#[derive(Clone)]
pub(crate) struct Recorder {
    printer: TracePrinter,
    identities: Vec<Option<Identity>>,
    /// The claim of each candidate, and when it ends by the clock's rate at the last event.
    claims: Vec<Option<(Claim, Moment)>>,
    records: Vec<Record>,
}

impl Recorder {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let candidates = scenario.candidates.len();
        let mut printer = TracePrinter::new(scenario);
        let text = printer.take_text();
        let head = Record { at: Moment::START, fact: Fact::Noted(None), text };
        let mut records = vec![head];
        for (number, candidate) in scenario.candidates.iter().enumerate() {
            let fact = Fact::ClockRate(number, candidate.clock_rate.parts_per_million());
            records.push(Record { at: Moment::START, fact, text: String::new() });
        }
        let (identities, claims) = (vec![None; candidates], vec![None; candidates]);
        Self { printer, identities, claims, records }
    }

    /// Takes the records since the last call.
    pub(crate) fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    fn candidate(&self, identity: Option<&Identity>) -> Option<usize> {
        identity?;
        self.identities.iter().position(|other| other.as_ref() == identity)
    }

    /// Records the new end of each claim whose clock now runs at another rate.
    fn revise_claims(&mut self, context: &TraceContext<'_>) {
        for (number, held) in self.claims.iter_mut().enumerate() {
            let Some((claim, until)) = held else { continue };
            let revised = context.clocks[number].when(claim.deadline());
            if revised != *until && revised > context.now {
                *until = revised;
                let fact = Fact::Claimed(number, claim.token(), revised);
                self.records.push(Record { at: context.now, fact, text: String::new() });
            }
        }
    }

    fn fact<E: Printable + Inspect>(
        &mut self,
        context: &TraceContext<'_>,
        event: &TraceEvent<'_, E>,
    ) -> Option<Fact> {
        Some(match event {
            TraceEvent::FaultBegan(fault, affected) => {
                Fact::FaultBegan(fault_name(fault), candidate_of(fault, *affected), fault.end())
            }
            TraceEvent::FaultEnded(fault, affected) => {
                Fact::FaultEnded(fault_name(fault), candidate_of(fault, *affected))
            }
            TraceEvent::ProcessStarted(number, identity, _) => {
                self.identities[*number] = Some((*identity).clone());
                Fact::Started(*number)
            }
            TraceEvent::ProcessExited(number, _) => {
                self.claims[*number] = None;
                Fact::Exited(*number)
            }
            TraceEvent::ClaimPublished(number, None) => {
                self.claims[*number] = None;
                Fact::ClaimEnded(*number)
            }
            TraceEvent::ClaimPublished(number, Some(claim)) => {
                let until = context.clocks[*number].when(claim.deadline());
                self.claims[*number] = Some((*claim, until));
                Fact::Claimed(*number, claim.token(), until)
            }
            TraceEvent::QueryAnswered(number, _, answer, queried_at) => match &answer.status {
                Status::Leading(promise) => {
                    let until = context.clocks[*number].when(*queried_at + promise.valid_for);
                    Fact::Promised(*number, promise.token, until)
                }
                Status::Unknown | Status::Following { .. } | Status::Resigning => {
                    Fact::Noted(Some(*number))
                }
            },
            TraceEvent::RequestSent(number, request, _) => {
                Fact::Sent(*number, request.verb().as_str())
            }
            TraceEvent::RequestPerformed(number, request, reply) => {
                Fact::Performed(*number, request.verb().as_str(), E::written_version(reply))
            }
            TraceEvent::ReplyReceived(number, reply, _) => {
                Fact::Replied(*number, outcome_name(reply.outcome()))
            }
            TraceEvent::WatchEventReceived(number, ..) => Fact::Notified(*number),
            TraceEvent::HolderChanged(holder, _) => Fact::Holder(self.candidate(*holder)),
            TraceEvent::Transitioned(number, transition) => self.role(*number, transition),
            TraceEvent::Ordered(number, ..)
            | TraceEvent::OrderSettled(number, ..)
            | TraceEvent::WithdrawalEnded(number, _)
            | TraceEvent::Withdrew(number, _)
            | TraceEvent::CampaignResumed(number, _)
            | TraceEvent::WorkDone(number, _)
            | TraceEvent::Command(number, ..) => Fact::Noted(Some(*number)),
            TraceEvent::Disturbed(_)
            | TraceEvent::WatchImpaired(_)
            | TraceEvent::HolderDeparted(_)
            | TraceEvent::SessionForgotten => return None,
        })
    }

    fn role<D: Diagnostic>(&self, number: usize, transition: &Transition<D>) -> Fact {
        match transition {
            Transition::Following { leader } => {
                Fact::Role(number, "follows", self.candidate(leader.as_ref()))
            }
            Transition::Leading { .. } => Fact::Role(number, "leads", Some(number)),
            Transition::Lost { .. } => Fact::Role(number, "lost", None),
            Transition::Resigned { .. } => Fact::Role(number, "released", None),
            Transition::StoreWentBack { .. }
            | Transition::Diagnosed(_)
            | Transition::ReleasedForEndedRun { .. } => Fact::Noted(Some(number)),
        }
    }
}

impl<E: Printable + Inspect> Observer<E> for Recorder {
    fn observe(&mut self, context: &TraceContext<'_>, event: &TraceEvent<'_, E>) {
        self.revise_claims(context);
        self.printer.observe(context, event);
        let text = self.printer.take_text();
        let Some(fact) = self.fact(context, event) else { return };
        if fact_is_silent(&fact) && text.is_empty() {
            return;
        }
        self.records.push(Record { at: context.now, fact, text });
        if let TraceEvent::FaultBegan(
            Fault { kind: FaultKind::Candidate(_, CandidateFault::ClockRate(rate)), .. },
            Some(number),
        ) = event
        {
            let fact = Fact::ClockRate(*number, rate.parts_per_million());
            self.records.push(Record { at: context.now, fact, text: String::new() });
        }
    }
}

/// Whether only its text makes the record worth keeping.
const fn fact_is_silent(fact: &Fact) -> bool {
    matches!(fact, Fact::Noted(_))
}

/// The candidate that a fault affects. Other faults may affect a server.
const fn candidate_of(fault: &Fault, affected: Option<usize>) -> Option<usize> {
    match fault.kind {
        FaultKind::Candidate(..) => affected,
        FaultKind::Store(_) | FaultKind::Server(..) | FaultKind::External(_) => None,
    }
}

/// A word for the kind of a fault, by which a page chooses how to draw it.
const fn fault_name(fault: &Fault) -> &'static str {
    match fault.kind {
        FaultKind::Candidate(_, fault) => match fault {
            CandidateFault::Pause => "pause",
            CandidateFault::Freeze => "freeze",
            CandidateFault::Stall(_) => "stall",
            CandidateFault::Crash => "crash",
            CandidateFault::Stop => "stop",
            CandidateFault::PreStop
            | CandidateFault::Unasked
            | CandidateFault::Unfit
            | CandidateFault::Resign
            | CandidateFault::Stopping
            | CandidateFault::Done => "order",
            CandidateFault::Link(_) => "link",
            CandidateFault::WatchLoss | CandidateFault::WatchDelay(_) => "watch",
            CandidateFault::ClockRate(_) => "clock",
        },
        FaultKind::Store(_) => "store",
        FaultKind::Server(..) => "server",
        FaultKind::External(_) => "external",
    }
}

const fn outcome_name(outcome: Outcome) -> &'static str {
    outcome.as_str()
}

/// Writes each record as an array: time, kind, candidate, two details, and text.
pub fn write_records(json: &mut Json, records: &[Record]) {
    json.array(|json| {
        for record in records {
            json.array(|json| {
                json.moment(record.at);
                write_fact(json, &record.fact);
                json.string(record.text.trim());
            });
        }
    });
}

fn write_fact(json: &mut Json, fact: &Fact) {
    let none = None::<u8>;
    match fact {
        Fact::FaultBegan(name, candidate, until) => {
            json.string("fault").option(*candidate).string(name).moment(*until)
        }
        Fact::FaultEnded(name, candidate) => {
            json.string("fault-end").option(*candidate).string(name).option(none)
        }
        Fact::ClockRate(candidate, off) => {
            json.string("clock").value(candidate).value(off).option(none)
        }
        Fact::Started(candidate) => json.string("start").value(candidate).option(none).option(none),
        Fact::Exited(candidate) => json.string("exit").value(candidate).option(none).option(none),
        Fact::Claimed(candidate, token, until) => {
            json.string("claim").value(candidate).string(&token.to_string()).moment(*until)
        }
        Fact::ClaimEnded(candidate) => {
            json.string("claim-end").value(candidate).option(none).option(none)
        }
        Fact::Promised(candidate, token, until) => {
            json.string("promise").value(candidate).string(&token.to_string()).moment(*until)
        }
        Fact::Sent(candidate, verb) => {
            json.string("sent").value(candidate).string(verb).option(none)
        }
        Fact::Performed(candidate, verb, version) => {
            json.string("performed").value(candidate).string(verb);
            match version {
                Some(version) => json.string(&version.to_string()),
                None => json.option(none),
            }
        }
        Fact::Replied(candidate, outcome) => {
            json.string("reply").value(candidate).string(outcome).option(none)
        }
        Fact::Notified(candidate) => {
            json.string("watch").value(candidate).option(none).option(none)
        }
        Fact::Holder(candidate) => {
            json.string("holder").option(*candidate).option(none).option(none)
        }
        Fact::Role(candidate, role, leader) => {
            json.string("role").value(candidate).string(role).option(*leader)
        }
        Fact::Noted(candidate) => json.string("note").option(*candidate).option(none).option(none),
    };
}

/// Adds what a page needs of `scenario` to an object: its end, its kind of store, the durations of
/// its candidates in seconds, and the starts of its faults.
pub fn write_scenario(json: &mut Json, scenario: &Scenario) {
    json.key("end").moment(scenario.end).key("store").string(match scenario.store {
        StoreConfig::Record(_) => "record",
        StoreConfig::Ensemble(_) => "queue",
    });
    json.key("candidates").array(|json| {
        for candidate in &scenario.candidates {
            let timing = candidate.timing;
            json.object(|json| {
                for (name, duration) in [
                    ("lease", timing.lease_duration()),
                    ("renew", timing.renew_deadline()),
                    ("retry", timing.retry_period()),
                    ("answer", timing.answer_validity()),
                ] {
                    json.key(name).value(duration.as_secs_f64());
                }
            });
        }
    });
    json.key("faults").array(|json| {
        for fault in &scenario.faults {
            json.moment(fault.at);
        }
    });
}

/// Writes a violation as an object: the property, the time, and the observation.
pub(crate) fn write_violation(json: &mut Json, violation: &Violation) {
    json.object(|json| {
        json.key("property").string(violation.property).key("at").moment(violation.at);
        json.key("detail").string(&violation.detail);
    });
}
