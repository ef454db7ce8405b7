//! Servers that keep sessions to themselves: a candidate has no use for such a session.

use crate::rig::{Ensemble, Rig, Settings, Store as _, Znodes};

#[test]
fn servers_that_give_candidates_no_session_to_stand_in_line_with_are_told_what_to_change() {
    let lines =
        ["localSessionsEnabled=true", "localSessionsUpgradingEnabled=false"].map(str::to_owned);
    let ensemble =
        Ensemble::start(Settings { size: 3, lines: lines.into(), ..Settings::default() });
    let rig = Rig::over(Znodes::on(&ensemble, &ensemble.connect_string()), Znodes::FAST);
    let (code, output) = rig.candidate("a").ends();
    assert_eq!(code, 77, "{output}");
    assert!(output.contains("localSessionsUpgradingEnabled=true"), "{output}");
    rig.wait_for_answers();
}
