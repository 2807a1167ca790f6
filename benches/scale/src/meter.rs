//! Counts allocations and the heap's peak while a case runs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Maximum heap. Beyond it the process ends, before it exhausts the machine's memory.
const MOST: usize = 3 << 30;

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

impl Counting {
    /// Whether the heap may grow by this much.
    fn grow(size: usize) -> bool {
        let current = CURRENT.fetch_add(size, Relaxed) + size;
        PEAK.fetch_max(current, Relaxed);
        BLOCKS.fetch_add(1, Relaxed);
        BYTES.fetch_add(size, Relaxed);
        current <= MOST
    }
}

// SAFETY: every call is forwarded to the system allocator; `realloc` does what the default implementation does.
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
        // Always copies: whether the system's `realloc` can grow in place depends on what ran before.
        unsafe {
            let grown = System.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !grown.is_null() {
                std::ptr::copy_nonoverlapping(block, grown, layout.size().min(size));
                System.dealloc(block, layout);
            }
            grown
        }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The cost of a case at one size.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Bytes of input from the server or the embedder.
    pub input: usize,
    /// Peak of the heap above its size before the case.
    pub peak: usize,
    /// Number of allocations, including reallocations.
    pub blocks: usize,
    /// Bytes of these allocations.
    pub bytes: usize,
}

/// Runs and measures a case, whose `input` bytes already exist. The result is dropped afterwards.
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

/// Callgrind counts the instructions of this function, by its name.
#[inline(never)]
fn measured(run: &mut dyn FnMut()) {
    run();
    // Code after the call prevents a tail call.
    black_box(());
}
