//! Leader election as pure state machines.
//!
//! Several candidates share a store that applies conditional writes in one order. Each candidate
//! runs one machine, which decides what to request from the store and when, and whether it may
//! lead. The machines are sans-IO: events and the current time go in, requests and transitions come
//! out. There is no async, no client, no clock, and no randomness except the seed that the caller
//! passes in. So the same machines run over real stores, in a simulator, and in a model checker.
//!
//! There are two machines:
//!
//! * [`RecordElection`](record::RecordElection) holds an election in one record, such as a
//!   Kubernetes Lease or a file, with client-go's rules and stricter timing.
//! * [`QueueElection`](queue::QueueElection) holds an election in a queue of ephemeral sequential
//!   znodes in ZooKeeper, with the znode names of Curator's `LeaderLatch`.
//!
//! # Claims
//!
//! A [`Claim`](claim::Claim) is the right to lead. A candidate leads only while it holds one. Under
//! the assumptions below, at no instant do two candidates of one election hold a claim:
//!
//! * **A claim ends by itself.** Its deadline is an instant on the candidate's own clock. No flag
//!   has to be cleared, so a process that resumes from a long pause finds its claim ended.
//! * **The deadline counts from before the request was sent.** The other candidates wait for the
//!   lease duration after they saw the request's effect, which is later. The renew deadline is
//!   shorter than the lease duration by more than the clocks may drift: a
//!   [`Timing`](timing::Timing) that breaks this rule cannot be constructed.
//! * **Only an acknowledged conditional write extends it**, or in ZooKeeper a transaction that
//!   checks our znode. A read, a ping, or a watch event proves nothing. A request of unknown
//!   outcome neither extends nor ends a claim.
//! * **It carries a fencing token**, which is larger in every later term. A resource that remembers
//!   the largest [`FencingToken`](claim::FencingToken) it has seen can refuse a former leader, even
//!   if one of the assumptions below is violated.
//! * **Applications act on promises.** A [`Promise`](leadership::Promise) says "leading, and for at
//!   least this long", and is made only while that much of the claim remains. A candidate releases
//!   its claim only after the last promise has expired.
//!
//! The machines assume the following:
//!
//! * The store applies conditional writes in one order.
//! * The rates of two nodes' clocks differ by no more than the configured [`Drift`](timing::Drift).
//! * Clocks count the time that a machine is suspended.
//! * Identities are unique per process start.
//! * Only candidates write or delete the record.
//! * ZooKeeper's servers tick no slower than configured.
//!
//! # Driving a machine
//!
//! [`Election`](machine::Election) is the interface of both machines. A driver repeats one loop:
//!
//! ```text
//!     ┌──────── reply, watch event ─────── store ◄──── request ─────┐
//!     ▼                                                             │
//!   handle_event(event, now) ─┐             ┌─► poll_request(now) ──┘
//!                             ├─► machine ──┼─► poll_transition() ───► logs and metrics
//!   handle_timeout(now) ──────┘             ├─► standing() ──────────► Leadership: promises
//!     ▲                                     └─► poll_timeout() ─────┐
//!     └─────────────────────────────────── timer ◄──── due ─────────┘
//! ```
//!
//! A driver must follow three rules:
//!
//! 1. Read the clock before [`poll_request`](machine::Election::poll_request), and send the request
//!    only afterwards, because the claim counts from that instant.
//! 2. Give every request exactly one reply. If none arrives within
//!    [`call_timeout`](machine::Election::call_timeout), the reply is
//!    [`Event::UNKNOWN`](machine::Event::UNKNOWN).
//! 3. Publish [`standing`](machine::Election::standing) after every event and timeout, before
//!    anything is awaited.
//!
//! # Example
//!
//! One candidate acquires, renews, and releases an election that is held in memory.
//!
//! ```
//! use baton_election::claim::Standing;
//! use baton_election::identity::Identity;
//! use baton_election::instant::Instant;
//! use baton_election::leadership::{Leadership, Status};
//! use baton_election::machine::{Election, Reason, Withdrawal};
//! use baton_election::record::RecordElection;
//! use baton_election::record::messages::{
//!     Record, RecordEvent, RecordRequest, Snapshot, Stamp, Version,
//! };
//! use baton_election::timing::{Drift, Jitter, Timing};
//! use std::time::Duration;
//!
//! /// A record in memory, with a version that every write compares and increments.
//! #[derive(Default)]
//! struct Store {
//!     current: Option<Snapshot>,
//!     version: u128,
//! }
//!
//! impl Store {
//!     fn perform(&mut self, request: RecordRequest) -> RecordEvent {
//!         let write = match request {
//!             RecordRequest::Read => return RecordEvent::Read(self.current.clone()),
//!             RecordRequest::Write(write) => write,
//!         };
//!         if write.over.as_ref() != self.current.as_ref().map(|current| &current.version) {
//!             return RecordEvent::Conflict;
//!         }
//!         self.version += 1;
//!         let record = Record {
//!             holder: write.holder,
//!             duration: Some(write.duration),
//!             transitions: write.transitions,
//!             acquired: Stamp::default(),
//!             renewed: Stamp(self.version.to_string()),
//!         };
//!         let version = Version { uid: "record".into(), number: self.version };
//!         let written = Snapshot { version, record };
//!         self.current = Some(written.clone());
//!         RecordEvent::Applied(written)
//!     }
//! }
//!
//! /// One turn of the driver's loop: sends every request that is due at `now`.
//! fn drive(candidate: &mut RecordElection, store: &mut Store, now: Instant) {
//!     candidate.handle_timeout(now);
//!     while let Some(request) = candidate.poll_request(now) {
//!         let reply = store.perform(request);
//!         candidate.handle_event(reply, now);
//!     }
//!     while let Some(transition) = candidate.poll_transition() {
//!         println!("{now:?}: {transition:?}");
//!     }
//! }
//!
//! let at = |seconds| Instant::since_boot(Duration::from_secs(seconds));
//! let drift = Drift::default();
//! let durations = Timing::suggestion(Duration::from_secs(15), drift);
//! let timing = Timing::new(durations, drift).expect("suggested durations are valid");
//! let identity = Identity::unique("orders-7d9f", "5be1").expect("the identity is valid");
//! let mut candidate = RecordElection::new(identity, timing, Jitter::new(1), at(0));
//! let mut store = Store::default();
//! let mut leadership = Leadership::new(timing.answer_validity());
//!
//! // Acquire. The claim lasts for one renew deadline, 10 s, from the instant of the request.
//! drive(&mut candidate, &mut store, at(0));
//! let Standing::Leading(claim) = candidate.standing() else { panic!("there is no other leader") };
//! assert_eq!(claim.deadline(), at(10));
//!
//! // Renew, when the machine asks for it: after one retry period, 2 s.
//! let (due, _) = candidate.poll_timeout().expect("a leader renews");
//! assert_eq!(due, at(2));
//! drive(&mut candidate, &mut store, due);
//!
//! // Promise leadership to the application.
//! leadership.publish(candidate.standing(), at(3));
//! assert!(matches!(leadership.promise(None, at(3)).status, Status::Leading(_)));
//!
//! // Withdraw, and release once the last promise has expired.
//! candidate.withdraw(Withdrawal::Releasing);
//! leadership.publish(candidate.standing(), at(4));
//! assert_eq!(leadership.promise(None, at(4)).status, Status::Resigning);
//! let release_at = leadership.promised_until().expect("a promise was made");
//! assert_eq!(release_at, at(5));
//! candidate.release(Reason::Shutdown, release_at);
//! drive(&mut candidate, &mut store, release_at);
//! assert!(candidate.is_released());
//! assert_eq!(store.current.expect("a release keeps the record").record.holder, None);
//! ```
//!
//! # Modules
//!
//! | Module | Content |
//! |---|---|
//! | [`machine`] | [`Election`](machine::Election), the interface of both machines; transitions, and their reasons |
//! | [`record`] | [`RecordElection`](record::RecordElection), with its requests and replies in [`record::messages`] |
//! | [`queue`] | [`QueueElection`](queue::QueueElection), with its requests and replies in [`queue::messages`] |
//! | [`claim`] | [`Claim`](claim::Claim), [`FencingToken`](claim::FencingToken), and [`Standing`](claim::Standing), a candidate's role |
//! | [`leadership`] | [`Leadership`](leadership::Leadership), which answers the application and records promises |
//! | [`ended_run`] | [`EndedRun`](ended_run::EndedRun), the previous run, whose record the next run may release |
//! | [`timing`] | [`Timing`](timing::Timing), [`Drift`](timing::Drift), and the seeded [`Jitter`](timing::Jitter) |
//! | [`identity`] | [`Identity`](identity::Identity), unique per process start |
//! | [`instant`] | [`Instant`](instant::Instant), a time that only the caller can read |
//! | [`transcript`] | one-line descriptions of requests and transitions, for tests and traces |
//! | [`duration`], [`text`] | durations and untrusted text, formatted for people |
#![forbid(unsafe_code)]

mod candidacy;
pub mod claim;
pub mod command;
pub mod duration;
pub mod ended_run;
pub mod identity;
pub mod instant;
pub mod leadership;
pub mod machine;
pub mod queue;
pub mod record;
pub mod text;
pub mod timing;
pub mod transcript;
pub mod withdrawals;
