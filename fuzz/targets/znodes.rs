//! What stands in the election's path: the children's names, and what a leader wrote down for the others. Judged by a line
//! of our own.
//!
//! The first line is the acknowledgement, and each other one a name; an empty name is ours.

use baton_election::claim::Standing;
use baton_election::identity::Identity;
use baton_election::instant::Instant;
use baton_election::machine::Election as _;
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use baton_election::queue::timing::SessionTiming;
use baton_election::timing::{Drift, Durations, Jitter, Timing};
use std::time::Duration;

/// Our session, and another's.
const OURS: SessionId = SessionId(1);
const THEIRS: SessionId = SessionId(2);
/// Ten digits that make the middle of a line.
const NUMBER: &str = "0000000005";
/// More requests than a machine asks in the time that we give it.
const PATIENCE: usize = 50;

pub(super) fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (acknowledgement, names) = text.split_once('\n').unwrap_or((&text, ""));
    let mut machine = candidate();
    let mut own = String::new();
    let mut asked_behind = None;
    let mut now = at(100);
    for _ in 0..PATIENCE {
        check_leader(&machine.standing(), acknowledgement);
        let Some(request) = machine.poll_request(now) else {
            now = now + Duration::from_millis(100);
            continue;
        };
        let listed: Vec<_> = names
            .lines()
            .map(|name| if name.is_empty() { &own } else { name }.to_owned())
            .collect();
        let expected = first_of(&listed, &own);
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
                assert_eq!(
                    Place::Behind(name.clone()),
                    expected,
                    "who stands directly before us is watched"
                );
                asked_behind = Some(name);
                QueueEvent::Found { owner: Some(THEIRS) }
            }
            QueueRequest::Check { .. } => {
                assert_eq!(expected, Place::First, "only who is first asks for a claim");
                QueueEvent::Checked
            }
            QueueRequest::ReadLeader => QueueEvent::Leader(Some(Announcement {
                text: acknowledgement.to_owned(),
                owner: Some(THEIRS),
            })),
            QueueRequest::Announce { .. } => {
                assert_eq!(expected, Place::First, "only who is first acknowledges that it leads");
                QueueEvent::Announced
            }
        };
        machine.handle_event(event, now);
        while machine.poll_transition().is_some() {}
        now = now + Duration::from_millis(100);
    }
    let leads = matches!(machine.standing(), Standing::Leading(_));
    let listed: Vec<_> =
        names.lines().map(|name| if name.is_empty() { &own } else { name }.to_owned()).collect();
    match first_of(&listed, &own) {
        Place::First => assert!(leads, "nobody is before us"),
        Place::Behind(name) => assert!(!leads && asked_behind == Some(name), "{asked_behind:?}"),
        Place::Absent => assert!(!leads, "we do not stand in the line"),
    }
}

/// The machine names a leader only as the acknowledgement does.
fn check_leader(standing: &Standing, acknowledgement: &str) {
    if let Standing::Following { leader: Some(leader) } = standing {
        let told =
            acknowledgement.split_once(' ').map(|(_, identity)| Identity::parse_lossy(identity));
        assert_eq!(told.as_ref(), Some(&Some(leader.clone())), "{acknowledgement:?}");
    }
}

/// Where we stand, by another way of counting: names without a number before all others, then by number, then by name.
#[derive(Debug, PartialEq)]
enum Place {
    Absent,
    First,
    Behind(String),
}

fn first_of(names: &[String], own: &str) -> Place {
    let key = |name: &str| {
        let characters: Vec<char> = name.chars().collect();
        let digits = &characters[characters.len().saturating_sub(10)..];
        let is_number = digits.len() == 10 && digits.iter().all(char::is_ascii_digit);
        (is_number.then(|| digits.iter().collect::<String>()), name.to_owned())
    };
    let mut line: Vec<_> = names.iter().map(|name| key(name)).collect();
    line.sort();
    line.dedup();
    match line.iter().position(|(_, name)| name == own) {
        None => Place::Absent,
        Some(0) => Place::First,
        Some(at) => Place::Behind(line[at - 1].1.clone()),
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
    let timing = Timing::new(durations, Drift::default()).expect("client-go's defaults pass");
    let timing = SessionTiming::new(timing, seconds(2)).expect("the defaults suit the usual tick");
    QueueElection::new(Identity::parse("us_1").expect("it is short"), timing, Jitter::new(1), at(0))
}

const fn at(seconds: u64) -> Instant {
    Instant::since_boot(Duration::from_secs(seconds))
}
