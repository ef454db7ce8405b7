//! A thread that ends the process when a claim runs out and nobody notices.
//!
//! Touches a thread, the clock and the process: the sole abrupt exit. A runtime that is blocked fires no timer
//! and answers nobody, so it claims nothing either; but its application would go on, and only the end of the process
//! moves that. No livenessProbe could do this: kubelet's kill moved the application in 32 of 76 cases.

use crate::driver::leadership::Reader;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use baton_election::instant::Instant;
use std::io;
use std::thread;
use std::time::Duration;

/// How far apart the two looks are. A process that was stopped and goes on is past its deadline too: then the driver
/// gets this long to notice by itself.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// How long the last line may take.
const TIME_TO_TELL: Duration = Duration::from_millis(100);

/// Watches the claims that `reader` shows, for as long as the process lives.
pub fn start(reader: Reader) -> io::Result<()> {
    thread::Builder::new().name("watchdog".to_owned()).spawn(move || watch(&reader)).map(drop)
}

fn watch(reader: &Reader) {
    loop {
        let deadline = reader.await_claim().deadline();
        // A thread's sleep stops in suspend and may be cut short: the loop asks the clock again.
        thread::sleep(deadline.since(Clock.now()));
        if is_overdue(reader, Clock.now()) {
            thread::sleep(BETWEEN_LOOKS);
            if is_overdue(reader, Clock.now()) {
                end();
            }
        }
    }
}

/// Whether a claim is published that has run out.
fn is_overdue(reader: &Reader, now: Instant) -> bool {
    reader.published_claim().is_some_and(|claim| claim.remaining(now).is_zero())
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "what would return through main is what is stuck"
)]
fn end() -> ! {
    // What is stuck may be stuck in the log, whose lock it then holds: the line gets a thread and a moment of its own.
    let told = thread::Builder::new().spawn(|| {
        let code = Exit::Lost.code();
        tracing::error!(
            event = "lost",
            reason = "fault",
            code,
            "lost leadership, and the driver did not notice: exiting with {code}"
        );
    });
    if told.is_ok() {
        thread::sleep(TIME_TO_TELL);
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
