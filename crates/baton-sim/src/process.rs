//! One process: the machine that ships, under its driver's and its supervisor's rules.
//!
//! Pure. It says with `backend.rs` in which order a turn goes, and with `supervisor.rs` in which order a clean stop does:
//! withdraw, wait until the last promise has run out, release. Start with [`Process::take`].

use crate::trace::{End, Happening};
use baton_election::claim::{Claim, Standing};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Leadership;
use baton_election::machine::{Election, Event, Reason, Transition, Withdrawal};
use baton_election::timing::Timing;
use std::time::Duration;

/// A running process.
#[derive(Debug)]
pub(crate) struct Process<E: Election> {
    number: usize,
    pub(crate) identity: Identity,
    machine: E,
    leadership: Leadership,
    stays: bool,
    is_calling: bool,
    errand: Errand,
    /// No later order to campaign counts.
    is_ending: bool,
    /// The claim that was told last.
    told: Option<Claim>,
}

/// What reaches a process.
#[derive(Debug)]
pub(crate) enum Input<E: Election> {
    /// A timer.
    Wake,
    /// The reply to the call of this number; absent when that is over without one.
    Reply { call: u64, event: Option<E::Event> },
    /// News that nobody asked for.
    News(E::Event),
    /// Its application asks.
    Asked,
    /// A signal, a hook, or the want of them.
    Order(Order),
}

/// What a process can be told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// SIGTERM.
    Stop,
    /// The preStop hook.
    Leave,
    /// Nobody asked for so long that the application may be dead.
    Resign,
    /// Somebody asks again.
    Campaign,
}

/// How far an order has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Errand {
    None,
    /// Withdrawn: the release follows at the instant at which the last promise has run out.
    Waiting(Purpose, Instant),
    /// The release is under way; who stops does not wait for it for ever.
    Releasing(Purpose, Option<Instant>),
    /// Released, and to be asked again.
    Resigned,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Stop,
    Resign { campaigns_after: bool },
}

/// What a process does next.
#[derive(Debug)]
pub(crate) enum Step<E: Election> {
    /// It waits.
    Rest,
    /// It asks the store.
    Ask(E::Request),
    /// It is over.
    End(End),
}

impl<E: Election> Process<E> {
    pub(crate) fn new(
        number: usize,
        identity: Identity,
        machine: E,
        timing: Timing,
        stays: bool,
    ) -> Self {
        let leadership = Leadership::new(timing.answer_validity());
        let (is_calling, is_ending, told) = (false, false, None);
        let errand = Errand::None;
        Self { number, identity, machine, leadership, stays, is_calling, errand, is_ending, told }
    }

    /// Takes something in at `now` on its own clock.
    pub(crate) fn take(
        &mut self,
        input: Input<E>,
        now: Instant,
        tell: &mut impl FnMut(&Happening<'_, E>),
    ) -> Step<E> {
        match input {
            Input::Wake => self.machine.handle_timeout(now),
            Input::Reply { event, .. } => {
                self.is_calling = false;
                let event = event.unwrap_or(E::Event::UNKNOWN);
                tell(&Happening::Hears(self.number, &event, now));
                self.machine.handle_event(event, now);
            }
            Input::News(event) => {
                tell(&Happening::Notices(self.number, &event, now));
                self.machine.handle_event(event, now);
            }
            Input::Order(order) => self.obey(order, now, tell),
            Input::Asked => {
                // Answers come from what was published: the driver need not turn.
                let answer = self.leadership.promise(now);
                tell(&Happening::Answered(self.number, &answer, now));
                return Step::Rest;
            }
        }
        self.run_errand(now);
        if let Some(end) = self.turn(now, tell) {
            return Step::End(end);
        }
        if self.is_calling {
            return Step::Rest;
        }
        let request = self.machine.poll_request(now);
        if let Some(end) = self.turn(now, tell) {
            return Step::End(end);
        }
        match request {
            Some(request) => {
                self.is_calling = true;
                tell(&Happening::Asks(self.number, &request, now));
                Step::Ask(request)
            }
            None => Step::Rest,
        }
    }

    /// When it wants to be woken.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        let errand = match self.errand {
            Errand::Waiting(_, until) | Errand::Releasing(_, Some(until)) => Some(until),
            Errand::None | Errand::Releasing(_, None) | Errand::Resigned => None,
        };
        let machine = self.machine.poll_timeout().map(|(due, _)| due);
        machine.into_iter().chain(errand).min()
    }

    /// How long one call to the store may take, as things are now.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.machine.call_timeout()
    }

    /// The claim that it holds at `now`.
    pub(crate) fn claim(&self, now: Instant) -> Option<Claim> {
        self.told.filter(|claim| !claim.remaining(now).is_zero())
    }

    /// The driver's turn: time-out, publish, transitions, and what an errand waits for.
    fn turn(&mut self, now: Instant, tell: &mut impl FnMut(&Happening<'_, E>)) -> Option<End> {
        self.machine.handle_timeout(now);
        self.publish(now, tell);
        while let Some(transition) = self.machine.poll_transition() {
            tell(&Happening::Tells(self.number, &transition));
            if let Transition::Lost { reason, .. } = transition
                && !self.stays
            {
                // By the deadline the last promise has run out too, so a stop that it overtakes is a clean one.
                let stops = matches!(
                    self.errand,
                    Errand::Waiting(Purpose::Stop, _) | Errand::Releasing(Purpose::Stop, _)
                );
                let is_clean = stops && reason == Reason::Deadline;
                return Some(if is_clean { End::Stopped } else { End::Lost(reason) });
            }
        }
        let Errand::Releasing(purpose, patience) = self.errand else { return None };
        let is_done = self.machine.is_released() || patience.is_some_and(|until| until <= now);
        match purpose {
            Purpose::Stop => is_done.then_some(End::Stopped),
            Purpose::Resign { campaigns_after } => {
                if is_done {
                    self.errand = Errand::Resigned;
                }
                if is_done && campaigns_after {
                    self.obey(Order::Campaign, now, tell);
                }
                None
            }
        }
    }

    fn publish(&mut self, now: Instant, tell: &mut impl FnMut(&Happening<'_, E>)) {
        let standing = self.machine.standing();
        let claim = match &standing {
            Standing::Leading(claim) | Standing::Resigning(claim) => Some(*claim),
            Standing::Unknown | Standing::Following { .. } => None,
        };
        self.leadership.publish(standing, now);
        if claim != self.told {
            self.told = claim;
            tell(&Happening::Claims(self.number, claim));
        }
    }

    fn obey(&mut self, order: Order, now: Instant, tell: &mut impl FnMut(&Happening<'_, E>)) {
        match (order, self.errand) {
            (Order::Stop, _) => {
                self.is_ending = true;
                self.withdraw(Purpose::Stop, now, tell);
            }
            (Order::Leave, _) => {
                self.is_ending = true;
                tell(&Happening::Resigns(self.number, Withdrawal::Renewing));
                self.machine.withdraw(Withdrawal::Renewing);
                self.publish(now, tell);
            }
            (Order::Resign, Errand::None) if !self.is_ending && self.claim(now).is_some() => {
                self.withdraw(Purpose::Resign { campaigns_after: false }, now, tell);
            }
            (Order::Campaign, Errand::Resigned) if !self.is_ending => {
                self.errand = Errand::None;
                tell(&Happening::Campaigns(self.number));
                self.machine.campaign(now);
            }
            (Order::Campaign, Errand::Waiting(Purpose::Resign { .. }, until)) => {
                self.errand = Errand::Waiting(Purpose::Resign { campaigns_after: true }, until);
            }
            (Order::Campaign, Errand::Releasing(Purpose::Resign { .. }, patience)) => {
                self.errand =
                    Errand::Releasing(Purpose::Resign { campaigns_after: true }, patience);
            }
            (Order::Resign | Order::Campaign, _) => {}
        }
    }

    fn withdraw(
        &mut self,
        purpose: Purpose,
        now: Instant,
        tell: &mut impl FnMut(&Happening<'_, E>),
    ) {
        tell(&Happening::Resigns(self.number, Withdrawal::Releasing));
        self.machine.withdraw(Withdrawal::Releasing);
        self.publish(now, tell);
        self.errand = Errand::Waiting(purpose, self.leadership.promised_until().unwrap_or(now));
    }

    /// Orders the release when the last promise has run out.
    fn run_errand(&mut self, now: Instant) {
        let Errand::Waiting(purpose, promised_until) = self.errand else { return };
        if promised_until <= now {
            let (reason, patience) = match purpose {
                Purpose::Stop => (Reason::Shutdown, Some(now + self.machine.call_timeout() * 3)),
                Purpose::Resign { .. } => (Reason::Unasked, None),
            };
            self.machine.release(reason, now);
            self.errand = Errand::Releasing(purpose, patience);
        }
    }
}
