/// The bytes after a string's closing quote; `bytes` starts after the opening quote. `None` if the string does not end,
/// or contains a control character or an escape that `escape` rejects. `escape` takes the bytes after a backslash, and
/// returns the bytes after the escape.
#[inline(always)]
pub(super) fn after_string<'a>(
    mut bytes: &'a [u8],
    mut escape: impl FnMut(&'a [u8]) -> Option<&'a [u8]>,
) -> Option<&'a [u8]> {
    loop {
        let (byte, rest) = after_plain(bytes)?;
        bytes = match byte {
            b'"' => return Some(rest),
            b'\\' => escape(rest)?,
            _ => return None,
        };
    }
}

/// The first quote, backslash or control character, and the bytes after it.
///
/// These bytes end a run of plain characters in a JSON string, and must be escaped in one.
#[inline(always)]
pub(super) fn after_plain(mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    while let Some((word, rest)) = bytes.split_first_chunk() {
        let hits = hits(*word);
        if hits != 0 {
            let before = hits.trailing_zeros() as usize / 8;
            return bytes.get(before..)?.split_first().map(|(byte, rest)| (*byte, rest));
        }
        bytes = rest;
    }
    after_plain_in_less(bytes)
}

const fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | ..b' ')
}

#[inline(never)]
fn after_plain_in_less(mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        let (byte, rest) = bytes.split_first()?;
        if is_special(*byte) {
            return Some((*byte, rest));
        }
        bytes = rest;
    }
}

/// Whether the bytes contain no quote, backslash or control character.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    match bytes.last_chunk() {
        // The last word may overlap the one before it.
        Some(last) => bytes.as_chunks().0.iter().all(|word| hits(*word) == 0) && hits(*last) == 0,
        None => !bytes.iter().any(|byte| is_special(*byte)),
    }
}

/// Whether the bytes contain a backslash.
pub(super) fn has_backslash(bytes: &[u8]) -> bool {
    let in_word = |word: &[u8; 8]| {
        let others = u64::from_le_bytes(*word) ^ every(b'\\');
        others.wrapping_sub(every(1)) & !others & every(1 << 7) != 0
    };
    match bytes.last_chunk() {
        // The last word may overlap the one before it.
        Some(last) => bytes.as_chunks().0.iter().any(in_word) || in_word(last),
        None => bytes.contains(&b'\\'),
    }
}

/// Whether text contains one of two pairs of bytes.
pub(super) fn has_either_pair(mut bytes: &[u8], one: [u8; 2], other: [u8; 2]) -> bool {
    let is_it = |pair: [u8; 2]| (pair == one) | (pair == other);
    // The loop over a block has no exit, so that the compiler vectorizes it. The last byte of a block is the first of the
    // next one.
    let in_block = |block: &[u8; 33]| {
        let pairs = block.iter().zip(block.iter().skip(1));
        pairs.fold(0, |found, (first, second)| found | u8::from(is_it([*first, *second]))) != 0
    };
    let Some(last) = bytes.last_chunk() else {
        return bytes.windows(2).any(|pair| <[u8; 2]>::try_from(pair).is_ok_and(is_it));
    };
    while let Some(block) = bytes.first_chunk() {
        if in_block(block) {
            return true;
        }
        bytes = bytes.get(32..).unwrap_or_default();
    }
    in_block(last)
}

/// Whether text contains one of two bytes.
pub(super) fn has_either(bytes: &[u8], one: u8, other: u8) -> bool {
    let is_it = |byte: &u8| (*byte == one) | (*byte == other);
    // The loop over a block has no exit, so that the compiler vectorizes it.
    let in_block = |block: &[u8; 32]| block.iter().fold(0, |found, byte| found | u8::from(is_it(byte))) != 0;
    match bytes.last_chunk() {
        // The last block may overlap the one before it.
        Some(last) => bytes.as_chunks().0.iter().any(in_block) || in_block(last),
        None => bytes.iter().any(is_it),
    }
}

/// Sets the highest bit of each byte that is a quote, a backslash or a control character. Bytes after the first such
/// byte may be set as well.
#[inline(always)]
const fn hits(word: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(word);
    // Swaps the quote with the space, so that it follows the control characters.
    let low = (word ^ every(b'"' ^ b' ')).wrapping_sub(every(b' ' + 1));
    let backslash = (word ^ every(b'\\')).wrapping_sub(every(1));
    // The subtraction sets the highest bit of each byte that is less than the subtrahend, unless the bit was set
    // before. Its borrow may set the bit of higher bytes too.
    (low | backslash) & !word & every(1 << 7)
}

const fn every(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_found_at_any_position_in_any_text() {
        for byte in 0..=u8::MAX {
            let special = matches!(byte, b'"' | b'\\' | 0..=0x1f);
            for around in [b'a', b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                for len in (1..20).chain([47, 48, 49, 64, 90]) {
                    for place in 0..len {
                        let mut bytes = alloc::vec![around; len];
                        bytes[place] = byte;
                        let expected = special.then(|| (byte, &bytes[place + 1..]));
                        assert_eq!(after_plain(&bytes), expected, "{bytes:x?}");
                        assert_eq!(is_plain(&bytes), !special, "{bytes:x?}");
                    }
                }
            }
        }
    }

    #[test]
    fn backslashes_are_found_wherever_they_stand() {
        for len in (0..30).chain(31..75) {
            for around in [b'a', b'[', b']', b'\\' ^ 0x80, 0, 0xff] {
                let mut bytes = alloc::vec![around; len];
                assert!(!has_backslash(&bytes) && !has_either(&bytes, b'\\', b'-'), "{bytes:x?}");
                for place in 0..len {
                    bytes[place] = b'\\';
                    assert!(has_backslash(&bytes), "{bytes:x?}");
                    assert!(has_either(&bytes, b'\\', b'-') && has_either(&bytes, b'-', b'\\'), "{bytes:x?}");
                    bytes[place] = around;
                }
            }
        }
    }

    #[test]
    fn pairs_are_found_wherever_they_stand() {
        for len in (0..40).chain(60..70).chain([95, 96, 97, 98, 129, 130]) {
            for around in [b'T', b's', b'u', b'\\', 0xff] {
                let mut bytes = alloc::vec![around; len];
                assert!(!has_either_pair(&bytes, *b"sT", *b"\\u"), "{bytes:x?}");
                for place in 0..len.saturating_sub(1) {
                    for pair in [*b"sT", *b"\\u"] {
                        bytes[place..place + 2].copy_from_slice(&pair);
                        assert!(has_either_pair(&bytes, *b"sT", *b"\\u"), "{bytes:x?}");
                        bytes[place..place + 2].fill(around);
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_of_many_counts() {
        for (text, expected) in [
            ("ab\"\\\n\"", Some((b'"', "\\\n\""))),
            ("\\\n\"", Some((b'\\', "\n\""))),
            ("abcdefghi\n\"\\", Some((b'\n', "\"\\"))),
            ("ab", None),
            ("", None),
        ] {
            assert_eq!(after_plain(text.as_bytes()), expected.map(|(byte, rest)| (byte, rest.as_bytes())), "{text:?}");
        }
    }
}
