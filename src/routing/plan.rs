//! Decides what to write next into one EndpointSlice.
//!
//! Pure: time and claims are arguments. Start with [`SlicePlan::next`].
//!
//! ```text
//!             ┌───── unknown, conflict ─────┐
//!             ▼                             │
//!  claim ─► read ─► check the claim ─► write over that version ─► written
//!  no claim, and a write of ours may be there ─► clear over our version
//! ```
//!
//! A former leader never overwrites its successor. Each plan checks the claim after the read, so the
//! version that it replaces is older than every write of a successor. The API server refuses the write
//! once the successor has written. The successor always writes, because each term has another
//! token. A clearing replaces only a version with our own token. Only a slice that a stranger deletes
//! may be created again by a former leader, until its successor's next look at it.

use crate::kubernetes::endpoint_slice::{Content, EndpointPort, Foreign, SliceObject, SliceRef};
use baton_election::claim::{Claim, FencingToken};
use baton_election::instant::Instant;
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
    /// The outcome is unknown, or the call was refused.
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
    /// The term that the last plan was for.
    term: Option<FencingToken>,
    /// The term whose addresses a write of ours may have put into the slice.
    written: Option<FencingToken>,
    /// The term that was reported as published.
    published: Option<FencingToken>,
    has_reported: bool,
    /// When the next call of a leader is due.
    due: Option<Instant>,
    /// Whether nothing is left to write, so that the next call of a leader is a read.
    is_settled: bool,
    /// When a clearing gives up.
    clears_until: Option<Instant>,
}

/// The slice as of the last reply.
#[derive(Debug, Clone)]
enum Known {
    Absent,
    Slice(Box<SliceObject>),
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
            term: None,
            written: None,
            published: None,
            has_reported: false,
            due: None,
            is_settled: false,
            clears_until: None,
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
        self.published
    }

    /// Whether none of our addresses is left to clear.
    pub(super) const fn is_clear(&self) -> bool {
        self.written.is_none()
    }

    /// Whether the last step is part of a clearing.
    pub(super) const fn is_clearing(&self) -> bool {
        self.clears_until.is_some()
    }

    /// Writes the addresses of a leader, and looks at them from time to time.
    fn lead(&mut self, claim: Claim, now: Instant) -> Step {
        let token = claim.token();
        if self.term != Some(token) {
            (self.term, self.known, self.due) = (Some(token), None, None);
            (self.published, self.has_reported, self.is_settled) = (None, false, false);
        }
        self.clears_until = None;
        if self.due.is_some_and(|due| now < due) {
            return Step::Wait(self.due);
        }
        if std::mem::take(&mut self.is_settled) {
            self.known = None;
        }
        let content = self.content(token);
        let call = match &self.known {
            None => return Step::Call(Call::Read, now + self.pace.call_timeout),
            Some(Known::Absent) => Call::Create(content),
            Some(Known::Slice(slice)) => Call::Replace(slice.clone(), content),
        };
        // A later claim is published after the next renewal.
        if claim.remaining(now) < self.pace.call_timeout {
            return Step::Wait(Some(claim.deadline()));
        }
        if !self.addresses.is_empty() {
            self.written = Some(token);
        }
        Step::Call(call, now + self.pace.call_timeout)
    }

    /// Clears a slice that a write of ours may have changed, within one call's time.
    fn clear(&mut self, now: Instant) -> Step {
        (self.term, self.published) = (None, None);
        let Some(token) = self.written else { return Step::Wait(None) };
        if self.clears_until.is_none() {
            self.due = None;
        }
        let until = *self.clears_until.get_or_insert(now + self.pace.call_timeout);
        if now >= until {
            self.forget();
            return Step::Wait(None);
        }
        if let Some(due) = self.due.filter(|due| now < *due) {
            return Step::Wait(Some(due.min(until)));
        }
        match &self.known {
            None => Step::Call(Call::Read, until),
            Some(Known::Slice(slice)) if slice.content.token == Some(token) => {
                let content = Content { addresses: Vec::new(), ..slice.content.clone() };
                Step::Call(Call::Replace(slice.clone(), content), until)
            }
            Some(Known::Absent | Known::Slice(_)) => {
                self.forget();
                Step::Wait(None)
            }
        }
    }

    /// Handles the reply to the last call, at `now`.
    pub(super) fn handle_reply(&mut self, reply: Reply, now: Instant) -> Option<Finding> {
        let is_clearing = self.is_clearing();
        match reply {
            Reply::Conflict => {
                self.known = None;
                None
            }
            Reply::Unknown => {
                self.known = None;
                let pause =
                    if is_clearing { self.pace.call_timeout / 8 } else { self.pace.retry_period };
                self.due = Some(now + pause);
                None
            }
            Reply::Absent => {
                self.known = Some(Known::Absent);
                self.settle_if(self.addresses.is_empty(), now);
                None
            }
            Reply::Applied(slice) if is_clearing => {
                let cleared = slice.content.token;
                self.known = Some(Known::Slice(slice));
                self.forget();
                cleared.map(Finding::Cleared)
            }
            Reply::Found(slice) if is_clearing => {
                let is_clear = slice.content.addresses.is_empty();
                let cleared = self.written.filter(|ours| slice.content.token == Some(*ours));
                self.known = Some(Known::Slice(slice));
                if !is_clear {
                    return None;
                }
                self.forget();
                cleared.map(Finding::Cleared)
            }
            Reply::Applied(slice) | Reply::Found(slice) => self.found(slice, now),
        }
    }

    /// Handles the slice that a leader has read or written.
    fn found(&mut self, slice: Box<SliceObject>, now: Instant) -> Option<Finding> {
        let ours = self.term?;
        let foreign = slice.foreign(&self.slice);
        let found = slice.content.token.filter(|found| *found > ours);
        let is_ours = slice.content == self.content(ours);
        self.known = Some(Known::Slice(slice));
        self.settle_if(is_ours || foreign.is_some(), now);
        if let Some(foreign) = foreign {
            return self.once(Finding::Foreign(foreign));
        }
        if is_ours && self.published != Some(ours) && !self.addresses.is_empty() {
            self.published = Some(ours);
            return Some(Finding::Published(ours));
        }
        if !is_ours {
            self.published = None;
        }
        found.and_then(|found| self.once(Finding::LargerToken { found, ours }))
    }

    /// If nothing is left to write, reads again after the check period.
    fn settle_if(&mut self, is_settled: bool, now: Instant) {
        self.is_settled = is_settled;
        self.due = is_settled.then(|| now + self.pace.check_period);
    }

    /// The finding, unless this term has had one.
    fn once(&mut self, finding: Finding) -> Option<Finding> {
        let is_first = !std::mem::replace(&mut self.has_reported, true);
        is_first.then_some(finding)
    }

    fn forget(&mut self) {
        (self.written, self.clears_until, self.known) = (None, None, None);
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
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.slice = Some(object);
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
                (Call::Create(_), None) if self.may_not_create => Reply::Unknown,
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
    fn clearing_pauses_after_a_failure_and_gives_up_after_one_call() {
        let mut leader = plan(OLD);
        Server::prepared().settle(&mut leader, claim(5, 0), at(0));
        for failed_at in [at(3), at(4)] {
            let Step::Call(_, until) = leader.next(None, failed_at) else { panic!("it clears") };
            assert_eq!(until, at(5));
            leader.handle_reply(Reply::Unknown, failed_at);
            assert!(matches!(leader.next(None, failed_at), Step::Wait(Some(_))), "it pauses");
        }
        assert!(matches!(leader.next(None, at(5)), Step::Wait(None)));
        assert!(leader.is_clear());
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
