/// The position of the first line ending. Words without a control character are skipped, and blocks of words first.
pub(super) fn line_end(bytes: &[u8]) -> Option<usize> {
    const WORD: usize = 8;
    let ends = |byte: &u8| *byte == b'\n' || *byte == b'\r';
    let mut start = 0_usize;
    for block in bytes.as_chunks::<{ 4 * WORD }>().0 {
        // Without an exit from the loop the compiler vectorizes it.
        if block.iter().fold(0, |found, byte| found | u8::from(*byte < 16)) != 0 {
            break;
        }
        start = start.saturating_add(block.len());
    }
    for word in bytes.get(start..)?.as_chunks::<WORD>().0 {
        let found = controls(*word);
        if found != 0 {
            start = start.saturating_add(found.trailing_zeros() as usize / WORD);
            break;
        }
        start = start.saturating_add(WORD);
    }
    bytes.get(start..)?.iter().position(ends).map(|at| start.saturating_add(at))
}

/// Zero if none of these eight bytes is below 16, as the bytes that end lines are; else the lowest set bit is the
/// highest bit of the first such byte.
const fn controls(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let high = u64::from_le_bytes(word) & (ONES << 4).wrapping_mul(0xf);
    high.wrapping_sub(ONES) & !high & (ONES << 7)
}
