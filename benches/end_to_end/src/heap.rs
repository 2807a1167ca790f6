//! The same, where the heap is counted.

use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

fn main() {
    end_to_end::run(Some(&HEAP));
}
