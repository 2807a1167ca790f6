//! Counts allocations and the heap's peak while a case runs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A heap beyond this ends the process: the case fails without taking the machine with it.
const MOST: usize = 3 << 30;

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

impl Counting {
    /// The heap may grow by this much.
    fn grow(size: usize) -> bool {
        let current = CURRENT.fetch_add(size, Relaxed) + size;
        PEAK.fetch_max(current, Relaxed);
        BLOCKS.fetch_add(1, Relaxed);
        BYTES.fetch_add(size, Relaxed);
        current <= MOST
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::grow(layout.size()) {
            return std::ptr::null_mut();
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        CURRENT.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Self::grow(size) {
            return std::ptr::null_mut();
        }
        CURRENT.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What a case took at one size.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Bytes that came in, from the server or the embedder.
    pub input: usize,
    /// The heap's peak above what was there before.
    pub peak: usize,
    /// Allocations, reallocations included.
    pub blocks: usize,
    /// Bytes in these allocations.
    pub bytes: usize,
}

/// Runs what a case is about, on `input` bytes that are there already. What it returns is dropped afterwards.
pub fn measure<R>(input: usize, run: impl FnOnce() -> R) -> Cost {
    let (mut run, mut result) = (Some(run), None);
    let before = CURRENT.load(Relaxed);
    PEAK.store(before, Relaxed);
    let (blocks, bytes) = (BLOCKS.load(Relaxed), BYTES.load(Relaxed));
    measured(&mut || result = run.take().map(|run| run()));
    let cost = Cost {
        input,
        peak: PEAK.load(Relaxed).saturating_sub(before),
        blocks: BLOCKS.load(Relaxed) - blocks,
        bytes: BYTES.load(Relaxed) - bytes,
    };
    drop(black_box(result));
    cost
}

/// The function whose instructions are counted, by its name.
#[inline(never)]
fn measured(run: &mut dyn FnMut()) {
    run();
    // Something follows the call, so that it is no tail call.
    black_box(());
}
