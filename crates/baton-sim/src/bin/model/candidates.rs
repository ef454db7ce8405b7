//! Parts that both models share: candidates with their own clocks, pending calls, and properties.
//! Start with [`Candidate`].

use baton_election::claim::{Claim, FencingToken, Standing};
use baton_election::ended_run::EndedRun;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event};
use baton_election::timing::Timing;
use baton_election::withdrawals::{Order, Withdrawals};
use std::mem::replace;
use std::time::Duration;

/// One candidate: the machine that ships, and the state of its process. Times are whole seconds by
/// its own clock.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Candidate<E, R, V> {
    pub(crate) machine: E,
    /// How far its clock advances per step, and its reading.
    rate: u64,
    clock: u64,
    pub(crate) call: Call<R, V>,
    pub(crate) starts: u8,
    withdrawals: Withdrawals,
    /// Until when the orders keep it away at least, kept from the orders alone.
    away_until: Instant,
    /// Whether its application always polls, and when the last answer "leading" expires.
    polls: bool,
    promised_until: Instant,
    /// The current term.
    term: Option<FencingToken>,
    /// Whether it began a term while it was withdrawn, or before the end of its hold-off.
    began_withdrawn: bool,
}

/// A call to the store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Call<R, V> {
    None,
    Sent(R),
    Replied(V),
}

/// How long an answer "leading" is valid.
pub(crate) const VALIDITY: Duration = Duration::from_millis(500);
/// How far a slow and a fast clock advance per step: 20 % off either way.
const RATES: [u64; 2] = [2, 3];

/// The knowledge of a new process about the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    Nothing,
    /// The previous process has ended, and its identity and session are known.
    EndedRun,
}

/// The run under `identity`, which ends at `now`.
pub(crate) fn ended_run(identity: Identity, timing: &Timing, now: Instant) -> EndedRun {
    EndedRun { identity, promised_until: now + timing.longest_promise() }
}

/// The orders to withdraw. The first two end within a step, so that the candidate campaigns again.
pub(crate) const ORDERS: [Order; 3] = [
    Order::Resign { hold_off: Duration::from_secs(1) },
    Order::Stopping { limit: Duration::from_secs(1) },
    Order::Shutdown,
];

impl<E, R, V> Candidate<E, R, V>
where
    E: Election<Request = R, Event = V>,
    V: Event,
{
    /// The candidate with this index. Clocks start at different readings, which must not be
    /// compared.
    pub(crate) fn new(
        number: usize,
        rate: u64,
        polls: bool,
        machine: impl FnOnce(Instant) -> E,
    ) -> Self {
        let clock = number as u64 * 100;
        Self {
            machine: machine(instant(clock)),
            rate,
            clock,
            call: Call::None,
            starts: 1,
            withdrawals: Withdrawals::new(instant(clock)),
            away_until: instant(0),
            polls,
            promised_until: instant(0),
            term: None,
            began_withdrawn: false,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        instant(self.clock)
    }

    /// Advances time by a step.
    pub(crate) fn step(&mut self) {
        self.clock += self.rate;
        self.poll();
    }

    /// Takes a turn of the driver; false if nothing was due.
    pub(crate) fn turn(&mut self) -> bool {
        let now = self.now();
        let before = self.machine.standing();
        self.machine.handle_timeout(now);
        let withdrawals = self.withdrawals.clone();
        let promised_until = (self.promised_until > instant(0)).then_some(self.promised_until);
        self.withdrawals.turn(&mut self.machine, promised_until, now);
        while self.withdrawals.poll_event().is_some() {}
        let request =
            matches!(self.call, Call::None).then(|| self.machine.poll_request(now)).flatten();
        while self.machine.poll_transition().is_some() {}
        let has_sent = request.is_some();
        if let Some(request) = request {
            self.call = Call::Sent(request);
        }
        self.poll();
        has_sent || self.machine.standing() != before || self.withdrawals != withdrawals
    }

    /// Handles an event, and takes a turn of the driver.
    pub(crate) fn handle_event(&mut self, event: V) {
        self.machine.handle_event(event, self.now());
        self.turn();
    }

    /// Handles and returns the reply of the pending call, if there is one.
    pub(crate) fn handle_reply(&mut self) -> Option<V>
    where
        V: Clone,
    {
        match replace(&mut self.call, Call::None) {
            Call::Replied(event) => {
                self.handle_event(event.clone());
                Some(event)
            }
            Call::None | Call::Sent(_) => None,
        }
    }

    /// Times the call out, and returns the request if it may still be in flight.
    pub(crate) fn time_out(&mut self) -> Option<R> {
        let sent = self.drop_call();
        self.handle_event(V::UNKNOWN);
        sent
    }

    /// Replaces the process by a new one. Promises stay valid.
    pub(crate) fn restart(&mut self, machine: E) -> Option<R> {
        self.starts += 1;
        (self.machine, self.term) = (machine, None);
        (self.withdrawals, self.away_until) = (Withdrawals::new(self.now()), instant(0));
        self.drop_call()
    }

    fn drop_call(&mut self) -> Option<R> {
        match replace(&mut self.call, Call::None) {
            Call::Sent(request) => Some(request),
            Call::None | Call::Replied(_) => None,
        }
    }

    /// Whether it may be ordered to withdraw: while it leads, or while its own request may make it
    /// the leader.
    pub(crate) fn may_withdraw(&self, is_racing: bool) -> bool {
        is_racing || self.claim().is_some()
    }

    pub(crate) fn withdraw(&mut self, order: Order) {
        let now = self.now();
        self.withdrawals.add(order, &mut self.machine, now);
        let until = match order {
            Order::Resign { hold_off } => now + hold_off,
            Order::Stopping { limit } => now + limit,
            Order::Shutdown | Order::Unasked | Order::Unfit { .. } => instant(u64::MAX),
        };
        self.away_until = self.away_until.max(until);
    }

    /// The claim that is current by its own clock.
    pub(crate) fn claim(&self) -> Option<Claim> {
        match self.machine.standing() {
            Standing::Leading(claim) | Standing::Resigning(claim) => {
                Some(claim).filter(|claim| !claim.remaining(self.now()).is_zero())
            }
            Standing::Unknown | Standing::Following { .. } => None,
        }
    }

    /// Polls as the application. The answer is valid for [`VALIDITY`] if the claim lasts that long.
    fn poll(&mut self) {
        if let Standing::Leading(claim) = self.machine.standing()
            && self.polls
            && claim.remaining(self.now()) >= VALIDITY
        {
            self.promised_until = self.now() + VALIDITY;
        }
    }

    fn promises(&self) -> bool {
        self.now() < self.promised_until
    }
}

fn instant(seconds: u64) -> Instant {
    Instant::since_boot(Duration::from_secs(seconds))
}

/// The tokens of all terms so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Terms {
    greatest: FencingToken,
    /// Whether a term began with a token that was not larger than all before it.
    is_out_of_order: bool,
}

impl Terms {
    pub(crate) const NONE: Self = Self { greatest: FencingToken::new(0), is_out_of_order: false };

    /// Records the terms that began with the last action.
    pub(crate) fn update<E, R, V>(&mut self, candidates: &mut [Candidate<E, R, V>])
    where
        E: Election<Request = R, Event = V>,
        V: Event,
    {
        for candidate in candidates {
            let term = candidate.claim().map(|claim| claim.token());
            if let Some(token) = term
                && candidate.term != term
            {
                candidate.began_withdrawn |= candidate.now() < candidate.away_until;
                self.is_out_of_order |= token <= self.greatest;
                self.greatest = self.greatest.max(token);
            }
            candidate.term = term;
        }
    }

    pub(crate) const fn are_increasing(&self) -> bool {
        !self.is_out_of_order
    }

    /// Whether a term has a larger token than `first`.
    pub(crate) fn has_later_than(&self, first: FencingToken) -> bool {
        self.greatest > first
    }
}

/// The number of current claims.
pub(crate) fn count_claims<E, R, V>(candidates: &[Candidate<E, R, V>]) -> usize
where
    E: Election<Request = R, Event = V>,
    V: Event,
{
    candidates.iter().filter(|candidate| candidate.claim().is_some()).count()
}

/// Whether any candidate began a term while it had to stay away.
pub(crate) fn any_began_withdrawn<E, R, V>(candidates: &[Candidate<E, R, V>]) -> bool
where
    E: Election<Request = R, Event = V>,
    V: Event,
{
    candidates.iter().any(|candidate| candidate.began_withdrawn)
}

/// Whether one candidate's promise overlaps another's promise or claim.
pub(crate) fn promises_overlap<E, R, V>(candidates: &[Candidate<E, R, V>]) -> bool
where
    E: Election<Request = R, Event = V>,
    V: Event,
{
    candidates.iter().enumerate().any(|(one, promising)| {
        let overlaps = |(other, candidate): (usize, &Candidate<E, R, V>)| {
            other != one && (candidate.promises() || candidate.claim().is_some())
        };
        promising.promises() && candidates.iter().enumerate().any(overlaps)
    })
}

/// Which combinations of clocks are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClockRates {
    /// Every number of slow clocks. Candidates differ in nothing else, so their order does not
    /// matter.
    All,
    /// One slow clock, whose claims last longest. The others are fast and stop waiting soonest.
    Worst,
}

impl ClockRates {
    /// The rates of the candidates' clocks, for each combination.
    pub(crate) fn of_candidates(self, candidates: usize) -> impl Iterator<Item = Vec<u64>> {
        let slow = match self {
            Self::All => 0..=candidates,
            Self::Worst => 1..=1,
        };
        slow.map(move |slow| {
            (0..candidates).map(|clock| RATES[usize::from(clock >= slow)]).collect()
        })
    }

    /// The rates of the ensemble leader's clock.
    pub(crate) fn of_ensemble(self) -> impl Iterator<Item = u64> {
        let [slow, fast] = RATES;
        let is_included = move |rate: &u64| self == Self::All || *rate == fast;
        [slow, fast].into_iter().filter(is_included)
    }
}
