//! The coverage-guided fuzzer for one target of [`targets`], selected by the environment variable
//! `TARGET`.
//!
//! `fuzz/run.sh` builds and starts it. libFuzzer provides `main`, calls [`run`] with each input,
//! and writes an input that panics to a file; `TARGET=… fuzz FILE` runs that input again. Besides
//! the target's own assertions, no input may exceed the target's memory limit or run for more than
//! a minute.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "the target is an environment variable because libFuzzer parses the arguments"
)]

mod targets;

use libfuzzer_sys::fuzz_target;
use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use targets::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("TARGET").expect("TARGET must be set");
    targets::ALL
        .iter()
        .find(|target| target.name == name)
        .expect("TARGET must name a target of targets::ALL")
});

fuzz_target!(
    init: {
        // Initialize lazy state first, so that it does not count as memory of the first input.
        (TARGET.read)(&[]);
        for kind in 0..8 {
            (TARGET.read)(&[kind]);
        }
        thread::spawn(watch_for_hangs);
    },
    |bytes: &[u8]| run(bytes)
);

/// Runs one input and checks its memory.
fn run(bytes: &[u8]) {
    let before = ALLOCATED.load(Relaxed);
    PEAK.store(before, Relaxed);
    BOUNDARIES.fetch_add(1, Relaxed);
    (TARGET.read)(bytes);
    BOUNDARIES.fetch_add(1, Relaxed);
    let used = PEAK.load(Relaxed).saturating_sub(before);
    let (fixed, per_byte) = TARGET.memory;
    let limit = fixed + per_byte * bytes.len();
    assert!(used <= limit, "an input of {} bytes used {used} bytes of memory", bytes.len());
}

/// How many inputs have begun plus how many have ended: odd during an input.
static BOUNDARIES: AtomicUsize = AtomicUsize::new(0);
/// An input usually takes milliseconds. After this many seconds it counts as hung.
const MAX_SECONDS: u32 = 60;

/// Panics if an input hangs. It counts its own wake-ups instead of time, so that a starved or
/// stopped process does not count as hung.
fn watch_for_hangs() {
    let (mut last, mut seconds) = (0, 0);
    loop {
        thread::sleep(Duration::from_secs(1));
        let boundaries = BOUNDARIES.load(Relaxed);
        seconds = if boundaries % 2 == 1 && boundaries == last { seconds + 1 } else { 0 };
        assert!(seconds < MAX_SECONDS, "an input did not end within {MAX_SECONDS} s");
        last = boundaries;
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
/// The bytes that are allocated now.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
/// The maximum of [`ALLOCATED`] since the current input began.
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with counters.
struct CountingAllocator;

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let allocated = ALLOCATED.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(allocated, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
