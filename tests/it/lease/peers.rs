//! client-go's own candidate on the same Lease, before and behind ours.

use crate::rig::{ClientGo, ELECTION, Leases, Rig, Store as _, eventually, wait_for};
use std::time::Duration;

/// client-go polls, each time after 1 to 2.2 retry periods.
const ITS_POLL: Duration = Duration::from_millis(2200);

const ROUNDS: usize = 5;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn leadership_goes_to_and_fro_between_client_go_and_ours() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let flags = ["--lease-duration=9s", "--renew-deadline=6s", "--retry-period=1s", "--release-on-cancel"];
    let mut ours = rig.start("ours-0");
    assert_eq!(rig.leader().identity, ours.identity);
    for round in 1..=ROUNDS {
        let name = format!("theirs-{round}");
        let mut theirs = ClientGo::start(&rig.store.account.access, ELECTION, &name, &flags);
        eventually(PATIENCE, "client-go follows", || theirs.told("new_leader").is_some());
        let asked = ours.terminate();
        let led = wait_for(PATIENCE, "client-go leads", || theirs.told("started_leading"));
        assert_eq!(ours.exit_code(), 0);
        let last_promise = rig.last_promise(&ours);
        assert!(led >= rig.since_boot(last_promise), "client-go led at {led:?}, ours promised until {last_promise:?}");
        let bound = rig.since_boot(asked) + rig.timing.answer_validity + ITS_POLL + Leases::NOISE;
        assert!(led <= bound, "client-go led at {led:?}, which is after {bound:?}");

        ours = rig.start(&format!("ours-{round}"));
        eventually(PATIENCE, "ours follows client-go", || rig.stands(&ours, "following"));
        theirs.process.terminate();
        let leader = rig.leader();
        assert_eq!(leader.identity, ours.identity);
        let stopped = theirs.told("work_cancelled").expect("it told when its work had to end");
        let first = rig.first_promise(&ours);
        assert!(rig.since_boot(first) >= stopped, "ours led at {first:?}, client-go's work ended at {stopped:?}");
    }
    assert_eq!(rig.tokens(ELECTION).len(), ROUNDS + 1);
}
