//! Measures the machine while cases run: late wake-ups of a sleeping thread, and runnable tasks.
//!
//! It reads the monotonic clock and `/proc/loadavg`. Start with [`Sampler::begin`].

use std::fs;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the thread sleeps at a time.
const SLEEP: Duration = Duration::from_millis(5);
/// The span that one slot covers.
const SLOT: Duration = Duration::from_millis(250);
/// The window for late wake-ups, in slots: one second.
const LATE_SLOTS: usize = 4;
/// The window for runnable tasks, in slots: ten seconds, so that the start of a single server does
/// not count as a crowd.
const CROWD_SLOTS: usize = 40;

/// The longest wait for a sample: far longer than a crowd delays a thread.
const SAMPLE_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Sampler {
    begun: Instant,
    samples: Arc<Samples>,
}

#[derive(Default)]
struct Samples {
    /// The slots, and the end of the last sample.
    taken: Mutex<(Vec<Slot>, Option<Instant>)>,
    one_more: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    late: Duration,
    runnable: u32,
    samples: u32,
}

impl Sampler {
    /// Samples until the process ends.
    pub(crate) fn begin() -> Self {
        let this = Self { begun: Instant::now(), samples: Arc::default() };
        let (begun, samples) = (this.begun, Arc::clone(&this.samples));
        thread::spawn(move || {
            // Counts from wake-up to wake-up, so that no pause falls between two measurements.
            let mut last_awake = begun;
            loop {
                thread::sleep(SLEEP);
                let awake = Instant::now();
                let late = awake.duration_since(last_awake).saturating_sub(SLEEP);
                last_awake = awake;
                let mut taken = locked(&samples.taken);
                let (slots, ended) = &mut *taken;
                *ended = Some(awake);
                samples.one_more.notify_all();
                let at = slot(begun.elapsed());
                let is_new = at >= slots.len();
                if is_new {
                    slots.resize(at + 1, Slot::default());
                }
                slots[at].late += late;
                if is_new && let Some(runnable) = runnable() {
                    slots[at].runnable += runnable;
                    slots[at].samples += 1;
                }
            }
        });
        this
    }

    /// The most that the thread lost to late wake-ups within a second, since then.
    pub(crate) fn lost(&self, since: Instant) -> Duration {
        self.await_sample();
        let slots = self.since(since);
        let windows = slots.windows(LATE_SLOTS.min(slots.len()).max(1));
        windows.map(|window| window.iter().map(|slot| slot.late).sum()).max().unwrap_or_default()
    }

    /// Waits for a sample that ends after this call. A pause that just ended is recorded when the
    /// sampling thread runs again, which may be long after the thread that calls this.
    fn await_sample(&self) {
        let called = Instant::now();
        let is_old =
            |(_, ended): &mut (Vec<Slot>, Option<Instant>)| ended.is_none_or(|at| at <= called);
        let taken = locked(&self.samples.taken);
        let waited = self.samples.one_more.wait_timeout_while(taken, SAMPLE_PATIENCE, is_old);
        drop(waited);
    }

    /// The most runnable tasks per processor since then, averaged over ten seconds.
    pub(crate) fn crowd(&self, since: Instant) -> f64 {
        let slots = self.since(since);
        let windows = slots.windows(CROWD_SLOTS.min(slots.len()).max(1));
        let means = windows.map(|window| {
            let [runnable, samples] = [
                window.iter().map(|slot| slot.runnable).sum::<u32>(),
                window.iter().map(|slot| slot.samples).sum(),
            ];
            f64::from(runnable) / f64::from(samples.max(1))
        });
        means.fold(0.0, f64::max) / processors()
    }

    fn since(&self, since: Instant) -> Vec<Slot> {
        let first = slot(since.saturating_duration_since(self.begun));
        locked(&self.samples.taken).0.get(first..).unwrap_or_default().to_vec()
    }
}

/// How many processors this process may use.
pub(crate) fn processors() -> f64 {
    let count = thread::available_parallelism()
        .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    f64::from(count)
}

/// How many tasks are runnable now, without the caller: `0.52 0.63 0.41 3/412 4711`.
fn runnable() -> Option<u32> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let (runnable, _) = load.split(' ').nth(3)?.split_once('/')?;
    Some(runnable.parse::<u32>().ok()?.saturating_sub(1))
}

fn slot(since_begun: Duration) -> usize {
    usize::try_from(since_begun.as_millis() / SLOT.as_millis()).expect("no run lasts that long")
}

/// Locks even a mutex that a failed case has poisoned.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
