//! The reach of other processes of the same user into a running sidecar.

use crate::rig::{Files, Rig, Stranger, Timing};

/// Of distroless images, for example.
const USER: u32 = 65532;

/// An application of the same user, in a Pod whose containers share their processes.
#[test]
fn process_of_the_same_user_cannot_read_the_sidecar() {
    let Some(user) = Stranger::with_uid(USER) else { return };
    let rig = Rig::over(Files::at(&user.directory("store", USER, 0o700)), Timing::FAST);
    let leader = rig.candidate("a").run_by(&user).start();
    rig.leader();
    let process = format!("/proc/{}", leader.pid());
    let reads = |path: String| {
        let output = user.command("cat").arg(path).output().expect("setpriv is installed");
        output.status.success()
    };
    assert!(reads(format!("{process}/status")), "the process is visible");
    for secret in ["environ", "maps", "root/etc/hostname", "io"] {
        assert!(!reads(format!("{process}/{secret}")), "{secret}");
    }
    assert!(leader.metric("process_open_fds").is_some_and(|count| count > 0.0), "it sees itself");
    rig.wait_for_answers();
}
