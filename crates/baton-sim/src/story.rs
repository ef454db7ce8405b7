//! A world told in the words of the transcripts: what reaches a candidate, a line `----`, and all that it says.
//!
//! Times are true ones; what a candidate's clock shows stands beside them where it matters.

use crate::checkers::exclusion::name;
use crate::clock::Moment;
use crate::scenario::{Candidate, Deed, Fault, Harm, Mishap, Outage, Setup, Trouble, What, Which};
use crate::trace::{Happening, Observer, Scene};
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::leadership::Status;
use baton_election::machine::{Election, Withdrawal};
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use baton_election::record::RecordElection;
use baton_election::record::messages::{RecordEvent, RecordRequest, Snapshot};
use baton_election::transcript;
use std::fmt::Write as _;
use std::time::Duration;

/// Writes down what happens.
pub(crate) struct Story {
    text: String,
    is_answer: bool,
    /// The name of each candidate's newest znode.
    own: Vec<String>,
    /// Renewals and answers that change nothing are left out.
    told: Vec<Option<String>>,
}

impl Story {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut text = String::new();
        for (number, candidate) in setup.candidates.iter().enumerate() {
            writeln!(text, "# {}: {}", name(number), spell_candidate(candidate))
                .expect("a string takes all");
        }
        let candidates = setup.candidates.len();
        Self {
            text,
            is_answer: true,
            own: vec![String::new(); candidates],
            told: vec![None; candidates],
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn stimulus(&mut self, scene: &Scene<'_>, line: &str) {
        let gap = if self.is_answer { "\n" } else { "" };
        self.is_answer = false;
        self.line(format_args!("{gap}at {} {line}", spell_moment(scene.now)));
    }

    fn answer(&mut self, number: usize, line: &str) {
        if !self.is_answer {
            self.line(format_args!("----"));
        }
        self.is_answer = true;
        self.line(format_args!("{} {line}", name(number)));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("a string takes all");
    }

    fn heard(&mut self, scene: &Scene<'_>, number: usize, what: &str, now: Instant) {
        let shown = scene.shown_to(number);
        let late = shown.since(now);
        let late = if late.is_zero() {
            String::new()
        } else {
            format!(", {late:?} after it looked at its clock")
        };
        self.stimulus(
            scene,
            &format!("{} {what} (its clock: {}{late})", name(number), transcript::instant(shown)),
        );
    }
}

/// A machine whose requests and events can be told; `own` is the name of the candidate's newest znode, where it has any.
pub(crate) trait Spelled: Election {
    /// What it asks.
    fn request(own: &str, request: &Self::Request) -> String;
    /// What it hears.
    fn event(own: &str, event: &Self::Event) -> String;
    /// The name of the znode that it hears to be its own.
    fn own(event: &Self::Event) -> Option<&str>;
}

impl Spelled for RecordElection {
    fn request(_: &str, request: &RecordRequest) -> String {
        transcript::record_request(request)
    }

    fn event(_: &str, event: &RecordEvent) -> String {
        spell_lease_event(event)
    }

    fn own(_: &RecordEvent) -> Option<&str> {
        None
    }
}

impl Spelled for QueueElection {
    fn request(own: &str, request: &QueueRequest) -> String {
        transcript::queue_request(own, request)
    }

    fn event(own: &str, event: &QueueEvent) -> String {
        spell_zookeeper_event(own, event)
    }

    fn own(event: &QueueEvent) -> Option<&str> {
        if let QueueEvent::Joined { name, .. } = event { Some(name) } else { None }
    }
}

impl<E: Spelled> Observer<E> for Story {
    fn see(&mut self, scene: &Scene<'_>, happening: &Happening<'_, E>) {
        match happening {
            Happening::Begins(fault, hit) => self.stimulus(scene, &spell_fault(fault, *hit, true)),
            Happening::Ends(fault, hit) => self.stimulus(scene, &spell_fault(fault, *hit, false)),
            Happening::Felt(_)
            | Happening::Deafened(_)
            | Happening::Goes(_)
            | Happening::Holder(..)
            | Happening::Orphaned => {}
            Happening::Started(number, identity, from) => {
                let line = format!(
                    "{} starts as {identity}, to campaign from {}",
                    name(*number),
                    transcript::instant(*from)
                );
                self.stimulus(scene, &line);
            }
            Happening::Ended(number, end) => {
                self.stimulus(scene, &format!("{} ends: {end:?}", name(*number)));
            }
            Happening::Resigns(number, Withdrawal::Renewing) => {
                self.stimulus(scene, &format!("{} withdraw", name(*number)));
            }
            Happening::Resigns(number, Withdrawal::Releasing) => {
                self.stimulus(scene, &format!("{} withdraw for a release", name(*number)));
            }
            Happening::Campaigns(number) => {
                self.stimulus(scene, &format!("{} campaign", name(*number)));
            }
            Happening::Asks(number, request, _) => {
                self.answer(*number, &format!("> {}", E::request(&self.own[*number], request)));
            }
            Happening::Performed(number, request, reply) => {
                let own = &self.own[*number];
                let (request, reply) = (E::request(own, request), E::event(own, reply));
                let line = format!("the store does for {}: {request}: {reply}", name(*number));
                self.stimulus(scene, &line);
            }
            Happening::Hears(number, event, now) | Happening::Notices(number, event, now) => {
                if let Some(own) = E::own(event) {
                    own.clone_into(&mut self.own[*number]);
                }
                let line = E::event(&self.own[*number], event);
                self.heard(scene, *number, &line, *now);
            }
            Happening::Tells(number, transition) => {
                self.answer(*number, &transcript::transition(transition));
            }
            Happening::Claims(number, None) => self.answer(*number, "claims nothing"),
            Happening::Claims(number, Some(claim)) => {
                let until = spell_moment(scene.clocks[*number].when(claim.deadline()));
                let line = format!(
                    "claims token {} until {} (true time {until})",
                    claim.token(),
                    transcript::instant(claim.deadline())
                );
                self.answer(*number, &line);
            }
            Happening::Answered(number, answer, now) => {
                self.application_hears(scene, *number, &answer.status, *now);
            }
        }
    }
}

impl Story {
    /// The application of `number` reads `status`. Only a change is printed.
    fn application_hears(
        &mut self,
        scene: &Scene<'_>,
        number: usize,
        status: &Status,
        now: Instant,
    ) {
        let line = match status {
            Status::Leading(promise) => {
                let until = spell_moment(scene.clocks[number].when(now + promise.valid_for));
                format!("tells its application: leading, token {}, until {until}", promise.token)
            }
            Status::Unknown | Status::Following { .. } | Status::Resigning => {
                "tells its application: not leading".to_owned()
            }
        };
        if self.told[number].as_deref() != Some(&line) {
            self.heard(scene, number, &line, now);
            self.told[number] = Some(line);
        }
    }
}

fn spell_candidate(candidate: &Candidate) -> String {
    let Candidate { timing, clock_rate, stays, asks_every, .. } = candidate;
    let (lease, renew) = (timing.lease_duration(), timing.renew_deadline());
    let (retry, answer) = (timing.retry_period(), timing.answer_validity());
    let stays = if *stays { "stays when it lost" } else { "ends when it lost" };
    format!(
        "lease {lease:?}, deadline {renew:?}, retry {retry:?}, answer {answer:?}, drift {}; clock off by {} ppm; {stays}; asked every {asks_every:?}",
        timing.drift(),
        clock_rate.parts_per_million(),
    )
}

fn spell_fault(fault: &Fault, hit: Option<usize>, begins: bool) -> String {
    let whom = hit.map_or_else(String::new, |number| format!("{} ", name(number)));
    let what = match fault.what {
        What::Candidate(_, harm) => format!("{whom}{}", spell_harm(harm)),
        What::Store(outage) => format!("the store {}", spell_outage(outage)),
        What::Server(Which::From(_), mishap) => {
            format!("each server from {} on {}", hit.unwrap_or_default(), spell_mishap(mishap))
        }
        What::Server(Which::Server(_) | Which::Leading | Which::OfLeader, mishap) => {
            format!("server {} {}", hit.unwrap_or_default(), spell_mishap(mishap))
        }
        What::Stranger(deed) => format!("a stranger {}", spell_deed(deed)),
    };
    match (begins, fault.lasts) {
        (true, Duration::ZERO) => format!("* {what}"),
        (true, lasts) => format!("* {what} for {lasts:?}"),
        (false, _) => format!("* over: {what}"),
    }
}

fn spell_harm(harm: Harm) -> String {
    match harm {
        Harm::Pause => "stands still".to_owned(),
        Harm::Freeze => "stands still, and its clock too".to_owned(),
        Harm::Starve(longest) => format!("is starved, {longest:?} at a time"),
        Harm::Kill => "is killed".to_owned(),
        Harm::Stop => "is told to stop".to_owned(),
        Harm::Leave => "is told that it will be stopped".to_owned(),
        Harm::Unasked => "is not asked any more".to_owned(),
        Harm::Link(Trouble { requests_lost, replies_lost, late, broken, twice, longest }) => {
            format!(
                "has a bad link: of 1000 {requests_lost} requests lost, {replies_lost} replies lost, {late} late, {broken} broken, \
             {twice} twice, up to {longest:?} late"
            )
        }
        Harm::Lag(longest) => format!("hears news up to {longest:?} late"),
        Harm::Deaf => "hears no news".to_owned(),
        Harm::Bend(rate) => {
            format!("has a clock that is off by {} ppm from now on", rate.parts_per_million())
        }
    }
}

fn spell_outage(outage: Outage) -> String {
    match outage {
        Outage::Refuses => "refuses".to_owned(),
        Outage::Hangs => "hangs".to_owned(),
        Outage::Dies => "dies again and again".to_owned(),
        Outage::Slow(longest) => format!("is up to {longest:?} slow"),
        Outage::Stale => "answers reads from the past".to_owned(),
        Outage::Idle => "answers writes that it does not do".to_owned(),
        Outage::Shortens => "shortens the lease of writes that acquire it".to_owned(),
        Outage::Restored(ago) => format!("is as it was {ago} changes ago"),
    }
}

fn spell_mishap(mishap: Mishap) -> String {
    match mishap {
        Mishap::Cut => "is cut off from the others".to_owned(),
        Mishap::Still => "stands still".to_owned(),
        Mishap::Down => "is down".to_owned(),
        Mishap::SlowPings(takes) => format!("has pings that take {takes:?}"),
    }
}

fn spell_deed(deed: Deed) -> String {
    match deed {
        Deed::Label => "edits a label".to_owned(),
        Deed::Rumour => "starts a rumour".to_owned(),
        Deed::Litter { .. } => "leaves a znode in the line that no session owns".to_owned(),
        Deed::Delete => "deletes the record".to_owned(),
        Deed::Remake => "deletes the record and makes it anew from a copy".to_owned(),
        Deed::Wipe => "removes the holder".to_owned(),
        Deed::Seize(duration) => format!("puts himself in for {duration:?}"),
    }
}

fn spell_moment(moment: Moment) -> String {
    let elapsed = moment.since(Moment::START);
    format!("{}.{:06}s", elapsed.as_secs(), elapsed.subsec_micros())
}

fn spell_lease_event(event: &RecordEvent) -> String {
    match event {
        RecordEvent::Read(read) => format!("read: {}", spell_record(read.as_ref())),
        RecordEvent::Applied(snapshot) => format!("applied: v{}", snapshot.version.number),
        RecordEvent::Conflict => "conflict".to_owned(),
        RecordEvent::Unknown => "unknown".to_owned(),
        RecordEvent::WatchEvent(noticed) => format!("noticed: {}", spell_record(noticed.as_ref())),
    }
}

fn spell_record(snapshot: Option<&Snapshot>) -> String {
    let Some(Snapshot { version, record }) = snapshot else { return "none".to_owned() };
    let holder = record.holder.as_ref().map_or("nobody", Identity::as_str);
    let duration =
        record.duration.map_or_else(|| "-".to_owned(), |duration| format!("{duration:?}"));
    format!("{holder} v{} {duration}", version.number)
}

fn spell_zookeeper_event(own: &str, event: &QueueEvent) -> String {
    match event {
        QueueEvent::Connected { session, timeout } => {
            format!("connected: s{} {timeout:?}", session.0)
        }
        QueueEvent::Expired => "expired".to_owned(),
        QueueEvent::Closed => "closed".to_owned(),
        QueueEvent::Made => "made".to_owned(),
        QueueEvent::Joined { name, czxid } => {
            format!("joined: {} z{czxid}", transcript::short_name("", name))
        }
        QueueEvent::Listed(names) => {
            // Only a request quotes what is not named as usual.
            let names: Vec<_> = names
                .iter()
                .map(|name| transcript::short_name(own, name).replace('"', ""))
                .collect();
            format!("listed: {}", names.join(" "))
        }
        QueueEvent::Found { owner } => format!("found: {}", spell_owner(*owner)),
        QueueEvent::Checked => "checked".to_owned(),
        QueueEvent::Leader(None) => "leader: none".to_owned(),
        QueueEvent::Leader(Some(Announcement { text, owner })) => {
            format!("leader: {text} of {}", spell_owner(*owner))
        }
        QueueEvent::Announced => "acknowledged".to_owned(),
        QueueEvent::Missing => "missing".to_owned(),
        QueueEvent::Saturated => "saturated".to_owned(),
        QueueEvent::Changed => "changed".to_owned(),
        QueueEvent::Refused => "refused".to_owned(),
        QueueEvent::Unknown => "unknown".to_owned(),
        QueueEvent::Disconnected => "disconnected".to_owned(),
        QueueEvent::WatchFired => "fired".to_owned(),
    }
}

fn spell_owner(owner: Option<SessionId>) -> String {
    owner.map_or_else(|| "nobody".to_owned(), |SessionId(number)| format!("s{number}"))
}
