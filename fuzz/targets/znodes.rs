//! Names of znodes in the election's path and the leader's acknowledgement, compared with a second
//! implementation of the queue.
//!
//! The first line of the input is the acknowledgement. Each other line is a name, and an empty one
//! stands for the candidate's own name.

use baton_election::claim::Standing;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::Election as _;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use std::time::Duration;

/// The candidate's session.
const OURS: SessionId = SessionId(1);
/// The session of all other znodes.
const THEIRS: SessionId = SessionId(2);
/// The candidate's sequence number. Other names can sort before and after it.
const NUMBER: &str = "0000000005";
/// More requests than the candidate sends within the simulated time.
const MAX_REQUESTS: usize = 50;

pub(super) fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (acknowledgement, names) = text.split_once('\n').unwrap_or((&text, ""));
    let mut machine = candidate();
    let mut own = String::new();
    let mut watched = None;
    let mut now = at(100);
    for _ in 0..MAX_REQUESTS {
        check_leader(&machine.standing(), acknowledgement);
        let Some(request) = machine.poll_request(now) else {
            now = now + Duration::from_millis(100);
            continue;
        };
        let listed: Vec<_> = names
            .lines()
            .map(|name| if name.is_empty() { &own } else { name }.to_owned())
            .collect();
        let expected = position(&listed, &own);
        let event = match request {
            QueueRequest::Begin { timeout } | QueueRequest::Resume { timeout } => {
                QueueEvent::Connected { session: OURS, timeout }
            }
            QueueRequest::Close => QueueEvent::Closed,
            QueueRequest::MakePath => QueueEvent::Made,
            QueueRequest::Join { prefix, .. } => {
                own = format!("{prefix}{NUMBER}");
                QueueEvent::Joined { name: own.clone(), czxid: 5 }
            }
            QueueRequest::List => QueueEvent::Listed(listed),
            QueueRequest::Watch { name } if name == own => QueueEvent::Found { owner: Some(OURS) },
            QueueRequest::Watch { name } => {
                assert_eq!(Position::Behind(name.clone()), expected, "must watch its predecessor");
                watched = Some(name);
                QueueEvent::Found { owner: Some(THEIRS) }
            }
            QueueRequest::Check { .. } => {
                assert_eq!(
                    expected,
                    Position::First,
                    "only the first candidate checks for a claim"
                );
                QueueEvent::Checked
            }
            QueueRequest::ReadLeader => QueueEvent::Leader(Some(Announcement {
                text: acknowledgement.to_owned(),
                owner: Some(THEIRS),
            })),
            QueueRequest::Announce { .. } => {
                assert_eq!(expected, Position::First, "only the first candidate acknowledges");
                QueueEvent::Announced
            }
        };
        machine.handle_event(event, now);
        while machine.poll_transition().is_some() {}
        now = now + Duration::from_millis(100);
    }
    let is_leader = matches!(machine.standing(), Standing::Leading(_));
    let listed: Vec<_> =
        names.lines().map(|name| if name.is_empty() { &own } else { name }.to_owned()).collect();
    match position(&listed, &own) {
        Position::First => assert!(is_leader, "the first candidate must lead"),
        Position::Behind(name) => assert!(!is_leader && watched == Some(name), "{watched:?}"),
        Position::Absent => assert!(!is_leader, "the candidate is not in the queue"),
    }
}

/// The machine names a leader only as the acknowledgement does.
fn check_leader(standing: &Standing, acknowledgement: &str) {
    if let Standing::Following { leader: Some(leader) } = standing {
        let expected =
            acknowledgement.split_once(' ').map(|(_, identity)| Identity::parse_lossy(identity));
        assert_eq!(expected.as_ref(), Some(&Some(leader.clone())), "{acknowledgement:?}");
    }
}

/// The candidate's place in the queue: names without a number first, then by number, then by name.
#[derive(Debug, PartialEq)]
enum Position {
    Absent,
    First,
    Behind(String),
}

fn position(names: &[String], own: &str) -> Position {
    let key = |name: &str| {
        let characters: Vec<char> = name.chars().collect();
        let digits = &characters[characters.len().saturating_sub(10)..];
        let is_number = digits.len() == 10 && digits.iter().all(char::is_ascii_digit);
        (is_number.then(|| digits.iter().collect::<String>()), name.to_owned())
    };
    let mut queue: Vec<_> = names.iter().map(|name| key(name)).collect();
    queue.sort();
    queue.dedup();
    match queue.iter().position(|(_, name)| name == own) {
        None => Position::Absent,
        Some(0) => Position::First,
        Some(at) => Position::Behind(queue[at - 1].1.clone()),
    }
}

fn candidate() -> QueueElection {
    let seconds = Duration::from_secs;
    let durations = Durations {
        lease_duration: seconds(15),
        renew_deadline: seconds(10),
        retry_period: seconds(2),
        answer_validity: seconds(2),
    };
    let timing = Timing::new(durations, Drift::default()).expect("client-go's defaults are valid");
    let timing =
        SessionTiming::new(timing, seconds(2)).expect("the defaults are valid for a tick of 2 s");
    QueueElection::new(
        Identity::parse("us_1").expect("a valid identity"),
        timing,
        Jitter::new(1),
        at(0),
    )
}

const fn at(seconds: u64) -> Instant {
    Instant::since_boot(Duration::from_secs(seconds))
}
