//! Sessions that differ from the requested one: longer, shorter, too short, or another session.

use super::{PATIENCE, messages};
use crate::noise::assume_within;
use crate::rig::{
    Candidate, ELECTION, Ensemble, Proxy, Rig, Settings, Store as _, Timing, Znodes, eventually,
    strip_sessions, throughout,
};
use std::time::Duration;

/// Claims that outlast a restart of the server, which took up to eight seconds at a load of 28 on
/// two processors.
const OUTLASTING: Timing = Timing::of_ms(18_000, 12_000, 1000, 1000);
/// The server setting that allows such sessions. By default, a server with a tick of half a second
/// grants at most ten seconds.
const AMPLE: &str = "maxSessionTimeout=20000";
/// The renew deadline of [`OUTLASTING`], shortened because sessions last only 14 seconds.
const CUT_RENEW_DEADLINE: Duration = Duration::from_millis(10_400);

#[test]
fn changed_session_limits_are_logged_and_obeyed() {
    let mut ensemble =
        Ensemble::start(Settings { lines: vec![AMPLE.to_owned()], ..Settings::default() });
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), OUTLASTING);
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    assert!(messages(&leader, "session_granted").is_empty(), "its request was granted");

    let downtime = ensemble.restart_with(&["maxSessionTimeout=14000"]);
    let back_within = left_to_reconnect(rig.timing);
    for candidate in [&leader, &follower] {
        logs_before_exit(candidate, "session_granted", (downtime, back_within), |message| {
            message.contains("of 14s (requested: 18s); that cuts the renew deadline by 1.5")
        });
    }
    throughout(rig.timing.lease_duration, "both stay healthy", || {
        leader.is_healthy() && follower.is_healthy()
    });
    assert_eq!(rig.tokens(ELECTION).len(), 1);

    let downtime = ensemble.restart_with(&["maxSessionTimeout=2000"]);
    let back_within = left_to_reconnect(rig.timing.renewing_for(CUT_RENEW_DEADLINE));
    logs_before_exit(&leader, "session_too_short", (downtime, back_within), |_| true);
    let logged = rig.now();
    let why = "the servers expire such a session two seconds after its last heartbeat";
    rig.must_not_lead(&leader, logged + Duration::from_secs(2), why);
    leader.loses(Duration::from_secs(2) + Znodes::NOISE, "deadline");
    assert_eq!(leader.exit_code(), 75);
    eventually(PATIENCE, "the follower logs it too", || {
        !messages(&follower, "session_too_short").is_empty()
    });
    let (code, output) = rig.candidate("c").ends();
    assert_eq!(code, 2, "without a session there is nothing to wait for: {output}");
    assert!(
        output.contains("session_too_short") && output.contains("these would pass"),
        "{output}"
    );
    eventually(PATIENCE, "candidates that cannot lead leave the queue", || {
        rig.store.queue(ELECTION).is_empty()
    });
    throughout(rig.timing.lease_duration, "the follower waits and does not lead", || {
        follower.is_healthy() && rig.has_standing(&follower, "following")
    });

    ensemble.restart_with(&[AMPLE]);
    eventually(PATIENCE, "the follower leads under the old limits", || {
        rig.has_standing(&follower, "leading")
    });
    assert_eq!(rig.tokens(ELECTION).len(), 2);
}

/// How long servers may be down before that alone may end a leader's claim. The claim counts from
/// the heartbeat before the last one, and a failed attempt to connect costs one more retry period.
fn left_to_reconnect(timing: Timing) -> Duration {
    timing.renew_deadline.saturating_sub(3 * timing.retry_period)
}

/// Waits until a candidate logs this event, which it does once the servers are back after their
/// `downtime`. If it exits first, it is broken, or the servers were down longer than `back_within`.
#[track_caller]
fn logs_before_exit(
    candidate: &Candidate,
    event: &str,
    (downtime, back_within): (Duration, Duration),
    matches: impl Fn(&str) -> bool,
) {
    eventually(PATIENCE, event, || {
        let has_exited = !candidate.is_alive();
        let has_logged = messages(candidate, event).iter().any(|message| matches(message));
        if has_exited && !has_logged {
            assume_within(
                "the servers are back before the leader's claim ends",
                downtime,
                back_within,
            );
            panic!("it exited before it logged {event}; the servers were back after {downtime:?}");
        }
        has_logged
    });
}

#[test]
fn longer_session_than_requested_is_logged_and_waited_out() {
    let lines = vec!["minSessionTimeout=12000".to_owned(), "maxSessionTimeout=20000".to_owned()];
    let ensemble = Ensemble::start(Settings { lines, ..Settings::default() });
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::FAST);
    let leader = rig.start_leader("a");
    rig.start_followers(["b"]);
    eventually(PATIENCE, "the longer session is logged", || {
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
fn replaced_session_ends_the_term_and_requeues_a_follower() {
    let ensemble = Ensemble::shared();
    let proxy = Proxy::to(strip_sessions(ensemble.address(0)));
    let rig = Rig::over(Znodes::on(ensemble, &ensemble.connect_string()), Znodes::FAST);
    let through_proxy = |name| {
        let servers = rig.store.servers_at(proxy.address());
        rig.candidate(name).flag("--zookeeper-servers", servers).start()
    };
    let leader = through_proxy("a");
    assert_eq!(rig.leader().identity, leader.identity);
    let follower = through_proxy("b");
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    let cut = rig.now();
    proxy.cut();
    leader.loses(rig.timing.call_timeout() + Znodes::NOISE, "session_expired");
    assert_eq!(leader.exit_code(), 75);
    eventually(PATIENCE, "the follower joins the queue again", || {
        rig.store.queue(ELECTION).len() == 3
    });
    let takeover = rig.store.takeover(rig.timing);
    assert_eq!(rig.successor(&leader, cut, takeover).0.identity, follower.identity);
    eventually(PATIENCE, "the znodes of old sessions are gone", || {
        rig.store.queue(ELECTION).len() == 1
    });
    assert!(rig.holds(&follower));
}
