//! Measures how slow the API server is during a test: the duration of sequential calls, each on a
//! new connection. Bounds derived from it hold on a busy machine and stay tight on an idle one.

use crate::rig::{Access, ELECTION};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const BETWEEN_CALLS: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Meter(Mutex<Vec<(Instant, Duration)>>);

impl Meter {
    /// Measures for as long as `test` runs.
    pub(super) fn during<T>(access: &Access, test: impl FnOnce(&Self) -> T) -> T {
        let meter = Self::default();
        thread::scope(|scope| {
            let (stop, stopped) = mpsc::channel::<()>();
            scope.spawn(|| {
                let stopped = stopped;
                while stopped.recv_timeout(BETWEEN_CALLS) == Err(RecvTimeoutError::Timeout) {
                    meter.call(access);
                }
            });
            let result = test(&meter);
            drop(stop);
            result
        })
    }

    /// The longest call since `begun`.
    pub(super) fn longest(&self, access: &Access, begun: Instant) -> Duration {
        self.call(access);
        let calls = self.calls();
        let since = calls.iter().filter(|(at, took)| *at + *took >= begun);
        since.map(|(_, took)| *took).max().expect("there was a call just now")
    }

    /// How long a release and the acquisition by a candidate of ours may take in the median, on
    /// this machine now. The guarantees promise 100 ms. The leader releases with one call, or two for
    /// client-go. Ours receives the watch event, connects, reads, and writes. That takes three of
    /// the meter's calls, or four on a busy machine; the bound is twice that.
    pub(super) fn release(&self) -> Duration {
        let mut took: Vec<Duration> = self.calls().iter().map(|(_, took)| *took).collect();
        took.sort();
        Duration::from_millis(10) + 8 * took[took.len() / 2]
    }

    fn call(&self, access: &Access) {
        let asked = Instant::now();
        // A call that fails has taken its time, too.
        drop(access.lease(ELECTION));
        let call = (asked, asked.elapsed());
        self.0.lock().expect("no holder panics").push(call);
    }

    fn calls(&self) -> Vec<(Instant, Duration)> {
        self.0.lock().expect("no holder panics").clone()
    }
}
