//! FaultKind both kinds of world have: candidates with clocks of their own, calls that anything may become of, and what must hold.

use baton_election::claim::{Claim, FencingToken, Standing};
use baton_election::instant::Instant;
use baton_election::machine::{Election, Event, Reason, Withdrawal};
use std::mem::replace;
use std::time::Duration;

/// One candidate: the machine that ships, and whatever its process keeps beside it. Times are whole seconds by its own clock.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Candidate<E, R, V> {
    pub(crate) machine: E,
    /// FaultKind its clock counts in a step, and what it shows.
    rate: u64,
    shows: u64,
    pub(crate) call: Call<R, V>,
    pub(crate) starts: u8,
    errand: Errand,
    /// Whether its application asks whenever it can, and until when the last answer "leading" is good.
    asks: bool,
    promised: Instant,
    /// The term that it was last seen in, while that lasts.
    term: Option<FencingToken>,
    /// It began a term after it was told to withdraw.
    began_withdrawn: bool,
}

/// A call to the store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Call<R, V> {
    None,
    Sent(R),
    Replied(V),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Errand {
    None,
    Withdrawn,
    Released,
}

/// For how long an answer "leading" is good.
pub(crate) const VALIDITY: Duration = Duration::from_millis(500);
/// FaultKind a slow clock counts in a step, and a fast one: 20 % off either way.
const RATES: [u64; 2] = [2, 3];

impl<E, R, V> Candidate<E, R, V>
where
    E: Election<Request = R, Event = V>,
    V: Event,
{
    /// The candidate of that number. Clocks show different times, which nobody may compare.
    pub(crate) fn new(
        number: usize,
        rate: u64,
        asks: bool,
        machine: impl FnOnce(Instant) -> E,
    ) -> Self {
        let shows = number as u64 * 100;
        let machine = machine(instant(shows));
        let (call, errand) = (Call::None, Errand::None);
        Self {
            machine,
            rate,
            shows,
            call,
            starts: 1,
            errand,
            asks,
            promised: instant(0),
            term: None,
            began_withdrawn: false,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        instant(self.shows)
    }

    /// A step of time passes.
    pub(crate) fn step(&mut self) {
        self.shows += self.rate;
        self.ask();
    }

    /// Its driver turns; false if there was nothing to do.
    pub(crate) fn turn(&mut self) -> bool {
        let now = self.now();
        let before = self.machine.standing();
        self.machine.handle_timeout(now);
        let asks =
            matches!(self.call, Call::None).then(|| self.machine.poll_request(now)).flatten();
        while self.machine.poll_transition().is_some() {}
        let has_asked = asks.is_some();
        if let Some(request) = asks {
            self.call = Call::Sent(request);
        }
        self.ask();
        has_asked || self.machine.standing() != before
    }

    /// It hears something, and its driver turns.
    pub(crate) fn hear(&mut self, event: V) {
        self.machine.handle_event(event, self.now());
        self.turn();
    }

    /// It hears the reply that is there, if one is, and returns it.
    pub(crate) fn hear_reply(&mut self) -> Option<V>
    where
        V: Clone,
    {
        match replace(&mut self.call, Call::None) {
            Call::Replied(event) => {
                self.hear(event.clone());
                Some(event)
            }
            Call::None | Call::Sent(_) => None,
        }
    }

    /// Its call is given up; the request that may still be on its way.
    pub(crate) fn give_up(&mut self) -> Option<R> {
        let sent = self.drop_call();
        self.hear(V::UNKNOWN);
        sent
    }

    /// Another process begins in its place: what was promised stays promised.
    pub(crate) fn restart(&mut self, machine: E) -> Option<R> {
        self.starts += 1;
        (self.machine, self.errand, self.term) = (machine, Errand::None, None);
        self.drop_call()
    }

    fn drop_call(&mut self) -> Option<R> {
        match replace(&mut self.call, Call::None) {
            Call::Sent(request) => Some(request),
            Call::None | Call::Replied(_) => None,
        }
    }

    /// Whether it can be told to give up leadership: while it leads, or while a request of its own
    /// may make it the leader.
    pub(crate) fn may_withdraw(&self, is_racing: bool) -> bool {
        self.errand == Errand::None && (is_racing || self.claim().is_some())
    }

    pub(crate) fn withdraw(&mut self) {
        self.errand = Errand::Withdrawn;
        self.machine.withdraw(Withdrawal::Releasing);
    }

    /// Whether its release follows now: the last promise has run out.
    pub(crate) fn may_release(&self) -> bool {
        self.errand == Errand::Withdrawn && self.promised <= self.now()
    }

    pub(crate) fn release(&mut self) {
        self.errand = Errand::Released;
        self.machine.release(Reason::Shutdown, self.now());
        self.turn();
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

    /// Its application asks: while enough of the claim is left, the answer is good for [`VALIDITY`].
    fn ask(&mut self) {
        if let Standing::Leading(claim) = self.machine.standing()
            && self.asks
            && claim.remaining(self.now()) >= VALIDITY
        {
            self.promised = self.now() + VALIDITY;
        }
    }

    fn promises(&self) -> bool {
        self.now() < self.promised
    }
}

fn instant(seconds: u64) -> Instant {
    Instant::since_boot(Duration::from_secs(seconds))
}

/// The tokens of all terms so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Terms {
    greatest: FencingToken,
    /// A term began with a token that was not larger than all before it.
    are_in_disorder: bool,
}

impl Terms {
    pub(crate) const NONE: Self = Self { greatest: FencingToken::new(0), are_in_disorder: false };

    /// Takes in who claims what now.
    pub(crate) fn note<E, R, V>(&mut self, candidates: &mut [Candidate<E, R, V>])
    where
        E: Election<Request = R, Event = V>,
        V: Event,
    {
        for candidate in candidates {
            let term = candidate.claim().map(|claim| claim.token());
            if let Some(token) = term
                && candidate.term != term
            {
                candidate.began_withdrawn |= candidate.errand != Errand::None;
                self.are_in_disorder |= token <= self.greatest;
                self.greatest = self.greatest.max(token);
            }
            candidate.term = term;
        }
    }

    pub(crate) const fn are_in_order(&self) -> bool {
        !self.are_in_disorder
    }

    /// Whether a term has followed on another.
    pub(crate) fn follows(&self, first: FencingToken) -> bool {
        self.greatest > first
    }
}

/// How many hold a current claim.
pub(crate) fn claims<E, R, V>(candidates: &[Candidate<E, R, V>]) -> usize
where
    E: Election<Request = R, Event = V>,
    V: Event,
{
    candidates.iter().filter(|candidate| candidate.claim().is_some()).count()
}

/// Whether any has begun a term after it was told to withdraw.
pub(crate) fn begins_withdrawn<E, R, V>(candidates: &[Candidate<E, R, V>]) -> bool
where
    E: Election<Request = R, Event = V>,
    V: Event,
{
    candidates.iter().any(|candidate| candidate.began_withdrawn)
}

/// Whether an answer of one is good beside a claim or an answer of another.
pub(crate) fn promises_overlap<E, R, V>(candidates: &[Candidate<E, R, V>]) -> bool
where
    E: Election<Request = R, Event = V>,
    V: Event,
{
    candidates.iter().enumerate().any(|(one, promising)| {
        let is_beside = |(other, candidate): (usize, &Candidate<E, R, V>)| {
            other != one && (candidate.promises() || candidate.claim().is_some())
        };
        promising.promises() && candidates.iter().enumerate().any(is_beside)
    })
}

/// ServerTarget clocks there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clocks {
    /// Each number of slow ones, the others fast: candidates differ in nothing else, so whose they are does not matter.
    All,
    /// One candidate's is slow, whose claims last longest; all others are fast, whose patience ends soonest.
    Worst,
}

impl Clocks {
    /// The rates of so many candidates' clocks.
    pub(crate) fn of_candidates(self, candidates: usize) -> impl Iterator<Item = Vec<u64>> {
        let slow = match self {
            Self::All => 0..=candidates,
            Self::Worst => 1..=1,
        };
        slow.map(move |slow| {
            (0..candidates).map(|clock| RATES[usize::from(clock >= slow)]).collect()
        })
    }

    /// Those of the clock of an ensemble's leader.
    pub(crate) fn of_ensemble(self) -> impl Iterator<Item = u64> {
        let [slow, fast] = RATES;
        let is_looked_at = move |rate: &u64| self == Self::All || *rate == fast;
        [slow, fast].into_iter().filter(is_looked_at)
    }
}
