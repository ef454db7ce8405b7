//! Sessions that the servers grant in another way than they were asked for, or than before: longer, shorter, too short, or
//! another session altogether.

use super::{PATIENCE, messages};
use crate::noise::assume_within;
use crate::rig::{
    Candidate, ELECTION, Ensemble, Proxy, Rig, Settings, Store as _, Timing, Znodes, eventually,
    forgetful, throughout,
};
use std::time::Duration;

/// Claims that outlast a restart of the server: at a load of 28 on two processors it took up to
/// eight seconds.
const OUTLASTING: Timing = Timing::of_ms(18_000, 12_000, 1000, 1000);
/// The configuration line that lets servers grant them: by default a server with a tick of half a
/// second grants ten seconds.
const AMPLE: &str = "maxSessionTimeout=20000";
/// The rest of the renew deadline of these where sessions last 14 seconds.
const CUT_RENEW_DEADLINE: Duration = Duration::from_millis(10_400);

#[test]
fn limits_that_change_between_two_connections_are_told_and_what_is_too_short_is_not_led_with() {
    let mut ensemble =
        Ensemble::start(Settings { lines: vec![AMPLE.to_owned()], ..Settings::default() });
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), OUTLASTING);
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    assert!(messages(&leader, "session_granted").is_empty(), "it was granted what it asked for");

    let away = ensemble.restart_with(&["maxSessionTimeout=14000"]);
    let back_within = left_to_reconnect(rig.timing);
    for candidate in [&leader, &follower] {
        says_before_it_ends(candidate, "session_granted", (away, back_within), |message| {
            message.contains("of 14s (requested: 18s); that cuts the renew deadline by 1.5")
        });
    }
    throughout(rig.timing.lease_duration, "all goes on", || {
        leader.is_healthy() && follower.is_healthy()
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1);

    let away = ensemble.restart_with(&["maxSessionTimeout=2000"]);
    let back_within = left_to_reconnect(rig.timing.renewing_for(CUT_RENEW_DEADLINE));
    says_before_it_ends(&leader, "session_too_short", (away, back_within), |_| true);
    let told = rig.now();
    let why = "the servers end such a session that long after its last sign";
    rig.must_be_silent(&leader, told + Duration::from_secs(2), why);
    leader.loses(Duration::from_secs(2) + Znodes::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    eventually(PATIENCE, "the other says so too", || {
        !messages(&follower, "session_too_short").is_empty()
    });
    let (code, output) = rig.candidate("c").ends();
    assert_eq!(code, 2, "who was never let in has nothing to wait for: {output}");
    assert!(
        output.contains("session_too_short") && output.contains("these would pass"),
        "{output}"
    );
    eventually(PATIENCE, "nobody stands in line who could not lead", || {
        rig.store.line(ELECTION).is_empty()
    });
    throughout(rig.timing.lease_duration, "who was let in before waits, and does not lead", || {
        follower.is_healthy() && rig.stands(&follower, "following")
    });

    ensemble.restart_with(&[AMPLE]);
    eventually(PATIENCE, "with the old limits it leads", || rig.stands(&follower, "leading"));
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

/// How long servers may be away before a leader's claim may end for that alone: it counts from the
/// heartbeat before the last one, and a try to connect that just failed costs one more retry
/// period.
fn left_to_reconnect(timing: Timing) -> Duration {
    timing.renew_deadline.saturating_sub(3 * timing.retry_period)
}

/// Waits until a candidate that led or followed logs this, which it does once servers are back that
/// were away for so long. After its end it logs nothing: then the servers were away for too long,
/// or it is broken.
#[track_caller]
fn says_before_it_ends(
    candidate: &Candidate,
    event: &str,
    (away, back_within): (Duration, Duration),
    is_meant: impl Fn(&str) -> bool,
) {
    eventually(PATIENCE, event, || {
        let has_ended = !candidate.is_alive();
        let has_said = messages(candidate, event).iter().any(|message| is_meant(message));
        if has_ended && !has_said {
            assume_within("the servers are back before the leader's claim ends", away, back_within);
            panic!("it ended before it logged {event}, and the servers were back after {away:?}");
        }
        has_said
    });
}

#[test]
fn a_session_that_lasts_longer_than_asked_for_is_told_and_waited_out() {
    let lines = vec!["minSessionTimeout=12000".to_owned(), "maxSessionTimeout=20000".to_owned()];
    let ensemble = Ensemble::start(Settings { lines, ..Settings::default() });
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::FAST);
    let leader = rig.start_leader("a");
    rig.start_followers(["b"]);
    eventually(PATIENCE, "it says so", || {
        messages(&leader, "session_granted")
            .iter()
            .any(|message| message.contains("noticed that much later"))
    });
    let killed = leader.kill();
    let granted = rig.timing.lasting(Duration::from_secs(12));
    let (_, led) = rig.successor(&leader, killed, rig.store.takeover(granted));
    let waited = led.since(killed);
    assert!(waited + rig.timing.retry_period > granted.lease_duration, "{waited:?}");
}

#[test]
fn another_session_than_ours_ends_the_term_and_sends_a_follower_to_the_end_of_the_line() {
    let ensemble = Ensemble::shared();
    let way = Proxy::to(forgetful(ensemble.address(0)));
    let rig = Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), Znodes::FAST);
    let by_that_way = |name| {
        let servers = rig.store.servers_at(way.address());
        rig.candidate(name).flag("--zookeeper-servers", servers).start()
    };
    let leader = by_that_way("a");
    assert_eq!(rig.leader().identity, leader.identity);
    let follower = by_that_way("b");
    eventually(PATIENCE, "it follows", || rig.stands(&follower, "following"));
    let cut = rig.now();
    way.cut();
    leader.loses(rig.timing.call_timeout() + Znodes::NOISE, "session_expired");
    assert_eq!(leader.exit_code(), 75);
    eventually(PATIENCE, "the follower stands in line once more", || {
        rig.store.line(ELECTION).len() == 3
    });
    let takeover = rig.store.takeover(rig.timing);
    assert_eq!(rig.successor(&leader, cut, takeover).0.identity, follower.identity);
    eventually(PATIENCE, "what was left behind is gone", || rig.store.line(ELECTION).len() == 1);
    assert!(rig.holds(&follower));
}
