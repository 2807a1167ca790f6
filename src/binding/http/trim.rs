use alloc::collections::VecDeque;

/// Entries for which a queue keeps memory.
const KEPT: usize = 4;

/// Releases the memory of a rarely used queue when it is empty.
pub(super) fn release<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() {
        *queue = VecDeque::new();
    }
}

/// Releases the memory of a queue after a burst, when most of it is empty.
pub(super) fn trim<T>(queue: &mut VecDeque<T>) {
    let room = queue.capacity();
    if room > KEPT && queue.len() <= room / 4 {
        queue.shrink_to((room / 2).max(KEPT));
    }
}
