//! A withdrawn leader, in metrics and in the log.

use crate::rig::{Candidate, Rig, Store, over_every_store, throughout};

over_every_store! {
    withdrawn_leader_shows_in_metrics_and_log,
}

fn withdrawn_leader_shows_in_metrics_and_log<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let leader = rig.start_leader("a");
    let [follower] = rig.start_followers(["b"]);
    assert_eq!(standings(&leader), ["leading"]);
    assert_eq!(standings(&follower), ["following"]);
    assert_eq!(flags(&leader), [true, true, true]);

    let stopping = leader.baton("stopping");
    assert!(stopping.status.success(), "{stopping:?}");
    throughout(rig.timing.retry_period, "it holds the election and does not lead", || {
        rig.holds(&leader)
            && standings(&leader) == ["resigning"]
            && flags(&leader) == [false, false, false]
            && standings(&follower) == ["following"]
            && flags(&follower) == [false, false, true]
    });
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    let events = leader.events("withdrawn");
    assert_eq!(events.len(), 1, "SIGTERM does not withdraw again: {events:?}");
    assert!(
        events[0]["message"]
            .as_str()
            .is_some_and(|message| message.contains("until it receives SIGTERM")),
        "{events:?}"
    );
    assert_eq!(events[0]["token"], leader.events("leading")[0]["token"]);
}

/// The standings that its metrics report.
fn standings(candidate: &Candidate) -> Vec<&'static str> {
    let mut all = vec!["unknown", "following", "leading", "resigning"];
    all.retain(|standing| {
        let series = format!("baton_standing{{election=\"orders\",standing=\"{standing}\"}}");
        candidate.metric(&series) == Some(1.0)
    });
    all
}

/// Whether it leads, by our metric and by client-go's, and whether it knows a leader.
fn flags(candidate: &Candidate) -> [bool; 3] {
    let series = [
        "baton_is_leader{election=\"orders\"}",
        "leader_election_master_status{name=\"orders\"}",
        "baton_has_leader{election=\"orders\"}",
    ];
    series.map(|series| candidate.metric(series) == Some(1.0))
}
