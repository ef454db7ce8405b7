//! A withdrawal of a living leader, as metrics and the log show it.

use crate::rig::{Candidate, Rig, Store, over_every_store, throughout};

over_every_store! {
    a_withdrawn_leader_shows_in_metrics_and_log,
}

fn a_withdrawn_leader_shows_in_metrics_and_log<S: Store>() {
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
    let told = leader.events("withdrawn");
    assert_eq!(told.len(), 1, "SIGTERM withdraws nothing more: {told:?}");
    assert!(
        told[0]["message"]
            .as_str()
            .is_some_and(|message| message.contains("until it receives SIGTERM")),
        "{told:?}"
    );
    assert_eq!(told[0]["token"], leader.events("leading")[0]["token"]);
}

/// The standings that it shows to Prometheus.
fn standings(candidate: &Candidate) -> Vec<&'static str> {
    let mut all = vec!["unknown", "following", "leading", "resigning"];
    all.retain(|standing| {
        let series = format!("baton_standing{{election=\"orders\",standing=\"{standing}\"}}");
        candidate.metric(&series) == Some(1.0)
    });
    all
}

/// Whether it leads, in our word and in client-go's, and whether it knows of a leader.
fn flags(candidate: &Candidate) -> [bool; 3] {
    let series = [
        "baton_is_leader{election=\"orders\"}",
        "leader_election_master_status{name=\"orders\"}",
        "baton_has_leader{election=\"orders\"}",
    ];
    series.map(|series| candidate.metric(series) == Some(1.0))
}
