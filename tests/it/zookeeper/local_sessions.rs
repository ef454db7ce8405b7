//! Servers with local sessions, which cannot own a candidate's ephemeral znode.

use crate::rig::{Ensemble, Rig, Settings, Store as _, Znodes};

#[test]
fn local_sessions_are_refused_with_the_setting_to_change() {
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
