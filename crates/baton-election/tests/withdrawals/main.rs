//! Stories of withdrawals: several orders at once, over a real machine and a store in memory.
//!
//! Start with [`Candidate`].

mod fitness;

use baton_election::claim::{FencingToken, Standing};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::{Asker, Leadership, Status};
use baton_election::machine::Election;
use baton_election::record::RecordElection;
use baton_election::record::messages::{
    Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version,
};
use baton_election::timing::{Drift, Jitter, Timing};
use baton_election::withdrawals::OrderOutcome::{Confirmed, Superseded, Unconfirmed, Withdrawn};
use baton_election::withdrawals::WithdrawalEvent::{Settled, StoppingExpired};
use baton_election::withdrawals::{Cause, Order, Ticket, WithdrawalEvent, Withdrawals};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const RESIGN: Order = Order::Resign { hold_off: Duration::from_secs(30) };

fn at(seconds: u64) -> Instant {
    Instant::since_boot(Duration::from_secs(seconds))
}

/// One candidate with client-go's durations, and its store. It takes a turn every second.
struct Candidate {
    machine: RecordElection,
    leadership: Leadership,
    withdrawals: Withdrawals,
    record: Option<Snapshot>,
    /// Whether the store drops requests.
    is_store_away: bool,
    now: Instant,
    events: Vec<WithdrawalEvent>,
}

impl Candidate {
    /// A candidate that campaigns from `from` on.
    fn campaigning_from(from: Instant) -> Self {
        let drift = Drift::default();
        let durations = Timing::suggestion(Duration::from_secs(15), drift);
        let timing = Timing::new(durations, drift).expect("suggested durations are valid");
        let identity = Identity::parse("us_1").expect("a valid identity");
        let mut this = Self {
            machine: RecordElection::new(identity, timing, Jitter::none(), from),
            leadership: Leadership::new(timing.answer_validity()),
            withdrawals: Withdrawals::new(from),
            record: None,
            is_store_away: false,
            now: at(0),
            events: Vec::new(),
        };
        this.turn();
        this
    }

    fn leading() -> Self {
        let this = Self::campaigning_from(at(0));
        assert!(this.leads());
        this
    }

    fn turn(&mut self) {
        loop {
            self.machine.handle_timeout(self.now);
            let promised_until = self.leadership.promised_until();
            self.withdrawals.set_command_runs(self.leadership.is_lent());
            self.withdrawals.turn(&mut self.machine, promised_until, self.now);
            self.leadership.publish(self.machine.standing(), self.now);
            self.events.extend(std::iter::from_fn(|| self.withdrawals.poll_event()));
            let Some(request) = self.machine.poll_request(self.now) else { return };
            let reply = self.perform(request);
            self.machine.handle_event(reply, self.now);
        }
    }

    fn perform(&mut self, request: RecordRequest) -> RecordEvent {
        let write = match request {
            _ if self.is_store_away => return RecordEvent::Unknown,
            RecordRequest::Read => return RecordEvent::Read(self.record.clone()),
            RecordRequest::Write(write) => write,
        };
        let number = self.record.as_ref().map_or(1, |record| record.version.number + 1);
        let record = Record {
            holder: write.holder,
            duration: Some(write.duration),
            transitions: write.transitions,
            acquired: Stamp::default(),
            renewed: Stamp(number.to_string()),
        };
        let snapshot = Snapshot { version: Version { uid: "record".into(), number }, record };
        self.record = Some(snapshot.clone());
        RecordEvent::Applied(snapshot)
    }

    /// Takes turns until its clock reads `seconds`.
    fn until(&mut self, seconds: u64) {
        while self.now < at(seconds) {
            self.now = self.now + SECOND;
            self.turn();
        }
    }

    /// Takes turns until its clock reads `seconds`, while a command runs under the claim.
    fn run_command_until(&mut self, seconds: u64) {
        while self.now < at(seconds) {
            self.leadership.lend(self.now);
            self.until(self.now.elapsed_since_boot().as_secs() + 1);
        }
    }

    fn order(&mut self, order: Order) -> Ticket {
        self.withdrawals.set_command_runs(self.leadership.is_lent());
        let ticket = self.withdrawals.add(order, &mut self.machine, self.now);
        self.leadership.publish(self.machine.standing(), self.now);
        self.turn();
        ticket
    }

    fn end(&mut self, cause: Cause) {
        self.withdrawals.end(cause, &mut self.machine, self.now);
        self.turn();
    }

    fn ask(&mut self, asker: Option<&Asker>) -> bool {
        matches!(self.leadership.promise(asker, self.now).status, Status::Leading(_))
    }

    fn leads(&self) -> bool {
        matches!(self.machine.standing(), Standing::Leading(_))
    }

    fn holds_the_record(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.record.holder.is_some())
    }
}

#[test]
fn release_waits_for_the_last_promise() {
    let mut candidate = Candidate::leading();
    assert!(candidate.ask(None));
    let ticket = candidate.order(RESIGN);
    assert!(!candidate.ask(None) && candidate.holds_the_record(), "the promise holds for 2 s");
    candidate.until(1);
    assert!(candidate.holds_the_record());
    candidate.until(2);
    assert!(!candidate.holds_the_record());
    assert_eq!(candidate.events, [Settled(ticket, Confirmed)]);
}

#[test]
fn release_follows_at_once_when_the_last_asker_is_done() {
    let mut candidate = Candidate::leading();
    let worker = Asker::parse("worker").unwrap();
    assert!(candidate.ask(Some(&worker)));
    candidate.order(Order::Shutdown);
    assert!(candidate.holds_the_record());
    assert!(candidate.leadership.void(Some(&worker), FencingToken::new(1)));
    candidate.turn();
    assert!(!candidate.holds_the_record());
}

#[test]
fn hold_off_counts_from_the_release() {
    let mut candidate = Candidate::leading();
    candidate.ask(None);
    candidate.order(RESIGN);
    candidate.until(31);
    assert!(!candidate.leads(), "it released at 2 s");
    candidate.until(33);
    assert!(candidate.leads());
}

#[test]
fn hold_off_of_an_unconfirmed_release_counts_from_the_claims_end() {
    let mut candidate = Candidate::leading();
    candidate.is_store_away = true;
    let ticket = candidate.order(RESIGN);
    candidate.until(9);
    assert_eq!(candidate.events, [], "the claim ends at 10 s");
    candidate.until(11);
    assert_eq!(candidate.events, [Settled(ticket, Unconfirmed)]);
    candidate.until(20);
    candidate.is_store_away = false;
    candidate.until(39);
    assert!(!candidate.leads() && !candidate.holds_the_record());
    candidate.until(43);
    assert!(candidate.leads());
}

/// An acquisition may still be in flight, so the order counts although there is no claim.
#[test]
fn hold_off_never_counts_from_a_claim_that_ended_before_the_order() {
    let mut candidate = Candidate::leading();
    candidate.is_store_away = true;
    candidate.until(20);
    let ticket = candidate.order(RESIGN);
    candidate.until(21);
    assert_eq!(candidate.events, [Settled(ticket, Unconfirmed)]);
    candidate.is_store_away = false;
    candidate.until(49);
    assert!(!candidate.leads(), "it was ordered at 20 s");
    candidate.until(53);
    assert!(candidate.leads());
}

#[test]
fn polling_does_not_end_a_stop_in_preparation() {
    let mut candidate = Candidate::leading();
    candidate.order(Order::Unasked);
    assert!(!candidate.holds_the_record());
    candidate.order(Order::Stopping { limit: 60 * SECOND });
    candidate.end(Cause::Unasked);
    candidate.until(59);
    assert!(!candidate.leads() && !candidate.holds_the_record());
    candidate.until(62);
    assert!(candidate.leads(), "the preparation has expired");
    assert!(candidate.events.contains(&StoppingExpired));
}

#[test]
fn stopping_holds_the_record_until_it_expires() {
    let mut candidate = Candidate::leading();
    candidate.order(Order::Stopping { limit: 60 * SECOND });
    candidate.until(59);
    assert!(!candidate.leads() && candidate.holds_the_record());
    candidate.until(60);
    assert!(candidate.leads() && candidate.ask(None));
}

#[test]
fn expired_stopping_ends_no_other_withdrawal() {
    let mut candidate = Candidate::leading();
    candidate.order(Order::Stopping { limit: 20 * SECOND });
    candidate.order(RESIGN);
    candidate.until(29);
    assert!(candidate.events.contains(&StoppingExpired));
    assert!(!candidate.leads() && !candidate.holds_the_record());
    candidate.until(31);
    assert!(candidate.leads());
}

#[test]
fn expired_stopping_does_not_cut_the_damping_short() {
    let mut candidate = Candidate::campaigning_from(at(15));
    candidate.order(Order::Stopping { limit: 5 * SECOND });
    candidate.until(14);
    assert!(!candidate.leads());
    candidate.until(16);
    assert!(candidate.leads());
}

#[test]
fn shutdown_never_ends() {
    let mut candidate = Candidate::leading();
    candidate.order(RESIGN);
    candidate.order(Order::Shutdown);
    candidate.end(Cause::Resigned);
    candidate.end(Cause::Shutdown);
    candidate.until(120);
    assert!(!candidate.leads() && !candidate.holds_the_record());
}

#[test]
fn superseded_order_ends_once() {
    let mut candidate = Candidate::leading();
    candidate.ask(None);
    let first = candidate.order(RESIGN);
    let second = candidate.order(RESIGN);
    assert_eq!(candidate.events, [Settled(first, Superseded)]);
    candidate.until(2);
    assert_eq!(candidate.events, [Settled(first, Superseded), Settled(second, Confirmed)]);
}

#[test]
fn order_ends_even_if_its_cause_had_released_before() {
    let mut candidate = Candidate::leading();
    let first = candidate.order(Order::Unasked);
    let second = candidate.order(Order::Unasked);
    assert_eq!(candidate.events, [Settled(first, Confirmed), Settled(second, Confirmed)]);
}

#[test]
fn stopping_is_settled_when_no_promise_holds() {
    let mut candidate = Candidate::leading();
    let worker = Asker::parse("worker").expect("a valid name");
    candidate.ask(Some(&worker));
    let ticket = candidate.order(Order::Stopping { limit: 60 * SECOND });
    assert_eq!(candidate.events, []);
    candidate.leadership.void(Some(&worker), FencingToken::new(1));
    candidate.turn();
    assert_eq!(candidate.events, [Settled(ticket, Withdrawn)]);
    assert!(candidate.holds_the_record());
}

#[test]
fn release_waits_for_the_command_while_the_claim_is_renewed() {
    for order in [Order::Shutdown, RESIGN] {
        let mut candidate = Candidate::leading();
        candidate.run_command_until(3);
        let ticket = candidate.order(order);
        // The command may take longer to stop than the claim lasts without a renewal.
        candidate.run_command_until(33);
        assert!(!candidate.machine.is_released(), "{order:?}: the command still runs");
        let standing = candidate.machine.standing();
        let Standing::Resigning(claim) = standing else { panic!("{standing:?}") };
        assert!(claim.deadline() > at(33), "{order:?}: the claim was renewed");
        candidate.leadership.end_loan();
        candidate.turn();
        assert_eq!(candidate.events, [Settled(ticket, Confirmed)]);
    }
}

#[test]
fn command_that_outlives_its_claim_blocks_the_release() {
    let mut candidate = Candidate::leading();
    candidate.run_command_until(3);
    candidate.order(Order::Shutdown);
    let lent_until = candidate.leadership.promised_until().expect("it is lent");
    // Nothing extends the loan, and no process of the command has reported its end.
    candidate.until(lent_until.elapsed_since_boot().as_secs() + 2);
    let holder = candidate.record.as_ref().and_then(|record| record.record.holder.clone());
    assert!(holder.is_some(), "the record was released");
    candidate.leadership.end_loan();
    candidate.turn();
    assert!(candidate.machine.is_released());
}
