//! Texts with equal values of the unkeyed hash that shortens exposed names. Anybody can compute such texts.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses its own part")]

/// The hash that shortens names; its last 32 bits are the digits in exposed names. No release may change it.
pub fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(start(bytes.len()), |hash, word| step(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

fn start(len: usize) -> u64 {
    mix(len as u64 ^ ODD)
}

fn step(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(ODD).rotate_left(29)
}

fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The text, padded with spaces to a multiple of eight bytes.
pub fn padded(text: &str) -> String {
    format!("{text:<0$}", text.len().next_multiple_of(8))
}

/// Pairs of texts of 16 bytes each. Appended to `before` in order, one text of each pair, all choices give the same
/// hash, whatever follows, in texts of each of these lengths.
pub fn pairs(before: &[u8], lengths: &[usize], count: usize) -> Vec<[String; 2]> {
    let (words, rest) = before.as_chunks::<8>();
    assert!(rest.is_empty(), "the hash reads words of eight bytes");
    let follow = |state: u64, words: &[u64]| words.iter().fold(state, |state, word| step(state, *word));
    let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let mut states: Vec<_> = lengths.iter().map(|length| follow(start(*length), &words)).collect();
    let letters = |number: u64| (0..8).fold(0, |word, at| word | (0x60 | (number >> (4 * at) & 0xF)) << (8 * at));
    let text = |words: [u64; 2]| String::from_utf8(words.map(u64::to_le_bytes).concat()).unwrap();
    let mut found = vec![];
    for _ in 0..count {
        // Changing a bit of one word changes a single bit of the state, in half of the states. The next word changes it
        // back.
        let candidates = (0..100_000).map(|number| {
            let [a, b] = [letters(number), letters(!number)];
            [[a, b], [a ^ 1 << 62, b ^ 1 << 27]]
        });
        let collide = |[one, other]: &[[u64; 2]; 2]| states.iter().all(|it| follow(*it, one) == follow(*it, other));
        let pair = candidates.into_iter().find(collide).expect("a pair");
        states = states.iter().map(|state| follow(*state, &pair[0])).collect();
        found.push(pair.map(text));
    }
    found
}
