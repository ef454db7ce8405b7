//! Asks the API server for the rights on the Lease, and for its wall clock.
//!
//! Touches the API server, through [`LeaseStore`]. Start with [`Report::rights`].

use super::report::{Report, Verdict};
use crate::error_chain::ErrorChain;
use crate::process::clock::Clock;
use crate::process::exit::Exit;
use crate::store::kubernetes::{AccessReport, LeaseStore};
use std::time::{Duration, SystemTime};

/// The smallest difference between wall clocks that is reported. `Date` has whole seconds, and an
/// answer takes a while.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);

impl Report {
    /// Asks the API server for the rights on the Lease, and for the time.
    pub(super) async fn rights(&mut self, store: &LeaseStore) {
        match store.rights().await {
            Ok(AccessReport { missing, server_time }) => {
                self.missing(missing.as_deref());
                if let Some(server_time) = server_time {
                    self.clock(server_time, Clock.wall());
                }
            }
            // Reading the Lease may report the same cause.
            Err(error) => {
                let text = format!("not checked: {}", ErrorChain(&error));
                let first = text.lines().next().unwrap_or_default();
                self.line(Verdict::Warning, "rights", &first);
            }
        }
    }

    fn missing(&mut self, missing: Option<&[&str]>) {
        match missing {
            Some([]) => self.line(Verdict::Ok, "rights", &"get, watch, create, and update"),
            Some(missing) => {
                let text = format!(
                    "the account lacks {}: grant what baton rbac prints",
                    missing.join(", ")
                );
                self.line(Verdict::Failure(Exit::Refused), "rights", &text);
            }
            None => {
                let text = "the API server does not say which rights the account has";
                self.line(Verdict::Warning, "rights", &text);
            }
        }
    }

    /// Compares the wall clocks. Certificates and tokens depend on them; the election does not.
    fn clock(&mut self, server: SystemTime, own: SystemTime) {
        let (difference, direction) = match own.duration_since(server) {
            Ok(ahead) => (ahead, "ahead of"),
            Err(behind) => (behind.duration(), "behind"),
        };
        if difference < MAX_CLOCK_DIFFERENCE {
            let text = format!(
                "the wall clock agrees with the API server's within {MAX_CLOCK_DIFFERENCE:?}"
            );
            return self.line(Verdict::Ok, "clock", &text);
        }
        let text = format!(
            "this machine's wall clock is {} {direction} the API server's, so tokens and \
             certificates may be refused: synchronize both by NTP",
            humantime::format_duration(Duration::from_secs(difference.as_secs()))
        );
        self.line(Verdict::Warning, "clock", &text);
    }
}
