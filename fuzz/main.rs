//! The fuzzer: bytes without end, invented so that they reach code that none before reached, for one target of `targets`.
//!
//! `fuzz/run.sh` builds and starts it. libFuzzer has `main`, and calls [`read`] for each invention; what panics is written to a
//! file, which `TARGET=… fuzz FILE` reads again. Besides what a target asserts, no reading may hold more memory than
//! the target allows for so many bytes, nor go on without end.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "which target is meant stands in the environment: libFuzzer has the arguments"
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
    let name = env::var("TARGET").expect("TARGET names what is read");
    targets::ALL.iter().find(|target| target.name == name).expect("TARGET is one of targets::ALL")
});

fuzz_target!(
    init: {
        // What is made once must not count for the first bytes.
        (TARGET.read)(&[]);
        for kind in 0..8 {
            (TARGET.read)(&[kind]);
        }
        thread::spawn(watch);
    },
    |bytes: &[u8]| read(bytes)
);

fn read(bytes: &[u8]) {
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    TURNS.fetch_add(1, Relaxed);
    (TARGET.read)(bytes);
    TURNS.fetch_add(1, Relaxed);
    let held = PEAK.load(Relaxed).saturating_sub(before);
    let (fixed, each) = TARGET.memory;
    assert!(
        held <= fixed + each * bytes.len(),
        "{held} bytes were set aside to read {}",
        bytes.len()
    );
}

/// How often a reading has begun or ended: odd while one is under way.
static TURNS: AtomicUsize = AtomicUsize::new(0);
/// A reading takes some milliseconds: one that goes on for so many seconds has no end.
const LONGEST: u32 = 60;

/// Fails when a reading has no end. Seconds are counted by its own wakings: those are few while a busy machine starves this
/// process, and none while somebody has stopped it, for then no time has passed for a reading either.
fn watch() {
    let (mut seen, mut seconds) = (0, 0);
    loop {
        thread::sleep(Duration::from_secs(1));
        let turns = TURNS.load(Relaxed);
        seconds = if turns % 2 == 1 && turns == seen { seconds + 1 } else { 0 };
        assert!(seconds < LONGEST, "a reading did not end in {LONGEST} s");
        seen = turns;
    }
}

#[global_allocator]
static METER: Meter = Meter;
/// Bytes that are allocated now, and the most of them since somebody set it.
static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts.
struct Meter;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
