//! client-go's own candidate on the same Lease, before and behind ours.

use super::ground::{Ground, PATIENCE, TIMING};
use crate::rig::{ClientGo, ELECTION, NOISE, eventually, wait_for};
use std::time::Duration;

/// client-go polls, each time after 1 to 2.2 retry periods.
const ITS_POLL: Duration = Duration::from_millis(2200);

const ROUNDS: usize = 5;

#[test]
fn leadership_goes_to_and_fro_between_client_go_and_ours() {
    let ground = Ground::new();
    let flags = ["--lease-duration=9s", "--renew-deadline=6s", "--retry-period=1s", "--release-on-cancel"];
    let mut ours = ground.candidate("ours-0").start();
    assert_eq!(ground.rig.leader().identity, ours.identity);
    for round in 1..=ROUNDS {
        let name = format!("theirs-{round}");
        let mut theirs = ClientGo::start(&ground.account.access, ELECTION, &name, &flags);
        eventually(PATIENCE, "client-go follows", || theirs.told("new_leader").is_some());
        let asked = ours.terminate();
        let led = wait_for(PATIENCE, "client-go leads", || theirs.told("started_leading"));
        assert_eq!(ours.exit_code(), 0);
        let last_promise = ground.rig.last_promise(&ours);
        assert!(
            led >= ground.rig.since_boot(last_promise),
            "client-go led at {led:?}, ours promised until {last_promise:?}"
        );
        let bound = ground.rig.since_boot(asked) + TIMING.answer_validity + ITS_POLL + 2 * NOISE;
        assert!(led <= bound, "client-go led at {led:?}, which is after {bound:?}");

        ours = ground.candidate(&format!("ours-{round}")).start();
        eventually(PATIENCE, "ours follows client-go", || ground.rig.stands(&ours, "following"));
        theirs.process.terminate();
        let leader = ground.rig.leader();
        assert_eq!(leader.identity, ours.identity);
        let stopped = theirs.told("work_cancelled").expect("it told when its work had to end");
        let first = ground.rig.first_promise(&ours);
        assert!(
            ground.rig.since_boot(first) >= stopped,
            "ours led at {first:?}, client-go's work ended at {stopped:?}"
        );
    }
    assert_eq!(ground.rig.tokens(ELECTION).len(), ROUNDS + 1);
}
