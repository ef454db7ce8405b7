//! How slow the machine is while a test runs: how long calls of the API server take, one after the other, each over a
//! connection of its own. Bounds that add what was measured hold on a busy machine, and stay tight on an idle one.

use crate::rig::{Access, ELECTION};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const BETWEEN_CALLS: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Meter(Mutex<Vec<(Instant, Duration)>>);

impl Meter {
    /// Measures until `test` is over.
    pub(super) fn during<T>(access: &Access, test: impl FnOnce(&Self) -> T) -> T {
        let meter = Self::default();
        thread::scope(|scope| {
            let (over, is_over) = mpsc::channel::<()>();
            scope.spawn(|| {
                let is_over = is_over;
                while is_over.recv_timeout(BETWEEN_CALLS) == Err(RecvTimeoutError::Timeout) {
                    meter.call(access);
                }
            });
            let result = test(&meter);
            drop(over);
            result
        })
    }

    /// The longest call since `begun`.
    pub(super) fn longest(&self, access: &Access, begun: Instant) -> Duration {
        self.call(access);
        let calls = self.calls();
        let since = calls.iter().filter(|(at, took)| *at + *took >= begun);
        since.map(|(_, took)| *took).max().expect("there was one just now")
    }

    /// How long a release and the acquisition by a candidate of ours may take in the median of many, on this machine as it
    /// is: README promises 100 ms. The leader releases by a call, or two if it is client-go's; ours hears of it,
    /// connects, reads and writes. That takes as long as three calls of the meter, or four where the
    /// machine is busy; as many again are for noise.
    pub(super) fn release(&self) -> Duration {
        let mut took: Vec<Duration> = self.calls().iter().map(|(_, took)| *took).collect();
        took.sort();
        Duration::from_millis(10) + 8 * took[took.len() / 2]
    }

    fn call(&self, access: &Access) {
        let asked = Instant::now();
        // An answer that does not come has taken its time too.
        drop(access.lease(ELECTION));
        let call = (asked, asked.elapsed());
        self.0.lock().expect("nobody panics with it").push(call);
    }

    fn calls(&self) -> Vec<(Instant, Duration)> {
        self.0.lock().expect("nobody panics with it").clone()
    }
}
