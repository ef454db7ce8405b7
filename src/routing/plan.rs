//! Decides what to write next into one EndpointSlice.
//!
//! Pure: time and claims are arguments. Start with [`SlicePlan::next`].
//!
//! ```text
//!             ┌───── unknown, conflict ─────┐
//!             ▼                             │
//!  claim ─► read ─► check the claim ─► write over that version ─► written
//!  no claim, and a write of ours is there, or may still arrive ─► write over that version
//! ```
//!
//! A former leader never overwrites its successor. Each plan checks the claim after the read, so the
//! version that it replaces is older than every write of a successor. The API server refuses the write
//! once the successor has written. The successor always writes, because each term has another
//! token. A clearing replaces only a version with our own addresses, or the version that an
//! unanswered write of ours names, so that this write meets a conflict. There is one exception: if
//! another program deletes the slice, a former leader may create it again. Its successor repairs
//! that at its next check.

use super::known::{Known, Over};
use super::phase::{Leading, Phase};
use crate::kubernetes::endpoint_slice::{Content, EndpointPort, Foreign, SliceObject, SliceRef};
use baton_election::claim::{Claim, FencingToken};
use baton_election::instant::Instant;
use std::mem::{replace, take};
use std::net::IpAddr;
use std::time::Duration;

/// The next step.
#[derive(Debug)]
pub(super) enum Step {
    /// Perform this call, and give up at this instant.
    Call(Call, Instant),
    /// Wait for another claim, at most until this instant.
    Wait(Option<Instant>),
}

/// A call to the API server.
#[derive(Debug)]
pub(super) enum Call {
    Read,
    Create(Content),
    /// Replaces this version of the slice.
    Replace(Box<SliceObject>, Content),
}

/// The reply to a call.
#[derive(Debug)]
pub(super) enum Reply {
    /// The slice does not exist.
    Absent,
    /// The slice as it is.
    Found(Box<SliceObject>),
    /// The write was applied.
    Applied(Box<SliceObject>),
    /// The write was not applied, because the slice has changed.
    Conflict,
    /// The API server refused the call, so a write was not applied.
    Refused,
    /// The outcome is unknown: a write may still be applied.
    Unknown,
}

/// Something to tell people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// The slice holds our addresses, for the first time in this term.
    Published(FencingToken),
    /// Our addresses are no longer in the slice.
    Cleared(FencingToken),
    /// The slice names a later term than ours. It is replaced all the same.
    LargerToken { found: FencingToken, ours: FencingToken },
    /// The slice is not ours, so it is left alone.
    Foreign(Foreign),
    /// The API server stored something else than what was written.
    Altered,
}

/// The durations of a plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How long a call may take.
    pub(super) call_timeout: Duration,
    /// The pause after a failure.
    pub(super) retry_period: Duration,
    /// How often a leader looks whether its slice was changed.
    pub(super) check_period: Duration,
}

/// The knowledge about one slice, and the plan for it.
#[derive(Debug)]
pub(super) struct SlicePlan {
    slice: SliceRef,
    addresses: Vec<IpAddr>,
    ports: Vec<EndpointPort>,
    pace: Pace,
    known: Option<Known>,
    phase: Phase,
    /// The term whose addresses a write of ours may have put into the slice.
    written: Option<FencingToken>,
    /// The state that the write in flight replaces.
    sent: Option<Over>,
    /// The state that the last write with an unknown outcome replaces. The write may be applied as
    /// long as the slice is in this state.
    unanswered: Option<Over>,
    /// Whether the last write met a conflict.
    has_conflicted: bool,
    /// When the next call is due.
    due: Option<Instant>,
}

impl SlicePlan {
    /// A plan for `slice`, with those of the leader's `addresses` that are of its family.
    pub(super) fn new(
        slice: SliceRef,
        addresses: &[IpAddr],
        ports: &[EndpointPort],
        pace: Pace,
    ) -> Self {
        let family = slice.family;
        let addresses = addresses.iter().copied().filter(|address| family.contains(address));
        Self {
            slice,
            addresses: addresses.collect(),
            ports: ports.to_vec(),
            pace,
            known: None,
            phase: Phase::Idle,
            written: None,
            sent: None,
            unanswered: None,
            has_conflicted: false,
            due: None,
        }
    }

    /// The next step at `now`. `claim` is that of a leader that promises; a withdrawn candidate has
    /// none here.
    pub(super) fn next(&mut self, claim: Option<Claim>, now: Instant) -> Step {
        match claim.filter(|claim| !claim.remaining(now).is_zero()) {
            Some(claim) => self.lead(claim, now),
            None => self.clear(now),
        }
    }

    /// The term in which the slice holds our addresses, as far as known.
    pub(super) const fn published(&self) -> Option<FencingToken> {
        match &self.phase {
            Phase::Leading(Leading { term, is_published: true, .. }) => Some(*term),
            Phase::Leading(_) | Phase::Idle | Phase::Clearing(_) | Phase::ClearingLate => None,
        }
    }

    /// Whether a stop need not wait for the clearing any longer.
    pub(super) const fn is_clear(&self) -> bool {
        self.written.is_none() || matches!(self.phase, Phase::ClearingLate)
    }

    /// Whether the last step is part of a clearing.
    pub(super) const fn is_clearing(&self) -> bool {
        matches!(self.phase, Phase::Clearing(_) | Phase::ClearingLate)
    }

    /// Writes the addresses of a leader, and looks at them from time to time.
    fn lead(&mut self, claim: Claim, now: Instant) -> Step {
        let token = claim.token();
        if !matches!(&self.phase, Phase::Leading(leading) if leading.term == token) {
            self.phase = Phase::Leading(Leading::new(token));
            (self.known, self.due, self.has_conflicted) = (None, None, false);
        }
        if self.due.is_some_and(|due| now < due) {
            return Step::Wait(self.due);
        }
        if let Phase::Leading(leading) = &mut self.phase
            && take(&mut leading.is_settled)
        {
            self.known = None;
        }
        let content = self.content(token);
        let (call, over) = match &self.known {
            None => return Step::Call(Call::Read, now + self.pace.call_timeout),
            Some(known) => (known.replaced_by(content), known.state()),
        };
        // A later claim is published after the next renewal.
        if claim.remaining(now) < self.pace.call_timeout {
            return Step::Wait(Some(claim.deadline()));
        }
        if !self.addresses.is_empty() {
            self.written = Some(token);
        }
        self.sent = Some(over);
        Step::Call(call, now + self.pace.call_timeout)
    }

    /// Clears a slice that a write of ours has changed, or may still change.
    fn clear(&mut self, now: Instant) -> Step {
        let Some(token) = self.written else {
            self.phase = Phase::Idle;
            return Step::Wait(None);
        };
        let until = self.clear_until(now);
        if let Some(due) = self.due.filter(|due| now < *due) {
            return Step::Wait(Some(due.min(until)));
        }
        let Some(known) = &self.known else { return Step::Call(Call::Read, until) };
        if !self.must_replace(known, token) {
            self.forget();
            return Step::Wait(None);
        }
        let (over, call) = (known.state(), known.replaced_by(self.cleared(known, token)));
        self.sent = Some(over);
        Step::Call(call, until)
    }

    /// Whether the slice has our addresses, or an unanswered write may still put them there.
    fn must_replace(&self, known: &Known, token: FencingToken) -> bool {
        known.holds(token, &self.addresses) || self.unanswered == Some(known.state())
    }

    /// Content without endpoints. It always differs from `known`, because the API server keeps the
    /// version of a slice that does not change.
    fn cleared(&self, known: &Known, token: FencingToken) -> Content {
        let cleared = Content { token: Some(token), addresses: Vec::new(), ports: Vec::new() };
        match known {
            Known::Slice(slice) if slice.content == cleared => {
                Content { ports: self.content(token).ports, ..cleared }
            }
            Known::Absent | Known::Slice(_) => cleared,
        }
    }

    /// The deadline of the next call of a clearing.
    fn clear_until(&mut self, now: Instant) -> Instant {
        let until = now + self.pace.call_timeout;
        match self.phase {
            Phase::Clearing(until) if now < until => return until,
            Phase::ClearingLate => return until,
            Phase::Clearing(_) => self.phase = Phase::ClearingLate,
            Phase::Idle | Phase::Leading(_) => self.phase = Phase::Clearing(until),
        }
        self.due = None;
        until
    }

    /// Handles the reply to the last call, at `now`.
    pub(super) fn handle_reply(&mut self, reply: Reply, now: Instant) -> Option<Finding> {
        let sent = self.sent.take();
        match reply {
            Reply::Conflict => {
                (self.known, self.unanswered) = (None, None);
                // Another program may keep changing the slice, so do not race it.
                if replace(&mut self.has_conflicted, true) {
                    self.pause(now);
                }
                None
            }
            Reply::Refused => {
                self.known = None;
                self.pause(now);
                None
            }
            Reply::Unknown => {
                self.known = None;
                if sent.is_some() {
                    self.unanswered = sent;
                }
                self.pause(now);
                None
            }
            Reply::Absent => {
                self.known = Some(Known::Absent);
                self.settle_if(self.addresses.is_empty(), now);
                None
            }
            Reply::Applied(slice) => {
                (self.unanswered, self.has_conflicted) = (None, false);
                self.applied(slice, now)
            }
            Reply::Found(slice) if self.is_clearing() => {
                let (ours, found) = (self.written?, slice.content.token);
                let known = Known::Slice(slice);
                if self.must_replace(&known, ours) {
                    self.known = Some(known);
                    return None;
                }
                self.forget();
                (found == Some(ours)).then_some(Finding::Cleared(ours))
            }
            Reply::Found(slice) => self.found(slice, now),
        }
    }

    /// Handles the slice as the API server stored it.
    fn applied(&mut self, slice: Box<SliceObject>, now: Instant) -> Option<Finding> {
        let term = match &self.phase {
            Phase::Leading(leading) => leading.term,
            Phase::Idle | Phase::Clearing(_) | Phase::ClearingLate => {
                self.forget();
                return slice.content.token.map(Finding::Cleared);
            }
        };
        if slice.content == self.content(term) {
            return self.found(slice, now);
        }
        self.known = None;
        self.pause(now);
        self.leading()?.once(Finding::Altered)
    }

    /// Delays the next call.
    fn pause(&mut self, now: Instant) {
        let pause = match self.phase {
            Phase::Clearing(_) => self.pace.call_timeout / 8,
            Phase::Idle | Phase::Leading(_) | Phase::ClearingLate => self.pace.retry_period,
        };
        self.due = Some(now + pause);
    }

    /// Handles the slice that a leader has read or written.
    fn found(&mut self, slice: Box<SliceObject>, now: Instant) -> Option<Finding> {
        let ours = self.leading()?.term;
        let foreign = slice.foreign(&self.slice);
        let found = slice.content.token.filter(|found| *found > ours);
        let is_ours = slice.content == self.content(ours);
        let is_published = is_ours && foreign.is_none() && !self.addresses.is_empty();
        self.known = Some(Known::Slice(slice));
        self.settle_if(is_ours || foreign.is_some(), now);
        let leading = self.leading()?;
        let was_published = replace(&mut leading.is_published, is_published);
        if let Some(foreign) = foreign {
            return leading.once(Finding::Foreign(foreign));
        }
        if is_published && !was_published {
            return Some(Finding::Published(ours));
        }
        found.and_then(|found| leading.once(Finding::LargerToken { found, ours }))
    }

    /// If nothing is left to write, reads again after the check period, or sooner if a clearing may
    /// still arrive.
    fn settle_if(&mut self, is_settled: bool, now: Instant) {
        let known = self.known.as_ref().map(Known::state);
        let is_final = self.unanswered.is_none() || self.unanswered != known;
        let Pace { check_period, retry_period, .. } = self.pace;
        let Some(leading) = self.leading() else { return };
        leading.is_settled = is_settled;
        self.due = is_settled.then(|| now + if is_final { check_period } else { retry_period });
    }

    const fn leading(&mut self) -> Option<&mut Leading> {
        match &mut self.phase {
            Phase::Leading(leading) => Some(leading),
            Phase::Idle | Phase::Clearing(_) | Phase::ClearingLate => None,
        }
    }

    /// Ends the clearing.
    fn forget(&mut self) {
        (self.written, self.unanswered, self.known) = (None, None, None);
        self.phase = Phase::Idle;
    }

    fn content(&self, token: FencingToken) -> Content {
        Content {
            token: Some(token),
            addresses: self.addresses.iter().copied().map(Some).collect(),
            ports: self.ports.iter().cloned().map(Some).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::leadership::fixture::leading_in_term;
    use crate::kubernetes::endpoint_slice::{Family, new_slice};
    use baton_election::claim::Standing;
    use serde_json::{Value, json};

    const PACE: Pace = Pace {
        call_timeout: Duration::from_secs(2),
        retry_period: Duration::from_secs(1),
        check_period: Duration::from_secs(15),
    };
    const OLD: &str = "10.0.0.1";
    const NEW: &str = "10.0.0.2";

    fn at(seconds: u64) -> Instant {
        Instant::since_boot(Duration::from_secs(seconds))
    }

    /// A claim that was renewed at `seconds`, and lasts ten.
    fn claim(token: u128, seconds: u64) -> Option<Claim> {
        let Standing::Leading(claim) = leading_in_term(token, at(seconds)) else { return None };
        Some(claim)
    }

    fn orders(family: Family) -> SliceRef {
        SliceRef { service: "orders".to_owned(), family }
    }

    fn plan(address: &str) -> SlicePlan {
        let port = EndpointPort { name: String::new(), port: 8080 };
        SlicePlan::new(orders(Family::V4), &[address.parse().unwrap()], &[port], PACE)
    }

    /// An API server with one slice, which it replaces only by the version that a write names.
    #[derive(Clone, Default)]
    struct Server {
        slice: Option<Value>,
        version: u64,
        may_not_create: bool,
        strips_endpoints: bool,
        calls: String,
    }

    impl Server {
        /// With the slice of the chart.
        fn prepared() -> Self {
            let mut server = Self::default();
            let nothing = Content { token: None, addresses: Vec::new(), ports: Vec::new() };
            server.store(&new_slice(&orders(Family::V4), &nothing));
            server
        }

        fn store(&mut self, bytes: &[u8]) -> Reply {
            let mut object: Value = serde_json::from_slice(bytes).unwrap();
            if self.strips_endpoints {
                object["endpoints"] = json!([]);
            }
            // The version of an object that does not change stays.
            if self.slice.as_ref() != Some(&object) {
                self.version += 1;
                object["metadata"]["resourceVersion"] = self.version.to_string().into();
                self.slice = Some(object);
            }
            Reply::Applied(Box::new(self.read().unwrap()))
        }

        fn read(&self) -> Option<SliceObject> {
            let bytes = self.slice.as_ref()?.to_string();
            Some(SliceObject::parse(bytes.as_bytes(), "orders-ipv4").unwrap())
        }

        fn perform(&mut self, call: &Call) -> Reply {
            self.calls += match call {
                Call::Read => "GET ",
                Call::Create(_) => "POST ",
                Call::Replace(..) => "PUT ",
            };
            match (call, self.read()) {
                (Call::Read, Some(found)) => Reply::Found(Box::new(found)),
                (Call::Read, None) => Reply::Absent,
                (Call::Create(_), None) if self.may_not_create => Reply::Refused,
                (Call::Create(content), None) => {
                    self.store(&new_slice(&orders(Family::V4), content))
                }
                (Call::Create(_), Some(_)) | (Call::Replace(..), None) => Reply::Conflict,
                (Call::Replace(over, content), Some(_)) => {
                    let bytes = over.with(content);
                    let named: Value = serde_json::from_slice(&bytes).unwrap();
                    let version = self.version.to_string();
                    if named["metadata"]["resourceVersion"] == version.as_str() {
                        self.store(&bytes)
                    } else {
                        Reply::Conflict
                    }
                }
            }
        }

        /// The address that clients of the Service reach, and the token beside it.
        fn routed(&self) -> (Option<String>, Option<FencingToken>) {
            let Some(found) = self.read() else { return (None, None) };
            let address = found.content.addresses.first().copied().flatten();
            (address.map(|address| address.to_string()), found.content.token)
        }

        /// Carries out the next call of the leader of term 5.
        fn perform_next(&mut self, leader: &mut SlicePlan, now: Instant) {
            let Step::Call(call, _) = leader.next(claim(5, 0), now) else { panic!("it calls") };
            let reply = self.perform(&call);
            leader.handle_reply(reply, now);
        }

        /// Carries out the plan until it waits, and returns the findings.
        fn settle(
            &mut self,
            plan: &mut SlicePlan,
            claim: Option<Claim>,
            now: Instant,
        ) -> Vec<Finding> {
            let mut findings = Vec::new();
            for _ in 0..20 {
                let Step::Call(call, _) = plan.next(claim, now) else { return findings };
                let reply = self.perform(&call);
                findings.extend(plan.handle_reply(reply, now));
            }
            panic!("it never waits: {}", self.calls);
        }
    }

    fn token(number: u128) -> FencingToken {
        FencingToken::new(number)
    }

    #[test]
    fn leader_reads_then_replaces_then_looks_again() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        let found = server.settle(&mut leader, claim(5, 0), at(0));
        assert_eq!(found, [Finding::Published(token(5))]);
        assert_eq!(server.calls, "GET PUT ");
        assert_eq!(server.routed(), (Some(OLD.to_owned()), Some(token(5))));
        assert!(matches!(leader.next(claim(5, 2), at(2)), Step::Wait(Some(due)) if due == at(15)));
        assert_eq!(server.settle(&mut leader, claim(5, 14), at(15)), []);
        assert_eq!(server.calls, "GET PUT GET ");
    }

    #[test]
    fn absent_slice_is_created_if_that_is_granted() {
        let (mut server, mut leader) = (Server::default(), plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        assert_eq!(server.calls, "GET POST ");
        assert_eq!(server.routed().0.as_deref(), Some(OLD));

        let mut server = Server { may_not_create: true, ..Server::default() };
        let mut leader = plan(OLD);
        server.settle(&mut leader, claim(5, 0), at(0));
        assert!(matches!(leader.next(claim(5, 0), at(0)), Step::Wait(Some(due)) if due == at(1)));
    }

    #[test]
    fn deleted_or_edited_slice_is_repaired() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        server.slice.as_mut().unwrap()["endpoints"] = json!([]);
        let found = server.settle(&mut leader, claim(5, 14), at(15));
        assert_eq!(found, [Finding::Published(token(5))]);
        assert_eq!(server.routed().0.as_deref(), Some(OLD));
        server.slice = None;
        server.settle(&mut leader, claim(5, 30), at(30));
        assert_eq!(server.routed().0.as_deref(), Some(OLD));
    }

    #[test]
    fn each_term_is_written() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        assert_eq!(server.settle(&mut leader, claim(7, 1), at(1)), [Finding::Published(token(7))]);
        assert_eq!(server.routed(), (Some(OLD.to_owned()), Some(token(7))));
        assert_eq!(server.calls, "GET PUT GET PUT ");
    }

    #[test]
    fn altered_slice_is_not_published() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        assert_eq!(leader.published(), Some(token(5)));
        server.strips_endpoints = true;
        server.slice.as_mut().unwrap()["ports"] = json!([]);
        assert_eq!(server.settle(&mut leader, claim(5, 14), at(15)), [Finding::Altered]);
        assert_eq!(leader.published(), None);
    }

    #[test]
    fn claim_too_short_for_a_call_is_not_written_under() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        // One nanosecond less than the two seconds of a call.
        let late = Instant::since_boot(Duration::from_nanos(8_000_000_001));
        server.settle(&mut leader, claim(5, 0), late);
        assert_eq!((server.calls.as_str(), server.routed().0), ("GET ", None));
        server.settle(&mut leader, claim(5, 8), late);
        assert_eq!(server.routed().0.as_deref(), Some(OLD), "after the next renewal");
    }

    #[test]
    fn withdrawn_leader_clears_by_one_write() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        server.calls.clear();
        assert!(!leader.is_clear());
        assert_eq!(server.settle(&mut leader, None, at(3)), [Finding::Cleared(token(5))]);
        assert_eq!(server.calls, "PUT ");
        assert_eq!(server.routed(), (None, Some(token(5))));
        assert!(leader.is_clear());
        // As after a withdrawal that no stop follows.
        server.settle(&mut leader, claim(5, 4), at(4));
        assert_eq!(server.routed().0.as_deref(), Some(OLD));
    }

    #[test]
    fn follower_that_never_led_sends_nothing() {
        let (mut server, mut follower) = (Server::prepared(), plan(OLD));
        assert_eq!(server.settle(&mut follower, None, at(0)), []);
        assert_eq!(server.calls, "");
    }

    #[test]
    fn stop_waits_one_call_for_a_clearing_that_goes_on() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        for (failed_at, is_clear, due) in
            [(3, false, 5), (4, false, 5), (5, true, 7), (9, true, 11)]
        {
            let Step::Call(_, until) = leader.next(None, at(failed_at)) else {
                panic!("it clears")
            };
            assert_eq!((leader.is_clear(), until), (is_clear, at(due)));
            leader.handle_reply(Reply::Unknown, at(failed_at));
            let step = leader.next(None, at(failed_at));
            assert!(matches!(step, Step::Wait(Some(_))), "it pauses");
        }
        assert_eq!(server.settle(&mut leader, None, at(10)), [Finding::Cleared(token(5))]);
        assert_eq!(server.routed().0, None);
    }

    /// A write that a withdrawal drops may arrive at any later moment.
    #[test]
    fn dropped_write_never_arrives_after_the_clearing() {
        let mut by_another = Server::prepared();
        by_another.settle(&mut plan(NEW), claim(3, 0), at(0));
        let mut again = Server::prepared();
        let mut former = plan(OLD);
        again.settle(&mut former, claim(5, 0), at(0));
        again.settle(&mut former, None, at(1));
        for start in [Server::default(), Server::prepared(), by_another, again] {
            for between in 0..4 {
                for refused in 0..4 {
                    dropped(start.clone(), between, refused);
                }
            }
        }
    }

    /// The write arrives after `between` calls of the clearing, of which one is refused.
    fn dropped(mut server: Server, between: usize, refused: usize) {
        let mut leader = plan(OLD);
        let Step::Call(read, _) = leader.next(claim(5, 0), at(0)) else { panic!("it reads") };
        let found = server.perform(&read);
        leader.handle_reply(found, at(0));
        let Step::Call(write, _) = leader.next(claim(5, 0), at(0)) else { panic!("it writes") };
        leader.handle_reply(Reply::Unknown, at(0));
        for call_number in 0..between {
            let now = Instant::since_boot(Duration::from_millis(1000 + 300 * call_number as u64));
            if let Step::Call(call, _) = leader.next(None, now) {
                let is_refused = call_number == refused;
                let reply = if is_refused { Reply::Refused } else { server.perform(&call) };
                leader.handle_reply(reply, now);
            }
        }
        server.perform(&write);
        server.settle(&mut leader, None, at(3));
        assert_eq!(server.routed().0, None, "after {between} calls: {}", server.calls);
        assert!(leader.is_clear());
    }

    #[test]
    fn slice_of_another_leader_with_the_same_token_is_not_cleared() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        server.settle(&mut plan(NEW), claim(5, 20), at(20));
        server.settle(&mut leader, None, at(20));
        assert_eq!(server.routed().0.as_deref(), Some(NEW));
        assert!(leader.is_clear());
    }

    #[test]
    fn refused_write_hides_no_earlier_one() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.perform_next(&mut leader, at(0));
        let Step::Call(write, _) = leader.next(claim(5, 0), at(0)) else { panic!("it writes") };
        leader.handle_reply(Reply::Unknown, at(0));
        server.perform_next(&mut leader, at(1));
        let Step::Call(Call::Replace(..), _) = leader.next(claim(5, 0), at(1)) else {
            panic!("it writes again")
        };
        leader.handle_reply(Reply::Refused, at(1));
        server.settle(&mut leader, None, at(2));
        server.perform(&write);
        assert_eq!(server.routed().0, None, "{}", server.calls);
    }

    /// As after a clearing that the API server refused.
    #[test]
    fn addresses_of_an_earlier_term_are_cleared() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        let Step::Call(..) = leader.next(None, at(1)) else { panic!("it clears") };
        leader.handle_reply(Reply::Refused, at(1));
        let Step::Call(read, _) = leader.next(claim(7, 20), at(20)) else { panic!("it reads") };
        let found = server.perform(&read);
        leader.handle_reply(found, at(20));
        let Step::Call(..) = leader.next(claim(7, 20), at(20)) else { panic!("it writes") };
        leader.handle_reply(Reply::Refused, at(20));
        server.settle(&mut leader, None, at(21));
        assert_eq!(server.routed().0, None, "{}", server.calls);
    }

    #[test]
    fn leader_looks_again_soon_if_its_clearing_may_still_arrive() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        let Step::Call(clearing, _) = leader.next(None, at(1)) else { panic!("it clears") };
        leader.handle_reply(Reply::Unknown, at(1));
        server.settle(&mut leader, claim(5, 2), at(3));
        let step = leader.next(claim(5, 2), at(3));
        assert!(matches!(step, Step::Wait(Some(due)) if due == at(4)));
        server.perform(&clearing);
        server.settle(&mut leader, claim(5, 2), at(4));
        assert_eq!(server.routed().0.as_deref(), Some(OLD));
    }

    /// Its creation would be refused again.
    #[test]
    fn refused_creation_leaves_nothing_to_clear() {
        let (mut server, mut leader) =
            (Server { may_not_create: true, ..Server::default() }, plan(OLD));
        server.settle(&mut leader, claim(5, 0), at(0));
        assert_eq!(server.settle(&mut leader, None, at(1)), []);
        assert_eq!(server.calls, "GET POST GET ");
        assert!(leader.is_clear());
    }

    #[test]
    fn altered_write_and_repeated_conflicts_pause() {
        let mut server = Server { strips_endpoints: true, ..Server::prepared() };
        let mut leader = plan(OLD);
        for (second, expected) in [(0, vec![Finding::Altered]), (1, Vec::new())] {
            let found = server.settle(&mut leader, claim(5, 0), at(second));
            assert_eq!(found, expected, "it is reported once");
            let step = leader.next(claim(5, 0), at(second));
            assert!(matches!(step, Step::Wait(Some(due)) if due == at(second + 1)));
        }
        assert_eq!(server.calls, "GET PUT GET PUT ");

        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        for pauses in [false, true] {
            server.perform_next(&mut leader, at(0));
            let Step::Call(Call::Replace(..), _) = leader.next(claim(5, 0), at(0)) else {
                panic!()
            };
            leader.handle_reply(Reply::Conflict, at(0));
            let step = leader.next(claim(5, 0), at(0));
            assert_eq!(matches!(step, Step::Wait(Some(_))), pauses);
        }
    }

    #[test]
    fn write_that_was_lost_is_cleared_too() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        for _ in 0..2 {
            let Step::Call(call, _) = leader.next(claim(5, 0), at(0)) else { panic!("it writes") };
            let reply = server.perform(&call);
            let is_lost = matches!(reply, Reply::Applied(_));
            leader.handle_reply(if is_lost { Reply::Unknown } else { reply }, at(0));
        }
        assert_eq!(server.routed().0.as_deref(), Some(OLD));
        server.settle(&mut leader, None, at(1));
        assert_eq!((server.routed().0, server.calls.as_str()), (None, "GET PUT GET PUT "));
    }

    /// The call of a leader that was frozen when it sent it may arrive at any later moment.
    #[test]
    fn frozen_leader_never_overwrites_its_successor() {
        let mut by_old = Server::prepared();
        by_old.settle(&mut plan(OLD), claim(3, 0), at(0));
        let mut by_new = Server::prepared();
        by_new.settle(&mut plan(NEW), claim(3, 0), at(0));
        for start in [Server::default(), Server::prepared(), by_old, by_new] {
            for before in 0..4 {
                for between in 0..5 {
                    overtaken(start.clone(), before, between);
                }
            }
        }
    }

    /// The old leader freezes after `before` calls with its next one in flight, which arrives after
    /// `between` calls of its successor.
    fn overtaken(mut server: Server, before: usize, between: usize) {
        let (mut old, mut new) = (plan(OLD), plan(NEW));
        let mut in_flight = None;
        for _ in 0..=before {
            if let Some(call) = in_flight.take() {
                let reply = server.perform(&call);
                old.handle_reply(reply, at(0));
            }
            match old.next(claim(5, 0), at(0)) {
                Step::Call(call, _) => in_flight = Some(call),
                Step::Wait(_) => break,
            }
        }
        for _ in 0..between {
            if let Step::Call(call, _) = new.next(claim(7, 20), at(20)) {
                let reply = server.perform(&call);
                new.handle_reply(reply, at(20));
            }
        }
        let has_written = server.routed().1 == Some(token(7));
        if let Some(call) = in_flight {
            let reply = server.perform(&call);
            old.handle_reply(reply, at(20));
        }
        server.settle(&mut old, claim(5, 0), at(20));
        let story = format!("frozen after {before}, overtaken by {between}: {}", server.calls);
        if has_written {
            assert_eq!(server.routed().0.as_deref(), Some(NEW), "{story}");
        }
        server.settle(&mut new, claim(7, 20), at(20));
        server.settle(&mut old, claim(5, 0), at(21));
        assert_eq!(server.routed(), (Some(NEW.to_owned()), Some(token(7))), "{story}");
    }

    #[test]
    fn larger_token_is_reported_once_and_replaced() {
        let mut server = Server::prepared();
        server.settle(&mut plan(NEW), claim(9, 0), at(0));
        let mut leader = plan(OLD);
        let found = server.settle(&mut leader, claim(5, 0), at(0));
        let larger = Finding::LargerToken { found: token(9), ours: token(5) };
        assert_eq!(found, [larger, Finding::Published(token(5))]);
        assert_eq!(server.routed(), (Some(OLD.to_owned()), Some(token(5))));
    }

    #[test]
    fn slice_of_a_stranger_is_reported_once_and_left_alone() {
        let (mut server, mut leader) = (Server::prepared(), plan(OLD));
        server.slice.as_mut().unwrap()["metadata"]["labels"] = json!({});
        let found = server.settle(&mut leader, claim(5, 0), at(0));
        assert_eq!(found, [Finding::Foreign(Foreign::Manager(String::new()))]);
        assert_eq!(server.settle(&mut leader, claim(5, 14), at(15)), []);
        assert_eq!(server.calls, "GET GET ");
        assert_eq!(leader.published(), None);
    }

    /// A leader without IPv6 clears what one with IPv6 has left behind.
    #[test]
    fn family_without_an_address_is_emptied_but_not_created() {
        let (mut server, mut leader) = (Server::prepared(), plan("2001:db8::1"));
        server.settle(&mut plan(OLD), claim(3, 0), at(0));
        assert_eq!(server.settle(&mut leader, claim(5, 20), at(20)), []);
        assert_eq!(server.routed(), (None, Some(token(5))));
        assert!(leader.is_clear() && leader.published().is_none());

        let (mut server, mut leader) = (Server::default(), plan("2001:db8::1"));
        server.settle(&mut leader, claim(5, 0), at(0));
        assert_eq!(server.calls, "GET ");
    }
}
