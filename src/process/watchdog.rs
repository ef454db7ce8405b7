//! Ends the process when a claim expires and the driver does not notice.
//!
//! Touches a thread, the clock, and `std::process::exit`, which no other module calls. Start with
//! [`start`]. A blocked runtime answers no request and so promises nothing, but its application
//! would continue; only the end of the process restarts it. A livenessProbe is no substitute: after
//! a kill by kubelet, the application restarted in 32 of 76 cases.

use crate::driver::leadership::Reader;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use baton_election::instant::Instant;
use std::io;
use std::thread;
use std::time::Duration;

/// How long the driver may take to notice an expired claim, for example after a pause.
const DRIVER_GRACE: Duration = Duration::from_millis(500);

/// How long to wait for the last log line.
const LOG_TIMEOUT: Duration = Duration::from_millis(100);

/// Starts the thread that watches the published claims until the process ends.
pub fn start(reader: Reader) -> io::Result<()> {
    thread::Builder::new().name("watchdog".to_owned()).spawn(move || watch(&reader)).map(drop)
}

fn watch(reader: &Reader) {
    loop {
        let deadline = reader.await_claim().deadline();
        // A thread's sleep stops during suspend and may end early, so the clock is read again.
        thread::sleep(deadline.since(Clock.now()));
        if is_overdue(reader, Clock.now()) {
            thread::sleep(DRIVER_GRACE);
            if is_overdue(reader, Clock.now()) {
                exit_lost();
            }
        }
    }
}

/// Whether the published claim has expired.
fn is_overdue(reader: &Reader, now: Instant) -> bool {
    reader.published_claim().is_some_and(|claim| claim.remaining(now).is_zero())
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the main thread, which would return from main, is stuck"
)]
fn exit_lost() -> ! {
    // The stuck thread may hold the log's lock, so another thread logs, within a timeout.
    let logging = thread::Builder::new().spawn(|| {
        let code = Exit::Lost.code();
        tracing::error!(
            event = "lost",
            reason = "fault",
            code,
            "lost leadership, and the election loop is stalled: exiting with {code}"
        );
    });
    if logging.is_ok() {
        thread::sleep(LOG_TIMEOUT);
    }
    std::process::exit(Exit::Lost.code().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::leadership::fixture::leading_since;
    use crate::driver::leadership::publish;
    use baton_election::claim::Standing;

    #[test]
    fn claim_past_its_deadline_is_overdue() {
        let at = |seconds| Instant::since_boot(Duration::from_secs(seconds));
        let (publisher, reader) = publish(Duration::from_secs(1));
        assert!(!is_overdue(&reader, at(0)));
        publisher.publish(leading_since(at(0)), at(0));
        assert!(!is_overdue(&reader, at(9)));
        assert!(is_overdue(&reader, at(10)));
        publisher.publish(Standing::Following { leader: None }, at(10));
        assert!(!is_overdue(&reader, at(11)));
    }
}
