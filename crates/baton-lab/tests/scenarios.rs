//! Every scenario ends as the page predicts, and free play never has two leaders.
//!
//! Touches nothing. Start with [`end_of`].

use baton_lab::action::{Action, ActionKind};
use baton_lab::resource::writes;
use baton_lab::scenarios::{NAMES, scenario};
use baton_sim::clock::Moment;
use baton_sim::json::Json;
use baton_sim::live::LiveRun;
use baton_sim::recording::{Fact, Record};
use baton_sim::rng::Rng;
use baton_sim::world::StoreView;
use std::time::Duration;

fn end_of(name: &str, seed: u64) -> LiveRun {
    let mut run = LiveRun::new(scenario(name, seed).expect("a known name"));
    run.seek(Moment::NEVER);
    run
}

fn leader(run: &LiveRun) -> Option<usize> {
    run.view().nodes.iter().position(|node| node.claim.is_some())
}

fn violation(run: &LiveRun) -> String {
    let mut json = Json::default();
    run.write_violation(&mut json);
    json.into_text()
}

/// When candidates began to lead after `CALM`, with their indices.
fn terms(run: &LiveRun) -> Vec<(f64, usize)> {
    let seconds = |record: &Record| record.at.since(Moment::START).as_secs_f64();
    let leads = |record: &Record| {
        let Fact::Role(who, "leads", _) = record.fact else { return None };
        Some((seconds(record), who))
    };
    run.records().iter().filter_map(leads).collect()
}

/// The candidates that were notified after the fault at 10 s.
fn woken(run: &LiveRun) -> Vec<usize> {
    let calm = Moment::START + Duration::from_secs(10);
    let fired = |record: &Record| {
        let Fact::Notified(who) = record.fact else { return None };
        (record.at > calm && record.text.contains("watch fired")).then_some(who)
    };
    run.records().iter().filter_map(fired).collect()
}

#[test]
fn only_clocks_beyond_the_bound_violate_a_property() {
    for name in NAMES {
        for seed in 0..12 {
            let run = end_of(name, seed);
            let violation = violation(&run);
            assert_eq!(violation != "null", name == "drift-beyond", "{name} {seed}: {violation}");
        }
    }
}

#[test]
fn first_to_join_leads_and_each_watches_its_predecessor() {
    for seed in 0..12 {
        let run = end_of("join", seed);
        let StoreView::Queue { znodes, mut watches, .. } = run.view().store else { panic!() };
        assert_eq!(znodes.len(), 5, "{seed}");
        assert_eq!(leader(&run), znodes[0].owner, "{seed}");
        // The leader watches its own znode, so that it learns of a deletion at once.
        watches.retain(|(who, name)| (Some(*who), name) != (znodes[0].owner, &znodes[0].name));
        watches.sort_unstable();
        let mut expected: Vec<_> =
            znodes.windows(2).map(|pair| (pair[1].owner.unwrap(), pair[0].name.clone())).collect();
        expected.sort_unstable();
        assert_eq!(watches, expected, "{seed}");
    }
}

#[test]
fn death_of_the_leader_wakes_only_its_successor() {
    for seed in 0..12 {
        let mut run = LiveRun::new(scenario("leader-dies", seed).unwrap());
        run.seek(Moment::START + Duration::from_secs(9));
        let StoreView::Queue { znodes, .. } = run.view().store else { panic!() };
        run.seek(Moment::NEVER);
        assert_eq!(woken(&run), [znodes[1].owner.unwrap()], "{seed}");
        assert_eq!(leader(&run), znodes[1].owner, "{seed}");
    }
}

#[test]
fn death_in_the_chain_wakes_one_and_the_leader_stays() {
    for seed in 0..12 {
        let run = end_of("mid-chain", seed);
        assert_eq!(woken(&run).len(), 1, "{seed}");
        assert_eq!(terms(&run).len(), 1, "{seed}");
    }
}

#[test]
fn record_scenarios_change_leaders_as_predicted() {
    for seed in 0..12 {
        let terms_of = |name| terms(&end_of(name, seed));
        for (name, at_least, at_most) in [
            ("crash", 6.0, 8.0),
            ("handoff", 0.0, 1.5),
            ("long-partition", 5.0, 8.0),
            ("paused-leader", 5.0, 8.0),
            ("restored-store", 5.0, 8.0),
        ] {
            let terms = terms_of(name);
            assert_eq!(terms.len(), 2, "{name} {seed}: {terms:?}");
            let gap = terms[1].0 - 10.0;
            assert!((at_least - 1.0..at_most).contains(&gap), "{name} {seed}: {gap}");
        }
        assert_eq!(terms_of("short-partition").len(), 1, "{seed}");
        assert_eq!(terms_of("drift-within").len(), 2, "{seed}");
        assert!(terms_of("outage").len() >= 2, "{seed}");
    }
}

#[test]
fn late_write_of_a_paused_leader_is_stale() {
    for seed in 0..12 {
        let run = end_of("fencing", seed);
        let writes = writes(run.records(), 3, run.now());
        let stale: Vec<_> = writes.iter().filter(|write| write.is_stale).collect();
        assert_eq!(stale.len(), 1, "{seed}");
        let first = terms(&run)[0].1;
        assert_eq!(stale[0].candidate, first, "{seed}");
    }
}

#[test]
fn any_order_of_seeks_gives_the_same_records() {
    let mut rng = Rng::new(1);
    let expected = end_of("leader-dies", 1);
    let mut run = LiveRun::new(scenario("leader-dies", 1).unwrap());
    for _ in 0..200 {
        run.seek(Moment::START + rng.duration_between(Duration::ZERO, Duration::from_secs(30)));
        let view = run.view();
        let mut fresh = LiveRun::new(scenario("leader-dies", 1).unwrap());
        fresh.seek(run.now());
        assert_eq!(view, fresh.view());
    }
    run.seek(Moment::NEVER);
    assert_eq!(run.records(), expected.records());
}

/// Applies actions in their order; those that make no sense are skipped.
fn act(run: &mut LiveRun, actions: &[&str]) -> usize {
    let mut applied = 0;
    for action in actions {
        let action = Action::parse(action).expect("a well-formed action");
        applied += usize::from(action.apply(run).is_ok());
    }
    applied
}

/// A session that was closed from outside cannot be resumed. Otherwise its client joins the queue
/// again with a znode that outlives a restart of all servers, and no process leads for the rest of
/// the run.
#[test]
fn closed_session_leaves_no_znode() {
    let actions = ["expire:3@9647000", "outage@20000000", "recover@30000000"];
    for seed in 0..12 {
        let mut run = LiveRun::new(scenario("free-play", seed).unwrap());
        assert_eq!(act(&mut run, &actions), actions.len());
        run.seek(Moment::START + Duration::from_mins(1));
        assert!(leader(&run).is_some(), "{seed}");
    }
}

/// Random actions on any process, at random times, over both stores. When all faults have ended,
/// one process leads.
#[test]
fn free_play_has_at_most_one_leader_and_recovers() {
    for seed in 0..12 {
        let name = ["free-play-record", "free-play", "free-play-9"][seed % 3];
        let mut rng = Rng::new(seed as u64);
        let mut run = LiveRun::new(scenario(name, seed as u64).expect("a known name"));
        let candidates = run.scenario().candidates.len();
        let mut at = Moment::START;
        let mut applied = 0;
        for _ in 0..150 {
            at = at + rng.duration_between(Duration::ZERO, Duration::from_secs(6));
            let who = rng.index(candidates);
            let kind = rng.pick(&[
                ActionKind::Kill(who),
                ActionKind::Stop(who),
                ActionKind::Restart(who),
                ActionKind::Pause(who),
                ActionKind::Resume(who),
                ActionKind::Cut(who),
                ActionKind::Heal(who),
                ActionKind::Expire(who),
                ActionKind::Outage,
                ActionKind::Recover,
            ]);
            applied += usize::from(Action { at, kind }.apply(&mut run).is_ok());
            run.seek(at);
            assert_eq!(violation(&run), "null", "{name} {seed}");
        }
        assert!(applied > 50, "{name} {seed}: {applied}");
        let micros = at.since(Moment::START).as_micros() + 1;
        let ends = |who| ["resume", "heal", "restart"].map(|verb| format!("{verb}:{who}@{micros}"));
        let calm: Vec<_> =
            (0..candidates).flat_map(ends).chain([format!("recover@{micros}")]).collect();
        act(&mut run, &calm.iter().map(String::as_str).collect::<Vec<_>>());
        run.seek(at + Duration::from_mins(1));
        assert_eq!(violation(&run), "null", "{name} {seed}");
        assert!(leader(&run).is_some(), "{name} {seed}: no leader at {:?}", run.now());
    }
}
