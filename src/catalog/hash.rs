/// A fast hash without a key: the same in every release, on every machine.
///
/// An attacker can construct collisions. Use it to order and index, never to decide that texts are equal.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hash = mix(bytes.len() as u64 ^ ODD);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(ODD).rotate_left(29);
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    mix(hash ^ u64::from_le_bytes(last))
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection in which every input bit affects every output bit (the finaliser of MurmurHash3).
const fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
